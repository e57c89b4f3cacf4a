"""The toolchain of one compile: rules, device, schemas, and what follows for types, meaning and cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from threading import get_ident
from typing import Final

import numpy as np

from gerules.dsl import Environment, RuleBook, RuleError, Selection, TextDevice, load_rules, select_rules
from gerules.dsl.check_ops import calls_of
from gerules.dsl.expr import Scope
from gerules.dsl.fusion_patterns import PATTERNS
from gerules.dsl.load import shown_path
from gerules.dsl.registry import Function
from gerules.dsl.selection import resolve_params
from gerules.dsl.shipped import rules_folder
from gerules.dsl.syntax import PlainOp, Rule
from gerules.dsl.values import Value
from gerules.engine.candidate import Infer
from gerules.engine.compiling import uncompiled
from gerules.engine.define import define_extra, expand_define, make_infer
from gerules.engine.define_schema import register_defines
from gerules.engine.evaluation import RuleContext
from gerules.engine.phases import PhaseRunner
from gerules.engine.vocabulary import Vocabulary
from gerules.errors import Faults, Source, table
from gerules.ir import Attr, Const, Graph, Node, ValueType
from gerules.ops import Extra, Schemas
from gerules.passes.devices import find_device
from gerules.passes.format_types import infer_formats
from gerules.passes.precision import find_mode
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.fusion_switch import FusionSwitch
from gerules.pipeline.plugins import add_rules
from gerules.pipeline.python_rules import SUFFIX, import_rules
from gerules.pipeline.switching import apply_switch
from gerules.runtime.kernels import run_kernel
from gerules.runtime.kernels.contract import Array
from gerules.target import CostModel, Device

HOST: Final = "host"
"""The device a compile is for unless it says otherwise: this CPU."""

_PLAIN: Final = "fp32"
"""The profile of models as they are."""

RuleInput = str | Path | Source
"""Where rules come from: a file, a folder, a Python file that registers some, or a text with a name."""


def shipped_rules(
    extra: Sequence[RuleInput] = (),
    functions: Mapping[str, Function] | None = None,
    *,
    check_tests: bool = False,
    faults: Faults | None = None,
) -> RuleBook:
    """Return the rules of gerules, those of plugins and registered patterns, and those of more files.

    Args:
        extra: Files, folders, texts. A Python file is run for what it registers.
        functions: What Python gives to `extern` lines. Then nothing that is registered in this process
            takes part: no functions, no patterns, no plugins.
        check_tests: Check the tests of the rules of gerules too, which else are read when looked at.
        faults: Gets the faults of rules of more files, which are left out; see `gerules.dsl.load_rules`.

    Raises:
        TextError, RuleError: as `gerules.dsl.load_rules`; every fault of every file; then E40032 to
            E40035 for rules of more files that cannot be compiled. E40128 for a registered pattern, E40129
            for a Python file.
    """
    texts: list[RuleInput] = []
    for item in extra:
        if not isinstance(item, Source) and Path(item).suffix == SUFFIX:
            import_rules(Path(item))
        else:
            texts.append(item)
    book, warnings = own_rules(check_tests), ()
    if functions is None:
        book, found = add_rules(book)
        warnings = found.warnings
        if patterns := tuple(pattern.source for pattern in PATTERNS):
            book = _with_patterns(book, patterns)
    if texts or functions is not None:
        book = load_rules(texts, schemas=Schemas(), base=book, functions=functions, faults=faults)
        if faults is None:  # who collects them looks at the programs too
            _check_programs(book)
    return replace(book, warnings=(*warnings, *book.warnings)) if warnings else book


def _check_programs(book: RuleBook) -> None:
    """Raise RuleError E40032 to E40035 for rules that do not come with gerules and cannot be compiled."""
    known = own_rules().rule_by_name
    params = resolve_params(book)
    context = RuleContext(Scope({}, params, book.op_sets, None, book.functions), book.patterns)
    others = [rule for rule in book.rules if rule.name.name not in known]
    vocabulary = Vocabulary(book.op_sets, book.patterns, params)
    found = uncompiled(others, context, vocabulary, Schemas())
    if found:
        raise RuleError([item for items in found.values() for item in items])


@lru_cache(maxsize=4)
def _with_patterns(base: RuleBook, patterns: tuple[Source, ...]) -> RuleBook:
    return load_rules(patterns, schemas=Schemas(), base=base)


def own_rules(check_tests: bool = False) -> RuleBook:
    """Return the rules that come with gerules, and no others."""
    return _own_rules(check_tests, shown_path(rules_folder()))


@cache
def _own_rules(check_tests: bool, folder: str) -> RuleBook:
    """Read them; their files are named after `folder` as the working folder has it, which may change."""
    return load_rules([folder], schemas=Schemas(), later_tests=not check_tests)


@dataclass(frozen=True, eq=False)
class Toolchain:
    """Everything a compile for one device and one set of switches needs, besides the graph.

    `opsets` are those of the graph it was made for: which rules are on depends on them. `phases` runs the
    phases of the book with these rules; compiles of a thread that ask for the same share it and `schemas`.
    """

    book: RuleBook
    schemas: Schemas
    device: Device
    selection: Selection
    opsets: Mapping[str, int]
    phases: PhaseRunner

    @property
    def context(self) -> RuleContext:
        """What rules refer to besides the graph."""
        return self.phases.context

    @cached_property
    def extra(self) -> Extra:
        """Types of defined operators, through what they compute."""
        return define_extra(self.book.defines, schemas=self.schemas, context=self.context)

    @cached_property
    def infer(self) -> Infer:
        """Types of new nodes, storage formats included."""
        return infer_formats(make_infer(self.schemas, self.opsets, self.extra), self.device)

    @cached_property
    def _infer_meanings(self) -> Infer:
        """Types inside definitions, which are written in the newest operators."""
        return make_infer(self.schemas, {}, self.extra)

    def body_of(
        self, node: Node, inputs: Sequence[ValueType | None], consts: Sequence[Const | None] = ()
    ) -> Graph | None:
        """Return what a fused or device operator computes: its own body, or its definition's."""
        body = node.bodies.get("body")
        if body is not None:
            return body.graph
        define = self.book.defines.get(node.op)
        if define is None:
            return None
        return expand_define(
            define,
            node,
            inputs,
            schemas=self.schemas,
            infer=self._infer_meanings,
            consts=consts,
            context=self.context,
        )

    @cached_property
    def costs(self) -> CostModel:
        """What work costs on the device."""
        return CostModel(self.device, self.body_of)

    @property
    def precision(self) -> str:
        """The precision mode that profile and caller settle on."""
        value = self.selection.scope.params.get("precision")
        return value if isinstance(value, str) else "fp32"


