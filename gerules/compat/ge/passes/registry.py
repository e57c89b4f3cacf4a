"""Registering passes: each pattern of a pass becomes a rule, for all compiles of this process."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TypeVar, cast

from gerules.compat.ge.error import GeError
from gerules.compat.ge.graph.graph import CONSTANTS, DATA, Graph, Node
from gerules.compat.ge.passes.match import MatchResult
from gerules.compat.ge.passes.matched_attrs import open_attrs, tell_attrs
from gerules.compat.ge.passes.pattern_pass import BuiltPattern, PatternFusionPass, patterns_of, replacement_of
from gerules.compat.ge.passes.rule_sink import Argument, RuleSink, lower_into
from gerules.dsl import predicate
from gerules.dsl.functions import FUNCTIONS
from gerules.dsl.fusion_patterns import register_fusion_pattern, unregister_fusion_pattern
from gerules.dsl.pattern_builder import Pattern, Term
from gerules.dsl.values import ValueView
from gerules.errors import table
from gerules.errors.counts import count_text

C = TypeVar("C", bound=type[PatternFusionPass])


class PassStage(Enum):
    """When a pass runs among others of its kind; all of them run right before operators are fused."""

    BEFORE_INFER_SHAPE = "before_infer_shape"
    AFTER_INFER_SHAPE = "after_infer_shape"
    AFTER_BUILTIN_FUSION_PASS = "after_builtin_fusion_pass"
    AFTER_ORIGIN_GRAPH_OPTIMIZE = "after_origin_graph_optimize"


_PRIORITIES = {stage: 300 - 100 * at for at, stage in enumerate(PassStage)}

_PASSES: dict[str, tuple[str, ...]] = {}
"""The rules of each pass."""

_HOMES: dict[str, tuple[object, str]] = {}
"""The file and the class of each pass."""


def get_registered_passes() -> dict[str, tuple[str, ...]]:
    """Return the passes of this process, and the rules that each became."""
    return dict(_PASSES)


def unregister_fusion_pass(name: str) -> None:
    """Forget a pass, if there is one of the name; what was compiled before stays."""
    _HOMES.pop(name, None)
    for rule in _PASSES.pop(name, ()):
        unregister_fusion_pattern(rule)
        FUNCTIONS.discard(_predicate_of(rule))


def register_fusion_pass(*, name: str, stage: PassStage, kind: object = None) -> Callable[[C], C]:
    """Let a pass take part in all compiles of this process; a decorator of its class.

    Each of its patterns becomes a rule `<pass>_<pattern>` in the set `ge.<stage>`, which is switched,
    traced and
    explained as all others are.

    Raises:
        GeError: E41005 when it is no pattern fusion pass, or one of its patterns or its replacement cannot be
            built, or another class has the name; E41001 and E41002 for their operators.
    """

    def register(cls: C) -> C:
        if not (inspect.isclass(cls) and issubclass(cast(type, cls), PatternFusionPass)):
            raise GeError(
                table.GE_BAD_PASS, name=name, reason="it is no class that extends PatternFusionPass",
                remedy="extend it; passes that walk the graph themselves have no counterpart here",
            )  # fmt: skip
        if cls.__dict__.get("run") is not None:
            raise GeError(
                table.GE_BAD_PASS, name=name, reason="it has a method run", remedy="a pattern pass has none"
            )
        home = (getattr(sys.modules.get(cls.__module__), "__file__", None), cls.__qualname__)
        if _HOMES.get(name, home) != home:
            raise GeError(
                table.GE_BAD_PASS, name=name, reason="another class is registered under this name",
                remedy="give one of the two another name",
            )  # fmt: skip
        found = cls()
        patterns = patterns_of(found, name)
        replacement = replacement_of(found, name)
        unregister_fusion_pass(name)
        rules = tuple(f"{_identifier(name)}_{_identifier(item.name)}" for item in patterns)
        for rule, item in zip(rules, patterns, strict=True):
            _register_rule(rule, found, stage, item, replacement)
        _PASSES[name], _HOMES[name] = rules, home
        return cls

    return register


def _register_rule(
    rule: str, found: PatternFusionPass, stage: PassStage, pattern: BuiltPattern, replacement: Graph
) -> None:
    has_requirements = type(found).meet_requirements is not PatternFusionPass.meet_requirements

    def give(p: Pattern) -> None:
        _write_rule(p, rule, found, pattern.graph, replacement, has_requirements=has_requirements)

    give.__doc__ = (inspect.getdoc(type(found)) if type(found).__doc__ else "") or f"The pass {rule}"
    # Faults of the rule, and questions about it, are told at the method of the pass.
    give.__dict__["__signature__"] = inspect.signature(give)
    give.__dict__["__wrapped__"] = pattern.method
    give.__module__, give.__qualname__ = type(found).__module__, f"{type(found).__qualname__}.{rule}"
    # Built once now, so that a fault of the pass is told where it is registered.
    give(Pattern(__file__, 1))
    register_fusion_pattern(name=rule, ruleset=f"ge.{stage.value}", priority=_PRIORITIES[stage])(give)


def _write_rule(
    p: Pattern,
    rule: str,
    found: PatternFusionPass,
    pattern: Graph,
    replacement: Graph,
    *,
    has_requirements: bool,
) -> None:
    p.say("once")
    terms = {
        number: p.input(f"x{number}")
        for node in pattern.get_direct_nodes()
        if node.type == DATA
        and isinstance(number := node.attrs.get("index"), int)
        and _is_read(pattern, node)
    }
    match = RuleSink(p, found.config, True, "m", wants_attrs=has_requirements)
    old = [match.items[value] for value in lower_into(match, pattern, terms, rule)]
    if has_requirements:
        _add_requirements(p, rule, found, pattern, match, old)
    rewrite = RuleSink(p, found.config, False, "r")
    new = [rewrite.items[value] for value in lower_into(rewrite, replacement, terms, rule)]
    olds = [item for item in old if isinstance(item, Term)]
    news = [item for item in new if isinstance(item, Term)]
    if len(news) != len(new) or len(olds) != len(old):
        raise GeError(
            table.GE_BAD_PASS, name=rule, reason="a number alone replaces a value",
            remedy="give it a shape: builder.create_const(value, shape=...)",
        )  # fmt: skip
    if len(olds) != len(news):
        raise GeError(
            table.GE_BAD_PASS, name=rule,
            reason=f"it puts {count_text(len(news), 'value')} in the place of {len(olds)}",
            remedy="return as many values from replacement as from the pattern",
        )  # fmt: skip
    p.replace(olds, news)


def _is_read(graph: Graph, node: Node) -> bool:
    return bool(node.get_out_data_nodes_and_port_indexes(0)) or (node, 0) in graph.outputs


def _add_requirements(
    p: Pattern,
    rule: str,
    found: PatternFusionPass,
    pattern: Graph,
    sink: RuleSink,
    results: Sequence[Argument],
) -> None:
    """Let the pass judge a match: a predicate of all values and attributes that the pattern names."""
    in_match = _matched_terms(results)
    named = {
        port: item.name for port, value in sink.ports.items()
        if isinstance(item := sink.items[value], Term) and item in in_match
        and (item.made_by is None or port[0].type not in CONSTANTS)
    }  # fmt: skip
    names = sorted(set(named.values()))
    captured = dict(sink.captured)
    attr_names = [item.name for item in captured.values()]
    is_open = not found.config.matches_const_values

    def holds(**given: object) -> bool:
        matched = {port: cast(ValueView, given[name]) for port, name in named.items()}
        told = {node: open_attrs(node.type) for node in pattern.get_direct_nodes()} if is_open else {}
        for node, item in captured.items():
            attrs = tell_attrs(node.type, item.op, cast("Mapping[str, object]", given[item.name]))
            told[node] = told.get(node, {}) | attrs
        return bool(found.meet_requirements(MatchResult(pattern, matched, told)))

    kinds: dict[str, type] = dict.fromkeys(names, ValueView) | dict.fromkeys(attr_names, object)
    parameters = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
        for name, kind in kinds.items()
    ]
    holds.__signature__ = inspect.Signature(parameters, return_annotation=bool)  # type: ignore[attr-defined]
    holds.__annotations__ = {**kinds, "return": bool}
    holds.__dict__["__wrapped__"] = type(found).meet_requirements
    holds.__module__, holds.__qualname__ = type(found).__module__, f"{type(found).__qualname__}.{rule}.holds"
    predicate(name=_predicate_of(rule))(holds)
    p.where(holds, *kinds, otherwise=f"meet_requirements of {type(found).__name__} says no")


def _matched_terms(results: Sequence[Argument]) -> set[Term]:
    """Return what results depend on; the indices of a TopK that nobody reads are no part of a match."""
    found: set[Term] = set()
    pending = [item for item in results if isinstance(item, Term)]
    while pending:
        term = pending.pop()
        if term in found:
            continue
        found.add(term)
        if term.made_by is not None:
            found.update(term.made_by.outputs)
            pending += [arg for arg in term.made_by.args if isinstance(arg, Term)]
    return found


def _predicate_of(rule: str) -> str:
    return f"{rule}_holds"


def _identifier(text: str) -> str:
    """A name as rules have them: `PythonAddZeroPass` is `python_add_zero_pass`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text)
    found = re.sub(r"\W", "_", words).lower().strip("_")
    return found if found[:1].isalpha() else f"pass_{found}"
