"""Names of a rule: which there are, what they stand for, and the slots they get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gerules.dsl.syntax import (
    ANY,
    Alternatives,
    CallPattern,
    CaptureAttr,
    ChainOp,
    DimName,
    DimSeq,
    NamedPattern,
    Pattern,
    PlainOp,
    RestInputs,
    RestTargets,
    Target,
    TypePattern,
    ValuePattern,
    patterns_in,
)
from gerules.engine.binding import Kind, Scope
from gerules.engine.requirements import PatternGraph


@dataclass(slots=True)
class Frame:
    """The lines that a pattern's names belong to: a rule's, or those of one clause of a named pattern."""

    graph: PatternGraph
    scope: Scope = field(default_factory=Scope)
    expanding: set[str] = field(default_factory=set[str])

    def slot(self, new_slot: Callable[[], int], name: str, kind: Kind) -> int:
        """Return the slot of a name, given to it when first seen."""
        found = self.scope.slots.get(name)
        if found is None:
            found = self.scope.slots[name] = new_slot()
            self.scope.kinds[name] = kind
        return found


def declare(frame: Frame, new_slot: Callable[[], int]) -> None:
    """Give slots to every name that the lines of a frame bind."""
    for line in frame.graph.lines:
        # An argument looks like a value; whether it is one is for the sub-pattern to say.
        for pattern in patterns_in(line.pattern):
            if isinstance(pattern, CallPattern):
                for name in frame.graph.vocabulary.attrs_given(pattern):
                    frame.slot(new_slot, name, Kind.ATTR)
    for line in frame.graph.lines:
        for target in line.targets:
            if isinstance(target, Target) and target.name != ANY:
                frame.slot(new_slot, target.name, Kind.VALUE)
                _declare_type(target.type, frame, new_slot)
            elif isinstance(target, RestTargets):
                frame.slot(new_slot, target.name, Kind.VALUES)
        for pattern in patterns_in(line.pattern):
            _declare_one(pattern, frame, new_slot)


def _declare_one(pattern: Pattern, frame: Frame, new_slot: Callable[[], int]) -> None:
    match pattern:
        case ValuePattern(name=name, type=type):
            if name != ANY:
                frame.slot(new_slot, name, Kind.VALUE)
            _declare_type(type, frame, new_slot)
        case NamedPattern(name=name):
            frame.slot(new_slot, name.name, Kind.VALUE)
        case Alternatives(choices=choices):
            for choice in choices:
                for binding in choice.bindings:
                    frame.slot(new_slot, binding.name.name, Kind.RESULT)
        case CallPattern():
            _declare_call(pattern, frame, new_slot)
        case _:
            pass


def _declare_call(call: CallPattern, frame: Frame, new_slot: Callable[[], int]) -> None:
    if not isinstance(call.op, PlainOp) and call.op.name != ANY:
        frame.slot(new_slot, call.op.name, Kind.CHAIN if isinstance(call.op, ChainOp) else Kind.OP)
    for arg in call.args:
        if isinstance(arg, RestInputs):
            frame.slot(new_slot, arg.name, Kind.VALUES)
    for attr in call.attrs:
        if isinstance(attr.pattern, CaptureAttr) and attr.pattern.name != ANY:
            frame.slot(new_slot, attr.pattern.name, Kind.ATTR)
    if call.rest is not None and call.rest.name is not None:
        frame.slot(new_slot, call.rest.name, Kind.ATTRS)


def _declare_type(type: TypePattern | None, frame: Frame, new_slot: Callable[[], int]) -> None:
    if type is None:
        return
    if type.dtype_name not in (None, ANY):
        frame.slot(new_slot, type.dtype_name, Kind.DTYPE)
    for dim in type.dims or ():
        if isinstance(dim, DimName) and dim.name != ANY:
            frame.slot(new_slot, dim.name, Kind.DIM)
        elif isinstance(dim, DimSeq) and dim.name != ANY:
            frame.slot(new_slot, dim.name, Kind.DIMS)


def bound_by_call(call: CallPattern, targets: Sequence[object]) -> set[str]:
    """Names that are bound once a node matches: its outputs, attributes and operator."""
    names = {target.name for target in targets if isinstance(target, Target | RestTargets)}
    return names | own_names(call)


def own_names(call: CallPattern) -> set[str]:
    """Names that a call binds itself, apart from its operands."""
    names = {a.pattern.name for a in call.attrs if isinstance(a.pattern, CaptureAttr)}
    names |= {arg.name for arg in call.args if isinstance(arg, RestInputs)}
    if call.rest is not None and call.rest.name is not None:
        names.add(call.rest.name)
    if not isinstance(call.op, PlainOp):
        names.add(call.op.name)
    return names - {ANY}


def names_of(pattern: Pattern) -> set[str]:
    """Every name that a pattern binds, without following definitions."""
    names: set[str] = set()
    for inner in patterns_in(pattern):
        if isinstance(inner, ValuePattern):
            names.add(inner.name)
        elif isinstance(inner, NamedPattern):
            names.add(inner.name.name)
        elif isinstance(inner, CallPattern):
            names |= own_names(inner)
        elif isinstance(inner, Alternatives):
            names |= {binding.name.name for choice in inner.choices for binding in choice.bindings}
    return names - {ANY}
