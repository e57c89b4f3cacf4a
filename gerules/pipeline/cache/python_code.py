"""What Python functions of rules are made of: code, what it refers to, and the files it comes from.

A function that rules call is pure by contract, so what it computes follows from its code, its defaults, what
it closes over, and the globals it reads, through every function and module of the user that these lead to.
Of installed packages the version counts. What else it reads, such as an object of a class, has no digest.
"""

from __future__ import annotations

import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, cast

_MAX_PARTS: Final = 10_000

Add = Callable[[object], None]


class Uncacheable(Exception):  # noqa: N818 - it becomes a note
    """A result follows from something that has no digest; the text says from what."""


def add_function(function: object, add: Add) -> None:
    """Add all that a function is made of. Raises Uncacheable."""
    _Reader(add).read(function, getattr(function, "__name__", "a function"))


class _Reader:
    def __init__(self, add: Add) -> None:
        self._add = add
        self._seen: set[int] = set()
        self._modules: set[str] = set()

    def read(self, value: object, name: str) -> None:
        """Add whatever a function refers to by a name."""
        if isinstance(value, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType):
            if id(value) in self._seen:
                return
            self._seen.add(id(value))
            if len(self._seen) > _MAX_PARTS:
                raise Uncacheable(f"what {name} leads to does not end")
        if isinstance(value, types.ModuleType):
            self._module(value.__name__)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, type) or _is_of_module(value):
            module = str(getattr(value, "__module__", "") or "")
            self._add((name, module, str(getattr(value, "__qualname__", name))))
            self._module(module)
        else:
            self._plain(value, name)

    def _function(self, function: types.FunctionType) -> None:
        self._add((function.__module__, function.__qualname__))
        self._plain(function.__defaults__, function.__qualname__)
        self._plain(function.__kwdefaults__, function.__qualname__)
        self._module(function.__module__)
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self.read(wrapped, function.__qualname__)
        for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
            self.read(cell.cell_contents, name)
        if not _is_installed(sys.modules.get(function.__module__)):
            for name in self._code(function.__code__):
                if name in function.__globals__:
                    self.read(function.__globals__[name], name)

    def _code(self, code: types.CodeType) -> Iterator[str]:
        """Add a code object and yield the names of globals that it may read."""
        self._add((code.co_code, code.co_varnames, code.co_names))
        yield from code.co_names
        for item in code.co_consts:
            if isinstance(item, types.CodeType):
                yield from self._code(item)
            else:
                self._add(repr(item))

    def _plain(self, value: object, name: str) -> None:
        try:
            self._add(value)
        except (Uncacheable, TypeError):
            kind = type(value).__name__
            raise Uncacheable(f"a Python function of the rules reads {name}, a {kind}") from None

    def _module(self, name: str) -> None:
        """Add the file of a module, and of every module of the user that it uses."""
        if name in self._modules:
            return
        self._modules.add(name)
        module = sys.modules.get(name)
        if module is None or _is_installed(module):
            top = sys.modules.get(name.partition(".")[0])
            self._add((name, str(getattr(top, "__version__", ""))))
            return
        file = getattr(module, "__file__", None)
        try:
            self._add((name, Path(file).read_bytes() if file else b""))
        except OSError as error:
            raise Uncacheable(f"the file of the Python module {name} cannot be read: {error}") from None
        for value in list(vars(module).values()):
            inner: object = value.__name__ if isinstance(value, types.ModuleType) else None
            inner = inner or getattr(cast("object", value), "__module__", None)
            if isinstance(inner, str):
                self._module(inner)


def _is_of_module(value: object) -> bool:
    """Whether it is a function of compiled code, which its module's version stands for."""
    return isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType) or (
        callable(value) and _is_installed(sys.modules.get(str(getattr(value, "__module__", ""))))
    )


def _is_installed(module: types.ModuleType | None) -> bool:
    """Whether a module comes with Python or from a package, and so is as its version says."""
    file = getattr(module, "__file__", None)
    if file is None:
        return module is not None and module.__name__ != "__main__"
    path = Path(file).resolve()
    return any(path.is_relative_to(root) for root in _ROOTS)


_ROOTS: Final = tuple(
    {
        Path(found).resolve()
        for key in ("stdlib", "platstdlib", "purelib", "platlib")
        if (found := sysconfig.get_path(key))
    }
)
