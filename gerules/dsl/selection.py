"""Selection: which rules are on for a compile, why the others are off, and what `$NAME`s stand for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, TypeVar

from gerules.dsl.book import RuleBook, suggest
from gerules.dsl.declarations import Device, Profile
from gerules.dsl.expr import Scope, evaluate, judge
from gerules.dsl.expressions import Comparison, Expr, ParamRef, walk
from gerules.dsl.syntax import Rule
from gerules.dsl.tree import RuleError
from gerules.dsl.values import DeviceRef, DeviceView, Value
from gerules.errors import Faults, table

_T = TypeVar("_T", Profile, Device)

ALL: Final = "all"
"""The switch that names every rule."""

_Layer = tuple[list[str], list[str]]
"""Names that switch on, and names that switch off."""

NO_EXPRS: Final[Mapping[str, Expr]] = MappingProxyType({})
NO_VALUES: Final[Mapping[str, Value]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Environment:
    """What a compile is for.

    `enable` and `disable` name rules, rule sets (`fuse` names `fuse.conv` too), aliases, or `all`; a rule's
    name weighs more than a set's, and the caller's switches more than the profile's. `verdicts` stand
    between the two: by name of rule None where it is on, otherwise why it is off. `params` override
    `param`s. `opset` is the graph's ONNX opset; None leaves `opset` conditions out.
    """

    profile: str | None = None
    device: DeviceView | None = None
    enable: Sequence[str] = ()
    disable: Sequence[str] = ()
    params: Mapping[str, Value] = field(default_factory=dict[str, Value])
    opset: int | None = None
    verdicts: Mapping[str, str | None] = field(default_factory=dict[str, str | None])


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The rules that are on, in order; for each other rule why it is off; the scope of static names."""

    rules: tuple[Rule, ...]
    off: Mapping[str, str]
    scope: Scope


class TextDevice:
    """A device as rule texts declare it, its bases included."""

    def __init__(self, book: RuleBook, device: Device) -> None:
        self.name = device.name.name
        chain = list(bases_of(device, book.devices))[::-1]
        self.features = frozenset(item.name for base in chain for item in base.features)
        lacking = {op for base in chain for ops in base.lacks for op in book.resolve(ops)}
        self.lacks_list: tuple[str, ...] = tuple(sorted(lacking))
        self.settings = {item.name.name: item.value for base in chain for item in base.settings}

    def has(self, feature: str, /) -> bool:
        """Whether the device declares a feature."""
        return feature in self.features

    def lacks(self, op: str, /) -> bool:
        """Whether the device declares that it has no kernel for an operator."""
        return op in self.lacks_list


def select_rules(book: RuleBook, environment: Environment) -> Selection:
    """Say which rules of a book are on.

    Raises:
        RuleError: E40120 for each switch or profile that names nothing, with the nearest name; E40122 for
            each that the caller switches on and off; E40110 for
            a constant or a setting without a value.
    """
    faults = Faults()
    profiles = _profile_chain(book, environment, faults)
    for option, switches in (("enable", environment.enable), ("disable", environment.disable)):
        for switch in switches:
            if not is_switch(book, switch):
                _unknown(faults, option, switch, "rule, rule set or alias", switch_names(book))
    for switch in dict.fromkeys(environment.enable):
        if switch in environment.disable:
            faults.add(table.BOTH_SWITCHED, name=switch)
    for name in environment.params:
        if name not in book.params and name not in setting_names(book):
            _unknown(faults, "set", f"${name}", "parameter", book.params)
    faults.raise_if_any(RuleError)
    scope = _static_scope(book, environment, profiles)
    layers = [
        ([item.name for item in profile.enable], [item.name for item in profile.disable])
        for profile in profiles
    ]
    caller = (list(environment.enable), list(environment.disable))
    on: list[Rule] = []
    off: dict[str, str] = {}
    for rule in book.rules:
        reason = _why_off(book, rule, layers, caller, scope, environment)
        if reason is None:
            on.append(rule)
        else:
            off[rule.name.name] = reason
    return Selection(tuple(on), off, scope)


def switch_names(book: RuleBook) -> Iterator[str]:
    """Yield every name that a switch may have."""
    yield ALL
    for name in book.set_names:
        parts = name.split(".")
        yield from (".".join(parts[:n]) for n in range(1, len(parts) + 1))
    yield from book.rule_by_name
    yield from book.rules_by_alias


def is_switch(book: RuleBook, name: str) -> bool:
    """Whether a name is a rule, a rule set, the beginning of one, an alias, or `all`."""
    return (
        name == ALL
        or name in book.rule_by_name
        or name in book.rules_by_alias
        or any(_is_in(ruleset, name) for ruleset in book.set_names)
    )


def setting_names(book: RuleBook) -> frozenset[str]:
    """Return the names that some profile or device sets."""
    owners: list[Profile | Device] = [*book.profiles.values(), *book.devices.values()]
    return frozenset(item.name.name for owner in owners for item in owner.settings)