def make_toolchain(
    book: RuleBook,
    opsets: Mapping[str, int],
    *,
    device: str = HOST,
    precision: str | None = None,
    profile: str | None = None,
    enable: Iterable[str] = (),
    disable: Iterable[str] = (),
    params: Mapping[str, Value] | None = None,
    keep_dtype: Iterable[str] = (),
    fusion_switch: FusionSwitch | None = None,
    onnx_only: bool = False,
) -> Toolchain:
    """Put together what a compile needs; rules that were made ready for the same options are not again.

    Args:
        precision: `fp32`, `fp16`, `mixed_float16`; without it the profile decides, or else the device
            (`default_precision`).
        profile: A profile of the rule book.
        enable: Rules, rule sets or aliases to switch on.
        disable: And off.
        params: Values for `param`s of the rules.
        keep_dtype: Nodes of the model that keep their element type, by name.
        fusion_switch: What a fusion switch file says. It weighs more than the profile, and less than
            `enable` and `disable`; its warnings join those of the book.
        onnx_only: Leave out the rules that make operators of another domain than ONNX's own.

    Raises:
        TargetError: E50010 for an unknown device, with what its description lacks.
        PassError: E50014 for an unknown precision.
        RuleError: E40120 for each unknown switch, profile or parameter.
        PipelineError: E10003 for each parameter of another kind than its own.
    """
    common = (device, precision, profile, tuple(enable), tuple(disable), onnx_only)
    marked = tuple(keep_dtype)
    if params or marked or fusion_switch is not None:
        return _make(book, opsets, *common, params or {}, marked, fusion_switch)
    # What is remembered of types is of one compile; analysing rules is the work of one thread.
    return replace(_make_plain(get_ident(), book, frozenset(opsets.items()), *common))


