"""What other packages add by entry points, looked for when first needed: rules, devices, front ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal, cast

from gerules.dsl import RuleBook, load_rules
from gerules.errors import Diagnostic, GerulesError, table
from gerules.frontends import Frontend, ModelError
from gerules.ir import Graph
from gerules.ir.verify import broken_invariants
from gerules.ops import Schemas

RULES: Final = "gerules.rules"
DEVICES: Final = "gerules.devices"
FRONTENDS: Final = "gerules.frontends"
GROUPS: Final = (DEVICES, RULES, FRONTENDS)
"""The groups of entry points, in the order in which they are read."""

SWITCH: Final = "GERULES_PLUGINS"
"""The environment variable that switches all of them off: `0`."""

Status = Literal["used", "failed", "off"]


@dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point: what it is, which package it is of, what came of it.

    `gives` are the names of its rules and devices, or the endings that it reads. `fault` says why it failed.
    """

    group: str
    name: str
    value: str
    distribution: str
    status: Status
    gives: tuple[str, ...] = ()
    fault: Diagnostic | None = None

    def as_json(self) -> dict[str, object]:
        """Return the plugin as plain values."""
        return {
            "group": self.group,
            "name": self.name,
            "value": self.value,
            "distribution": self.distribution,
            "status": self.status,
            "gives": list(self.gives),
            "error": None if self.fault is None else self.fault.as_json(),
        }


@dataclass(frozen=True, slots=True)
class Found:
    """What the plugins of a kind came to: each of them, and what they give together."""

    plugins: tuple[Plugin, ...] = ()
    frontends: Mapping[str, Frontend] = field(default_factory=dict[str, Frontend])
    """By ending."""

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What failed."""
        return tuple(item.fault for item in self.plugins if item.fault is not None)


class _Unusable(Exception):  # noqa: N818 - it becomes a fault with the name of the package
    pass


def are_off() -> bool:
    """Whether the user runs without plugins."""
    return os.environ.get(SWITCH, "").strip() == "0"


def list_plugins(base: RuleBook) -> tuple[Plugin, ...]:
    """Return all plugins and what each came to; with plugins switched off, only which there are."""
    if are_off():
        return tuple(
            Plugin(group, point.name, point.value, _package(point), "off")
            for group in GROUPS
            for point in _points(group)
        )
    _, found = add_rules(base)
    return (*found.plugins, *find_frontends().plugins)


def add_rules(base: RuleBook) -> tuple[RuleBook, Found]:
    """Extend a book by the devices and rules of plugins; one that is at fault is left out as a whole."""
    if are_off():
        return base, Found()
    return _add_rules(base)


@cache
def _add_rules(base: RuleBook) -> tuple[RuleBook, Found]:
    plugins: list[Plugin] = []
    book = base
    for group in (DEVICES, RULES):
        for point in _points(group):
            try:
                larger = load_rules(_paths_of(_load(point)), schemas=Schemas(), base=book)
            except _Unusable as unusable:
                plugins.append(_failed(point, group, str(unusable)))
            except GerulesError as error:
                first = error.diagnostics[0]
                where = f" ({first.span})" if first.span is not None else ""
                plugins.append(_failed(point, group, f"{first.code.code}: {first.message}{where}"))
            else:
                gives = _new_names(book, larger)
                plugins.append(Plugin(group, point.name, point.value, _package(point), "used", gives))
                book = larger
    return book, Found(tuple(plugins))


def find_frontends() -> Found:
    """Return the front ends of plugins. Of two for one ending the first counts."""
    return Found() if are_off() else _find_frontends()


@cache
def _find_frontends() -> Found:
    plugins: list[Plugin] = []
    readers: dict[str, Frontend] = {}
    for point in _points(FRONTENDS):
        try:
            frontend = _frontend_of(_load(point), point)
        except _Unusable as unusable:
            plugins.append(_failed(point, FRONTENDS, str(unusable)))
            continue
        plugins.append(
            Plugin(FRONTENDS, point.name, point.value, _package(point), "used", tuple(frontend.suffixes))
        )
        for suffix in frontend.suffixes:
            readers.setdefault(suffix, frontend)
    return Found(tuple(plugins), readers)


def _points(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda point: (_package(point), point.name))


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "an unknown package"


def _failed(point: EntryPoint, group: str, reason: str) -> Plugin:
    fault = Diagnostic(table.PLUGIN_FAILED, _facts(point, group, reason), severity="warning")
    return Plugin(group, point.name, point.value, _package(point), "failed", fault=fault)


def _facts(point: EntryPoint, group: str, reason: str) -> dict[str, object]:
    return {"plugin": f"{point.name} ({group})", "distribution": _package(point), "reason": reason}


def _load(point: EntryPoint) -> object:
    try:
        return point.load()
    except (Exception, SystemExit) as error:  # whatever a package does when it is imported
        raise _Unusable(f"loading {point.value} raised {_told(error)}") from None


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'without a message'}"


def _paths_of(given: object) -> list[Path]:
    """The rule files that an entry point gives: a package's folder, a path, paths, or what returns them."""
    if isinstance(given, ModuleType):
        paths = [Path(item) for item in getattr(given, "__path__", ())]
        if not paths:
            raise _Unusable(f"{given.__name__} is a module, and no package with rule files inside")
    elif callable(given):
        try:
            return _paths_of(cast("Callable[[], object]", given)())
        except (Exception, SystemExit) as error:
            raise _Unusable(f"it raised {_told(error)}") from None
    elif isinstance(given, str | Path):
        paths = [Path(given)]
    elif isinstance(given, Iterable):
        items = list(cast("Iterable[object]", given))
        if not all(isinstance(item, str | Path) for item in items):
            raise _Unusable("it gives something else than paths of rule files")
        paths = [Path(cast("str | Path", item)) for item in items]
    else:
        raise _Unusable(f"it is {type(given).__name__}, and no package, path or function that returns paths")
    return paths


