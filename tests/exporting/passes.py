"""Exported passes loaded: on the stub of the Graph Engine's package, or on our own of the same interface."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

STUBS = Path(__file__).with_name("stubs")

NAMES = ("ge", "ge.es", "ge.es.all", "ge.passes")


@contextmanager
def package(modules: dict[str, ModuleType] | None = None) -> Iterator[None]:
    """Let `import ge` find the stub, or the modules given."""
    kept = {name: sys.modules.pop(name) for name in NAMES if name in sys.modules}
    sys.path.insert(0, str(STUBS / "python"))
    sys.modules.update(modules or {})
    try:
        yield
    finally:
        sys.path.remove(str(STUBS / "python"))
        for name in NAMES:
            sys.modules.pop(name, None)
        sys.modules.update(kept)


def run_module(text: str, name: str = "exported_passes") -> dict[str, Any]:
    """Run an exported module and return its names."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(text, f"{name}.py", "exec"), names)
    return names


def on_stub(text: str) -> dict[str, Any]:
    """The passes of a module by name, on the stub."""
    with package():
        names = run_module(text)
        return dict(sys.modules["ge.passes"].REGISTERED) | {"module": names}


def on_ours(text: str) -> list[str]:
    """Register the passes of a module with our own package; returns the names of their rules."""
    from gerules.compat import ge
    from gerules.compat.ge.es import all as operators

    with package({"ge": ge, "ge.es": ge.es, "ge.es.all": operators, "ge.passes": ge.passes}):
        known = set(ge.passes.get_registered_passes())
        run_module(text)
        found = ge.passes.get_registered_passes()
    return [rule for name, rules in found.items() if name not in known for rule in rules]


def cpp_compiler() -> str:
    """The C++ compiler of this machine; without one the test is skipped, in CI it fails."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        assert not os.environ.get("CI"), "install g++: exported C++ is checked by compiling it"
        pytest.skip("there is no C++ compiler here")
    return compiler