@lru_cache(maxsize=8)
def _make_plain(
    _thread: int,
    book: RuleBook,
    opsets: frozenset[tuple[str, int]],
    device: str,
    precision: str | None,
    profile: str | None,
    enable: tuple[str, ...],
    disable: tuple[str, ...],
    onnx_only: bool,
) -> Toolchain:
    return _make(book, dict(opsets), device, precision, profile, enable, disable, onnx_only, {}, (), None)


def _make(
    book: RuleBook,
    opsets: Mapping[str, int],
    device: str,
    precision: str | None,
    profile: str | None,
    enable: tuple[str, ...],
    disable: tuple[str, ...],
    onnx_only: bool,
    params: Mapping[str, Value],
    keep_dtype: tuple[str, ...],
    fusion_switch: FusionSwitch | None,
) -> Toolchain:
    schemas = Schemas()
    found = find_device(book, device, schemas=schemas)
    given: dict[str, Value] = dict(params)
    if onnx_only and _ONNX_ONLY in book.params:
        given[_ONNX_ONLY] = True
    if precision is not None:
        given["precision"] = precision = find_mode(precision)
    if profile is None:
        profile = precision or str(found.numbers.get("default_precision", _PLAIN))
        # A mode without a profile of its own is the plain profile with another precision.
        profile = profile if profile in book.profiles else _PLAIN
    verdicts: dict[str, str | None] = {}
    if fusion_switch is not None:
        book, verdicts = apply_switch(book, fusion_switch)
    environment = Environment(
        profile=profile,
        device=TextDevice(book, book.devices[device]),
        enable=enable,
        disable=disable,
        params=given,
        opset=opsets.get("") or schemas.latest_opset,
        verdicts=verdicts,
    )
    selection = select_rules(book, environment)
    if onnx_only or selection.scope.params.get(_ONNX_ONLY) is True:
        fusions = {rule.name.name: _NOT_ONNX for rule in book.rules if _makes_fused_operators(book, rule)}
        selection = select_rules(book, replace(environment, verdicts=verdicts | fusions))
    _check_params(book, given)
    register_defines(book.defines.values(), schemas, selection.scope)
    tags = {name: frozenset({"keep_f32", "keep_dtype"}) for name in keep_dtype}
    context = RuleContext(selection.scope, book.patterns, tags)
    phases = PhaseRunner(book, selection, schemas, context)
    return Toolchain(book, schemas, found, selection, dict(opsets), phases)


_ONNX_ONLY: Final = "ONNX_ONLY"
_NOT_ONNX: Final = "it makes an operator that ONNX does not have"


def _makes_fused_operators(book: RuleBook, rule: Rule) -> bool:
    """Whether a rule makes operators outside of ONNX. Legalization, which has no kind, does not count."""
    ruleset = book.rulesets.get(rule.ruleset)
    if ruleset is not None and ruleset.kind is None:
        return False
    calls = (call for line in rule.rewrite for call in calls_of(line.build))
    return any(isinstance(call.op, PlainOp) and "::" in call.op.name for call in calls)


def _check_params(book: RuleBook, given: Mapping[str, Value]) -> None:
    """Refuse values of another kind than a parameter's own: guards would fail on them one by one."""
    names = sorted(book.params.keys() & given.keys())
    if not names:
        return
    faults, own = Faults(), resolve_params(book)
    for name in names:
        wanted, found = _kind_of(own[name]), _kind_of(given[name])
        if found != wanted and (found, wanted) != ("a whole number", "a number"):
            faults.add(
                table.BAD_OPTION, option=f"${name}", value=given[name], reason=f"it is {found}",
                remedy=f"give {wanted}, such as {own[name]}",
            )  # fmt: skip
    faults.raise_if_any(PipelineError)


def _kind_of(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return "true or false"
    if isinstance(value, int | np.integer):
        return "a whole number"
    if isinstance(value, float | np.floating):
        return "a number"
    return "a text" if isinstance(value, str) else f"of kind {type(value).__name__}"


def evaluate_node(
    op: str, inputs: Sequence[Array | None], attrs: Mapping[str, Attr], opset: int, n_outputs: int
) -> Sequence[Array]:
    """Compute one operator on arrays, for constant folding."""
    return run_kernel(op, inputs, attrs, opset=opset, n_outputs=n_outputs)


__all__ = ["HOST", "RuleError", "RuleInput", "Toolchain", "evaluate_node", "make_toolchain", "shipped_rules"]