def resolve_params(
    book: RuleBook,
    settings: Mapping[str, Expr] = NO_EXPRS,
    given: Mapping[str, Value] = NO_VALUES,
) -> dict[str, Value]:
    """Return the values of all `$NAME`s: `given` first, then `settings`, then `param`s and `const`s.

    Raises:
        RuleError: E40106 when constants stand for each other in a circle, E40110 for one without a value.
    """
    exprs: dict[str, Expr] = {name: item.value for name, item in book.consts.items()}
    exprs |= {name: item.value for name, item in book.params.items()}
    exprs |= settings
    values = dict(given)
    opened: list[str] = []

    def settle(name: str) -> None:
        if name in values or name not in exprs:
            return
        refs = [part for part in walk(exprs[name]) if isinstance(part, ParamRef)]
        opened.append(name)
        for ref in refs:
            if ref.name in opened:
                path = " -> ".join([*opened[opened.index(ref.name) :], ref.name])
                raise RuleError(table.CIRCLE, span=ref.span, what="constants", path=path)
            if len(opened) > 100:
                raise RuleError(
                    table.CIRCLE, span=ref.span, what="constants", path="a chain of more than 100"
                )
            settle(ref.name)
        opened.pop()
        values[name] = evaluate(exprs[name], Scope({}, values, book.op_sets, None, book.functions))

    for name in exprs:
        settle(name)
    return values


def _static_scope(book: RuleBook, environment: Environment, profiles: Sequence[Profile]) -> Scope:
    settings: dict[str, Expr] = {}
    if isinstance(environment.device, TextDevice):
        settings |= environment.device.settings
    for profile in profiles:
        settings |= {item.name.name: item.value for item in profile.settings}
    params = resolve_params(book, settings, environment.params)
    names: dict[str, Value] = {
        "precision": params.get("precision", "f32"),
        "profile": environment.profile or "",
        "opset": environment.opset or 0,
    }
    if environment.device is not None:
        names["device"] = DeviceRef(environment.device)
    return Scope(names, params, book.op_sets, None, book.functions)


def _unknown(
    faults: Faults, option: str, name: str, kind: str, known: Iterable[str], remedy: str = "correct the name"
) -> None:
    notes = suggest(name.removeprefix("$"), known)
    faults.add(table.UNKNOWN_SWITCH, option=option, name=name, kind=kind, remedy=remedy, notes=notes)


def _profile_chain(book: RuleBook, environment: Environment, faults: Faults) -> list[Profile]:
    """The profile and what it extends, base first."""
    if environment.profile is None:
        return []
    if environment.profile not in book.profiles:
        remedy = f"use one of {', '.join(sorted(book.profiles))}" if book.profiles else "leave it out"
        _unknown(faults, "profile", environment.profile, "profile", book.profiles, remedy)
        return []
    return list(bases_of(book.profiles[environment.profile], book.profiles))[::-1]


def bases_of(item: _T, known: Mapping[str, _T]) -> Iterator[_T]:
    """Yield an item and what it extends, nearest first; a circle ends where it closes."""
    seen: set[str] = set()
    while item.name.name not in seen:
        seen.add(item.name.name)
        yield item
        if item.extends is None or item.extends.name not in known:
            return
        item = known[item.extends.name]


def _why_off(
    book: RuleBook,
    rule: Rule,
    layers: Iterable[_Layer],
    caller: _Layer,
    scope: Scope,
    environment: Environment,
) -> str | None:
    ruleset = book.rulesets.get(rule.ruleset)
    reason = None if ruleset is None or ruleset.is_on else f"the set {rule.ruleset} is off by default"
    for layer in layers:
        reason = _switched(rule, layer, reason)
    reason = _switched(rule, caller, environment.verdicts.get(rule.name.name, reason))
    if reason is not None:
        return reason
    if rule.is_inexact and scope.params.get("allow_inexact") is False:
        return "it is inexact, and inexact rules are not allowed"
    conditions = list(rule.when)
    if ruleset is not None:
        conditions += ruleset.when
    for condition in conditions:
        verdict = judge(condition, scope)
        if not verdict.holds:
            return verdict.reason
    if environment.opset is not None:
        for op, version in rule.opsets:
            if not holds(environment.opset, op, version):
                return f"it needs opset {op} {version}; the graph has {environment.opset}"
    return None


def _switched(rule: Rule, layer: _Layer, reason: str | None) -> str | None:
    """Why a rule is off after a layer of switches; where none names it, `reason` stays, why it was before."""
    strongest = _UNNAMED
    enable, disable = layer
    for names, is_on in ((enable, True), (disable, False)):
        for name in names:
            weight = _weight(rule, name)
            if weight != _UNNAMED and weight >= strongest:
                strongest = weight
                reason = None if is_on else f"it is disabled by the name {name}"
    return reason


_UNNAMED: Final = (0, 0)


def _weight(rule: Rule, name: str) -> tuple[int, int]:
    """How closely a switch names a rule: 4 itself, 3 an alias, 2 its set (`a.b` before `a`), 1 `all`."""
    if name == rule.name.name:
        return 4, 0
    if name in rule.aliases:
        return 3, 0
    if _is_in(rule.ruleset, name):
        return 2, name.count(".")
    return (1, 0) if name == ALL else _UNNAMED


def _is_in(ruleset: str, name: str) -> bool:
    return ruleset == name or ruleset.startswith(name + ".")


def holds(have: int, op: Comparison, want: int) -> bool:
    """Return whether a version compares as an `opset` line says."""
    match op:
        case "==":
            return have == want
        case "!=":
            return have != want
        case "<":
            return have < want
        case "<=":
            return have <= want
        case ">":
            return have > want
        case ">=":
            return have >= want
