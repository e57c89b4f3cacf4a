"""What Python functions of rules are made of: code, what it refers to, and the files it comes from.

A function that rules call is pure by contract, so what it computes follows from its code, its defaults, what
it closes over, and the globals it reads, through every function, class, object and module of the user that
these lead to. Of installed packages the version counts. An object is its class and its attributes; one that
keeps more than that, such as a lock or an open file, has no digest.
"""

from __future__ import annotations

import functools
import logging
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from struct import calcsize
from typing import Final, cast, get_args, get_origin

import numpy as np

_MAX_PARTS: Final = 100_000

Add = Callable[[object], None]


class Uncacheable(Exception):  # noqa: N818 - it becomes a note
    """A result follows from something that has no digest; the text says from what."""


def add_function(function: object, add: Add) -> None:
    """Add all that a function is made of. Raises Uncacheable."""
    name = str(getattr(function, "__name__", "a function"))
    try:
        _Reader(add).read(function, name)
    except RecursionError:
        raise Uncacheable(f"what {name} leads to nests too deep") from None


_Attributes = Mapping[str, object]

_SCALARS: Final = (type(None), bool, int, float, str, bytes)
_BY_TEXT: Final = (complex, range, slice, type(...), type(NotImplemented), np.dtype)
_DESCRIPTORS: Final = (
    types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType,
)  # fmt: skip
_MADE_BY_PYTHON: Final = frozenset(
    {"__dict__", "__weakref__", "__module__", "__doc__", "_abc_impl", "__dataclass_fields__",
     "__dataclass_params__"}
)  # fmt: skip
"""Attributes of a class that say nothing its others do not say."""


class _Reader:
    def __init__(self, add: Add) -> None:
        self._add = add
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []
        self._modules: set[str] = set()

    def read(self, value: object, name: str) -> None:
        """Add whatever a function refers to by a name."""
        if type(value) in _SCALARS or isinstance(value, np.ndarray | np.generic | Path):
            self._add(cast("object", value))
        elif isinstance(value, _BY_TEXT):
            given = cast("object", value)
            self._add((type(given).__name__, repr(given)))
        else:
            place = self._seen.get(id(value))
            self._add(("part", len(self._seen) if place is None else place))
            if place is None:
                self._seen[id(value)] = len(self._seen)
                self._kept.append(value)  # as long as it lives, no other object has its id
                if len(self._seen) > _MAX_PARTS:
                    raise Uncacheable(f"what {name} leads to does not end")
                self._part(value, name)

    def _part(self, value: object, name: str) -> None:
        match value:
            case types.ModuleType():
                self._module(value.__name__)
            case types.FunctionType():
                self._function(value)
            case type() if get_origin(value) is None:
                self._class(value)
            case types.MethodType() | types.BuiltinFunctionType() | types.MethodWrapperType():
                self._add((str(value.__qualname__), str(getattr(value, "__module__", ""))))
                self._all((getattr(value, "__func__", None), value.__self__), name)
            case staticmethod() | classmethod():
                self.read(getattr(cast("object", value), "__func__", None), name)
            case property():
                self._all((value.fget, value.fset, value.fdel), name)
            case functools.cached_property():
                self.read(cast("object", value.func), name)
            case functools.partial():
                self._all((value.func, value.args, value.keywords), name)
            case re.Pattern():
                self._add(repr(cast("object", value)) + str(value.flags))
            case logging.Logger():
                self._add(("logger", value.name))  # what it is told changes no result
            case _ if isinstance(value, _DESCRIPTORS):
                self._add(("descriptor", value.__qualname__))
            case _ if get_origin(value) is not None:
                self._all((get_origin(value), *get_args(value)), name)
            case _ if (home := _home_of(value)) is not None:
                self._add(home)
                self._module(home[0])
            case _:
                self._object(value, name)

    def _all(self, values: Iterable[object], name: str) -> None:
        items = list(values)
        self._add(len(items))
        for item in items:
            self.read(item, name)

    def _function(self, function: types.FunctionType) -> None:
        self._add((function.__module__, function.__qualname__))
        self.read(function.__defaults__, function.__qualname__)
        self.read(function.__kwdefaults__, function.__qualname__)
        self._module(function.__module__)
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self.read(wrapped, function.__qualname__)
        for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
            try:
                content = cast("object", cell.cell_contents)
            except ValueError:  # nothing is in it yet
                content = None
            self.read(content, name)
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
                self._add(_constant_text(item))

    def _class(self, cls: type) -> None:
        """Add a class: one of the user's with what it is made of, down to the values of its attributes."""
        self._add((cls.__module__, cls.__qualname__))
        self._module(cls.__module__)
        if _is_installed(sys.modules.get(cls.__module__)):
            return
        self._all((type(cls), *cls.__bases__), cls.__qualname__)
        self._attributes({key: item for key, item in vars(cls).items() if key not in _MADE_BY_PYTHON})

    def _attributes(self, found: _Attributes) -> None:
        self._add(len(found))
        for key, item in sorted(found.items()):
            self._add(key)
            self.read(item, key)

    def _object(self, value: object, name: str) -> None:
        """Add an object: its class, its attributes, and the items of a container."""
        self.read(type(value), name)
        if isinstance(value, Enum):
            self._add(value.name)
            return
        if isinstance(value, dict | types.MappingProxyType):
            pairs = cast("Mapping[object, object]", value)
            self._all((item for pair in pairs.items() for item in pair), name)
        elif isinstance(value, list | tuple):
            self._all(cast("list[object]", value), name)
        elif isinstance(value, set | frozenset):
            self._set(cast("frozenset[object]", value), name)
        elif isinstance(value, str | bytes | int | float):
            self._add(repr(value))
        elif not _is_plain(type(value)):
            raise Uncacheable(f"a Python function of the rules reads {name}, a {type(value).__name__}")
        self._attributes(_attributes_of(cast("object", value)))

    def _set(self, items: frozenset[object], name: str) -> None:
        try:
            self._all(sorted(cast("frozenset[str]", items)), name)
        except TypeError:
            # The order of anything else differs from process to process.
            raise Uncacheable(f"a Python function of the rules reads {name}, a set") from None

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


