"""The names that scripts import: `acl`, `ge` and `torchair` lead to the faces here and their modules."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

from gerules.pipeline.python_rules import while_importing

NAMES: Final = ("acl", "ge", "torchair")
"""What stands for what: `acl` for `gerules.compat.acl`, and so on."""

_HOME: Final = "gerules.compat"


def use_names() -> None:
    """Let `import acl`, `import ge` and `import torchair` mean gerules, in this process from now on.

    Modules that were imported under these names before stay with whoever imported them.
    """
    for name in NAMES:
        for module in _modules(f"{_HOME}.{name}"):
            # One module under two names, so that its classes are one.
            sys.modules[module.removeprefix(f"{_HOME}.")] = importlib.import_module(module)


@contextmanager
def lent_names() -> Generator[None, None, None]:
    """Let the names mean gerules meanwhile: in files of rules and passes that were written for Ascend.

    What the names meant before, they mean again afterwards.
    """
    known = {name: module for name, module in sys.modules.items() if _is_lent(name)}
    for name in known:
        del sys.modules[name]
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_lent(name)]:
            del sys.modules[name]
        sys.modules.update(known)


def lend_names() -> None:
    """Let files of rules and passes that are imported from now on say the names."""
    while_importing(lent_names)


def _modules(package: str) -> Iterator[str]:
    yield package
    found = importlib.import_module(package)
    for item in pkgutil.walk_packages(found.__path__, f"{package}."):
        yield item.name


def _is_lent(name: str) -> bool:
    return name.partition(".")[0] in NAMES


class _Finder(MetaPathFinder, Loader):
    """Finds modules of the names at home; each is one module under two names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module of one of the names comes from, None for others."""
        if not _is_lent(fullname) or importlib.util.find_spec(f"{_HOME}.{fullname}") is None:
            return None
        return ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        """Put the module at home in the place of the new one."""
        sys.modules[module.__name__] = importlib.import_module(f"{_HOME}.{module.__name__}")
