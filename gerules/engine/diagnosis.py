"""Diagnosis: what exactly did not match where an attempt ended, and what would have to change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

from gerules.dsl.syntax import (
    AbsentAttr,
    AnyInputs,
    AttrPattern,
    CallPattern,
    CaptureAttr,
    ChainOp,
    ListAttr,
    LiteralAttr,
    NonePattern,
    NumberPattern,
    OneOfAttr,
    ParamAttr,
    Pattern,
    PlainOp,
    RestInputs,
    Target,
    TypePattern,
    ValuePattern,
    VariableOp,
    patterns_in,
)
from gerules.engine.index import CONST
from gerules.engine.keywords import compares, is_equal, value_of_attr, window_default
from gerules.engine.program import Program
from gerules.engine.requirements import PatternGraph
from gerules.engine.site import Site
from gerules.engine.vocabulary import Vocabulary
from gerules.engine.witness import WatchedMatch
from gerules.errors import Span
from gerules.ir import DType, Node, TensorType

_MOST_OPS_NAMED: Final = 4
_LONGEST: Final = 60
"""Characters of a value or a pattern in a sentence."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What did not match: the same for all nodes that fail alike, what this one has, and the remedy."""

    reason: str
    seen: str
    wanted: str


class Diagnosis:
    """Explains the misses of one program."""

    def __init__(self, program: Program, site: Site, vocabulary: Vocabulary) -> None:
        self._site = site
        self._group = program.plan.graph.group
        self._vocabulary = vocabulary
        self._call_of_attr: dict[tuple[str, int, int], CallPattern] = {}
        self._by_span: dict[tuple[str, int, int], list[tuple[Pattern | TypePattern, PatternGraph]]] = {}
        pending = [program.plan.graph]
        seen: set[str] = set()
        while pending:
            graph = pending.pop()
            for key, pattern in _spans_of(graph):
                self._by_span.setdefault(key, []).append((pattern, graph))
                name = ""
                if isinstance(pattern, CallPattern):
                    name = pattern.op.name
                    self._call_of_attr.update({_key(arg.span): pattern for arg in pattern.attrs})
                if name in vocabulary.patterns and name not in seen:
                    seen.add(name)
                    clauses = vocabulary.patterns[name]
                    pending += [PatternGraph(clause.match, vocabulary) for clause in clauses]

    def explain(self, m: WatchedMatch) -> Finding:
        """Return what did not match where the attempt came furthest."""
        span = m.best_span
        if span is None:
            return self._without_miss()
        if m.best_note:
            return Finding(m.best_note, self._bindings(span.text, m), "")
        text = _short(" ".join(span.text.split()))
        found = self._by_span.get(_key(span), ())
        pattern, graph = found[0] if found else (None, None)
        value = m.best_value
        call = self._call_of_attr.get(_key(span))
        node = self._site.producer(value) if value is not None else None
        if call is not None and node is not None:
            return self._attrs(call, node) or Finding(f"`{text}` does not hold", self._spoken(value), "")
        match pattern:
            case CallPattern() if graph is not None:
                return self._call(pattern, graph, value, text)
            case ValuePattern(type=TypePattern() as type):
                return self._type(type, text, value, m)
            case TypePattern():
                return self._type(pattern, text, value, m)
            case NumberPattern(value=number):
                return Finding(
                    f"`{text}` does not match", self._spoken(value), f"make it a constant of value {number}"
                )
            case ValuePattern(name=name):
                known = m.seen.get(name)
                if isinstance(known, int) and value is not None:
                    return Finding(
                        f"`{name}` is not the same value in both places",
                        f"{self._spoken(value)}, but {name} is {self._spoken(known)}",
                        f"let both read one value where the pattern says `{name}`",
                    )
            case _:
                pass
        if value is None and span.text and pattern is None:
            values = self._bindings(span.text, m)
            return Finding(f"`{text}` does not hold", values, f"make `{text}` hold")
        return Finding(f"`{text}` does not match", self._spoken(value), "")

    def _without_miss(self) -> Finding:
        group = self._group
        if group is None:
            return Finding("the pattern does not match", "", "")
        shared = ", ".join(item.name for item in group.same)
        return Finding(
            f"fewer than {group.least} nodes from here on share {shared or 'what the group asks for'}",
            "",
            f"the group needs {group.least} of them that do, in the order of the graph",
        )

    # ------------------------------------------------------------ types
    def _type(self, type: TypePattern, text: str, value: int | None, m: WatchedMatch) -> Finding:
        if value is None:
            return Finding(f"`{text}` is absent", "", "give this input")
        const = self._site.const(value)
        bound = self._bindings(text, m)
        seen = self._spoken(value) + (f"; {bound}" if bound else "")
        if type.is_const and const is None:
            return Finding(
                f"`{text}` is not a constant", seen, f"make {self._name(value)} an initializer of the model"
            )
        found = self._site.type_of(value)
        if type.dtypes is not None and isinstance(found, TensorType) and found.dtype not in type.dtypes:
            return Finding(f"`{text}` has another element type", seen, f"give it the type of `{text}`")
        if type.dims is not None and isinstance(found, TensorType) and found.shape is None:
            return Finding(f"`{text}` has no known shape", seen, "give shapes with --input-shape")
        return Finding(f"`{text}` has another type or shape", seen, f"give it the shape of `{text}`")

    def _bindings(self, text: str, m: WatchedMatch) -> str:
        names = dict.fromkeys(re.findall(r"[^\W\d]\w*", text))
        parts: list[str] = []
        for name in names:
            bound = m.seen.get(name)
            if name in m.seen and name not in m.value_names and _is_plain(bound):
                parts.append(f"{name} = {_attr_text(bound)}")
        return ", ".join(parts)

    # ------------------------------------------------------------ calls
    def _call(self, call: CallPattern, graph: PatternGraph, value: int | None, text: str) -> Finding:
        ops = self._ops(call)
        wanted = _one_of(ops) or call.op.name
        node = self._site.producer(value) if value is not None else None
        if node is None or (ops and node.op not in ops):
            return Finding(
                f"there is no {wanted} where the pattern has `{text}`",
                self._spoken(value),
                f"only a value made by {wanted} fits here",
            )
        reason = self._surplus(call, node) or self._attrs(call, node) or self._operands(call, graph, node)
        if reason is not None:
            return reason
        return Finding(
            f"`{text}` does not match together with the rest of the rule",
            f"{node.op} {_label(node)}: its operator, attributes and operands fit by themselves",
            "",
        )

    def _ops(self, call: CallPattern) -> frozenset[str]:
        op = call.op
        if isinstance(op, PlainOp):
            return frozenset() if op.name in self._vocabulary.patterns else frozenset([op.name])
        return self._vocabulary.ops(op.ops)

    def _attrs(self, call: CallPattern, node: Node) -> Finding | None:
        mentioned: set[str] = set()
        for arg in call.attrs:
            name = arg.name.name
            mentioned.add(name)
            found = self._parameter(node, name)
            if found is None and compares(arg.pattern):
                found = window_default(node, name, self._site)
            if found is _NOT_CONST:
                if not (isinstance(arg.pattern, CaptureAttr) and arg.pattern.name == "_"):
                    return Finding(
                        f"{node.op} takes {name} from a value that is not a constant",
                        _label(node),
                        f"make {name} a constant",
                    )
                continue
            if found is None and isinstance(arg.pattern, CaptureAttr) and not arg.pattern.is_optional:
                if arg.pattern.name == "_":
                    continue
                return Finding(
                    f"{name} of {node.op} is not given in the model",
                    _label(node),
                    f"write `{name}={arg.pattern.name}?`, which is none there",
                )
            if not self._fits(arg.pattern, found, self._site.axis_rank(node, name)):
                return Finding(
                    f"`{_short(arg.span.text)}` does not hold",
                    f"{name} = {_attr_text(found)} at {node.op} {_label(node)}",
                    f"set {name} of {_label(node)} to what `{_short(arg.span.text)}` says",
                )
        if call.rest is not None:
            return None
        schema = self._site.schema(node.op)
        for name, attr in node.attrs.items():
            spec = schema.attrs.get(name) if schema is not None else None
            default = value_of_attr(spec.default) if spec is not None and spec.default is not None else None
            if default is None:
                default = window_default(node, name, self._site)
            if name not in mentioned and not is_equal(value_of_attr(attr), default, None):
                return Finding(
                    f"the pattern leaves {name} of {node.op} at its default",
                    f"{name} = {_attr_text(value_of_attr(attr))} at {_label(node)}",
                    f"leave {name} at its default, or add `{name}=_` or `**` to the pattern",
                )
        return None

    def _parameter(self, node: Node, name: str) -> object:
        """The value of a parameter as an expression has it, its default when it is not given."""
        site = self._site
        keyword = site.schemas.attr_or_input(node.op, name, site.version_of(node.op))
        if keyword is not None and keyword.input_index is not None:
            place = keyword.input_index
            value = node.inputs[place] if place < len(node.inputs) else None
            const = site.const(value)
            if value is None:
                return None
            if const is None:
                return _NOT_CONST
            items = const.array.ravel().tolist() if const.array.size <= 64 else [const.array.size]
            return tuple(items) if const.array.ndim else items[0]
        if name in node.attrs:
            return value_of_attr(node.attrs[name])
        schema = site.schema(node.op)
        spec = schema.attrs.get(name) if schema is not None else None
        return value_of_attr(spec.default) if spec is not None and spec.default is not None else None

    def _fits(self, pattern: AttrPattern, found: object, rank: int | None) -> bool:
        match pattern:
            case AbsentAttr():
                return found is None
            case LiteralAttr(value=value):
                return is_equal(found, value, rank)
            case ListAttr(values=values):
                return is_equal(found, tuple(values), rank)
            case OneOfAttr(values=values):
                return any(is_equal(found, value, rank) for value in values)
            case ParamAttr(name=name):
                return is_equal(found, self._vocabulary.settings.get(name), rank)
            case CaptureAttr(name=name, is_optional=is_optional):
                return name == "_" or is_optional or found is not None

    def _surplus(self, call: CallPattern, node: Node) -> Finding | None:
        """Say that a node has inputs of which neither operands nor keywords of the pattern speak."""
        op = call.op
        args = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        if len(args) < len(call.args) or not isinstance(op, PlainOp | VariableOp):
            return None
        if isinstance(op, PlainOp) and op.order == "any":
            return None
        site = self._site
        keywords = [
            site.schemas.attr_or_input(node.op, arg.name.name, site.version_of(node.op)) for arg in call.attrs
        ]
        claimed = {item.input_index for item in keywords if item is not None}
        given = [place for place, value in enumerate(node.inputs) if value is not None]
        free = [place for place in given if place not in claimed]
        if not any(place >= len(args) for place in free):
            return None
        written = [*(arg.span.text for arg in args), "...", *(arg.span.text for arg in call.attrs)]
        open_call = " ".join(f"{call.span.text.partition('(')[0]}({', '.join(written)})".split())
        return Finding(
            f"{node.op} has {len(free)} inputs, the pattern takes {len(args)}",
            f"{_label(node)} reads {', '.join(self._name(node.inputs[place]) for place in free)}",
            f"write `{_short(open_call)}`",
        )

    def _operands(self, call: CallPattern, graph: PatternGraph, node: Node) -> Finding | None:
        if isinstance(call.op, ChainOp):
            return None
        args = [arg for arg in call.args if not isinstance(arg, RestInputs | AnyInputs)]
        schema = self._site.schema(node.op)
        commutes = schema is not None and schema.is_commutative
        for place, arg in enumerate(args):
            accepted = graph.ops_of(arg)
            here = node.inputs[place] if place < len(node.inputs) else None
            if isinstance(arg, NonePattern) and here is not None and not commutes:
                return Finding(
                    f"input {place} of {node.op} has to be absent",
                    self._spoken(here),
                    "leave it out",
                )
            if accepted is None or isinstance(arg, NonePattern):
                continue
            candidates: Sequence[int | None] = node.inputs if commutes else [here]
            if any(value is not None and self._site.op_of.get(value) in accepted for value in candidates):
                continue
            text = _short(" ".join(arg.span.text.split()))
            if accepted == frozenset([CONST]):
                reason, wanted = f"`{text}` is not a constant", f"make {self._name(here)} an initializer"
            else:
                reason = f"there is no {_one_of(accepted)} where the pattern has `{text}`"
                wanted = f"only a value made by {_one_of(accepted)} fits here"
            seen = " and ".join(self._spoken(value) for value in candidates)
            return Finding(reason, f"{seen} at {node.op} {_label(node)}", wanted)
        return None

    # ------------------------------------------------------------ words
    def _name(self, value: int | None) -> str:
        if value is None:
            return "the input"
        return self._site.values[value].name or f"%{value}"

    def _spoken(self, value: int | None) -> str:
        """A value in words: its name, its type, what it comes from."""
        if value is None or value not in self._site.values:
            return "it is absent"
        const = self._site.const(value)
        type = self._site.type_of(value)
        if const is not None:
            single = f" = {const.array.ravel()[0]}" if const.array.size == 1 else ""
            return f"{self._name(value)} is a constant {type}{single}"
        node = self._site.producer(value)
        origin = "an input of the graph" if node is None else f"made by {node.op}"
        return f"{self._name(value)} is {type}, {origin}"


class _NotConst:
    """A parameter that the model computes."""


_NOT_CONST: Final = _NotConst()


def _spans_of(graph: PatternGraph) -> Iterator[tuple[tuple[str, int, int], Pattern | TypePattern]]:
    for line in graph.lines:
        for target in line.targets:
            if isinstance(target, Target) and target.type is not None:
                yield _key(target.span), target.type
        for pattern in patterns_in(line.pattern):
            yield _key(pattern.span), pattern


def _key(span: Span) -> tuple[str, int, int]:
    return span.source.name, span.start, span.end


def _label(node: Node) -> str:
    return node.name or (node.origin.sources or (f"%{node.id}",))[0]


def _one_of(ops: frozenset[str]) -> str:
    names = ["a constant" if op == CONST else op for op in sorted(ops)]
    more = f" or {len(names) - _MOST_OPS_NAMED} more" if len(names) > _MOST_OPS_NAMED else ""
    return " or ".join(names[:_MOST_OPS_NAMED]) + more


def _attr_text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return _short(str(list(cast("tuple[object, ...]", value))))
    return _short(str(value))


def _is_plain(bound: object) -> bool:
    return bound is None or isinstance(bound, int | float | str | DType | tuple)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