def _constant_text(item: object) -> str:
    """A constant of code as a text; the order of a set of texts differs from process to process."""
    return repr(sorted(map(repr, cast("frozenset[object]", item))) if isinstance(item, frozenset) else item)


def _home_of(value: object) -> tuple[str, str] | None:
    """Where an installed module keeps this very object under its own name, such as a ufunc."""
    name = getattr(value, "__name__", None)
    module = sys.modules.get(str(getattr(value, "__module__", "") or ""))
    if module is None or not isinstance(name, str) or not _is_installed(module):
        return None
    return (module.__name__, name) if getattr(module, name, None) is value else None


def _is_plain(cls: type) -> bool:
    """Whether objects of a class have attributes and slots, and no memory of C's own beside them."""
    bases = cls.__mro__[:-1]
    n_words = sum(
        len(_slots(base)) + ("__dict__" in vars(base)) + ("__weakref__" in vars(base)) for base in bases
    )
    return cls.__basicsize__ <= object.__basicsize__ + _WORD_BYTES * n_words


_WORD_BYTES: Final = calcsize("P")


def _slots(cls: type) -> list[str]:
    return [name for name, item in vars(cls).items() if isinstance(item, types.MemberDescriptorType)]


def _attributes_of(value: object) -> dict[str, object]:
    found: dict[str, object] = {
        name: getattr(value, name)
        for base in type(value).__mro__
        for name in _slots(base)
        if hasattr(value, name)
    }
    return found | dict(getattr(value, "__dict__", {}))


def _is_installed(module: types.ModuleType | None) -> bool:
    """Whether a module comes with Python, from a package or from gerules, and so is as its version says."""
    file = getattr(module, "__file__", None)
    if file is None:
        return module is not None and module.__name__ != "__main__"
    path = Path(file).resolve()
    return any(path.is_relative_to(root) for root in _ROOTS)


_ROOTS: Final = (
    Path(__file__).resolve().parents[2],  # its files are part of every key
    *{
        Path(found).resolve()
        for key in ("stdlib", "platstdlib", "purelib", "platlib")
        if (found := sysconfig.get_path(key))
    },
)
