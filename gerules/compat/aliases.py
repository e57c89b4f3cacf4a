"""The names that scripts import: `acl`, `ge` and `torchair` lead to the faces here and their modules."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from typing import Final

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


def _modules(package: str) -> Iterator[str]:
    yield package
    found = importlib.import_module(package)
    for item in pkgutil.walk_packages(found.__path__, f"{package}."):
        yield item.name