def _new_names(before: RuleBook, after: RuleBook) -> tuple[str, ...]:
    rules = [rule.name.name for rule in after.rules[len(before.rules) :]]
    return (*(name for name in after.devices if name not in before.devices), *rules)


def _frontend_of(given: object, point: EntryPoint) -> Frontend:
    suffixes: Any = getattr(given, "suffixes", None)
    if isinstance(given, type) or not isinstance(given, Frontend):
        raise _Unusable("it is no object with `suffixes` and `read(path)`")
    if not isinstance(suffixes, list | tuple) or not all(
        isinstance(item, str) and item.startswith(".") for item in cast("Iterable[object]", suffixes)
    ):
        raise _Unusable('its `suffixes` are no list of endings such as ".tflite"')
    return _Guarded(given, point)


@dataclass(frozen=True, slots=True)
class _Guarded:
    """A front end of another package, whose faults become faults with its name."""

    frontend: Frontend
    point: EntryPoint

    @property
    def suffixes(self) -> tuple[str, ...]:
        return tuple(item.lower() for item in self.frontend.suffixes)

    def read(self, path: Path, /) -> Graph:
        try:
            graph = cast("object", self.frontend.read(path))
        except GerulesError:
            raise
        except (Exception, SystemExit) as error:
            raise self._fault(f"reading {path} raised {_told(error)}") from None
        if not isinstance(graph, Graph):
            raise self._fault(f"reading {path} gave {type(graph).__name__}, and no Graph")
        if wrong := broken_invariants(graph):
            raise self._fault(f"the graph that it read from {path} is not sound: {wrong[0]}")
        return graph

    def _fault(self, reason: str) -> ModelError:
        return ModelError([Diagnostic(table.PLUGIN_FAILED, _facts(self.point, FRONTENDS, reason))])
