"""Syntax of rules: patterns, guards, builds, tests, and the rule that holds them.

Every record carries its `span`; records are equal when they say the same. Names that begin with `%`
cannot be written by users; the parser gives them to the unnamed root of a one-line rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal as Choice

from gerules.dsl.expressions import Comparison, Expr, Ident, Syntax
from gerules.ir import DType

ANY = "_"
"""The name that binds nothing."""

LiteralValue = bool | int | float | str | DType
"""A literal in an attribute pattern; `f16` is the element type."""


# ---------------------------------------------------------------- operator sets
@dataclass(frozen=True, slots=True)
class OpSetTerm(Syntax):
    """One term of an operator set: a named set, or operators in braces (then `ref` is None)."""

    sign: Choice["+", "-"]
    ref: Ident | None
    ops: tuple[Ident, ...]


@dataclass(frozen=True, slots=True)
class OpSet(Syntax):
    """`UNARY + {Clip} - {Neg}`, read from left to right."""

    terms: tuple[OpSetTerm, ...]


# ---------------------------------------------------------------- types as patterns
@dataclass(frozen=True, slots=True)
class DimSize(Syntax):
    """A dimension of this size."""

    size: int


@dataclass(frozen=True, slots=True)
class DimName(Syntax):
    """A dimension bound to a name for the whole rule; `_` binds nothing."""

    name: str


@dataclass(frozen=True, slots=True)
class DimSeq(Syntax):
    """`*name`: any number of dimensions, bound as a list."""

    name: str


@dataclass(frozen=True, slots=True)
class DimRest(Syntax):
    """`...`: any number of dimensions."""


DimPattern = DimSize | DimName | DimSeq | DimRest


@dataclass(frozen=True, slots=True)
class TypePattern(Syntax):
    """What a value's type must be.

    `dtypes` is what the element type must be one of (None: anything), from dtype names, classes and
    sets; `dtype_name` is the variable it unifies with. `dims` is None when the shape is open. At most
    one of `dims` is `DimSeq` or `DimRest`.
    """

    is_const: bool = False
    dtypes: frozenset[DType] | None = None
    dtype_name: str | None = None
    dims: tuple[DimPattern, ...] | None = None
    format: Ident | None = None


# ---------------------------------------------------------------- patterns
@dataclass(frozen=True, slots=True)
class PlainOp(Syntax):
    """An operator (or a named pattern, or a `define`d operator) by name.

    `order` is "schema" (`Add`: commutes when the schema says so), "ordered" (`Add!`: as written) or
    "any" (`Add~`: a tree of such operators with exactly these leaves). `is_optional` (`Cast?`): the
    operator may be absent, then its first argument matches directly.
    """

    name: str
    order: Choice["schema", "ordered", "any"] = "schema"
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class VariableOp(Syntax):
    """`f@SET(x)`: any operator of the set, bound to `name` (`_` binds nothing)."""

    name: str
    ops: OpSet
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class ChainOp(Syntax):
    """`ch@SET{2..16}(x, ...)`: a single-use path of `least` to `most` such operators (None: unbounded)."""

    name: str
    ops: OpSet
    least: int
    most: int | None


OpRef = PlainOp | VariableOp | ChainOp


@dataclass(frozen=True, slots=True)
class ValuePattern(Syntax):
    """`x`, `B?: const [M]`: a value bound to `name`; when `is_optional` it may be absent (bound to none)."""

    name: str
    type: TypePattern | None = None
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class NumberPattern(Syntax):
    """`0.5 ~ 0.001`: a one-element constant with this value; `tolerance` is relative, None: a few ulp."""

    value: int | float
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class ParamPattern(Syntax):
    """`$SQRT2 ~ 0.001`: a one-element constant with the value of a `const` or `param`."""

    name: str
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class NonePattern(Syntax):
    """`none`: the input is absent."""


@dataclass(frozen=True, slots=True)
class WithBinding(Syntax):
    """`with k = 1 / s`: what an alternative binds besides its own names."""

    name: Ident
    value: Expr


@dataclass(frozen=True, slots=True)
class Alternative(Syntax):
    """One way to match, and the values it binds."""

    pattern: Pattern
    bindings: tuple[WithBinding, ...]


@dataclass(frozen=True, slots=True)
class Alternatives(Syntax):
    """`(A with k = 1 | B with k = 2)`, tried in order, with backtracking."""

    choices: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class NamedPattern(Syntax):
    """`Relu(x) as r`: what the pattern matches, bound to a name."""

    pattern: Pattern
    name: Ident


@dataclass(frozen=True, slots=True)
class RestInputs(Syntax):
    """`*xs`: the remaining inputs, as a list."""

    name: str


@dataclass(frozen=True, slots=True)
class AnyInputs(Syntax):
    """`...`: the remaining inputs, whatever they are."""


@dataclass(frozen=True, slots=True)
class CaptureAttr(Syntax):
    """`axis=k`: the attribute's value (or the constant input of that name), bound to a name.

    Without `is_optional` an absent attribute is bound to its schema default, and an absent one
    without default does not match; with it (`k?`) it is bound to none. `_` ignores the value.
    """

    name: str
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class LiteralAttr(Syntax):
    """`keepdims=1`, `to=f16`, `mode="constant"`."""

    value: LiteralValue


@dataclass(frozen=True, slots=True)
class ParamAttr(Syntax):
    """`alpha=$ALPHA`."""

    name: str


@dataclass(frozen=True, slots=True)
class ListAttr(Syntax):
    """`perm=[0, 2, 1]`."""

    values: tuple[LiteralValue, ...]


@dataclass(frozen=True, slots=True)
class OneOfAttr(Syntax):
    """`mode={"linear", "cubic"}`."""

    values: tuple[LiteralValue, ...]


@dataclass(frozen=True, slots=True)
class AbsentAttr(Syntax):
    """`axes=none`: not given."""


AttrPattern = CaptureAttr | LiteralAttr | ParamAttr | ListAttr | OneOfAttr | AbsentAttr


@dataclass(frozen=True, slots=True)
class AttrArg(Syntax):
    """`name=pattern` in a call pattern: a schema parameter, be it attribute or constant input."""

    name: Ident
    pattern: AttrPattern


@dataclass(frozen=True, slots=True)
class RestAttrs(Syntax):
    """`**a` binds the attributes not mentioned, `**` (name None) ignores them; else they must be default."""

    name: str | None


@dataclass(frozen=True, slots=True)
class CallPattern(Syntax):
    """`Op(args, attr=pattern, **rest)`. A `RestInputs` or `AnyInputs` comes last in `args`."""

    op: OpRef
    args: tuple[Pattern | RestInputs | AnyInputs, ...]
    attrs: tuple[AttrArg, ...]
    rest: RestAttrs | None


Pattern = (
    CallPattern | ValuePattern | NumberPattern | ParamPattern | NonePattern | Alternatives | NamedPattern
)


@dataclass(frozen=True, slots=True)
class Target(Syntax):
    """A name on the left of `=`; the type constrains it (match side only); `_` binds nothing."""

    name: str
    type: TypePattern | None = None


@dataclass(frozen=True, slots=True)
class RestTargets(Syntax):
    """`*name` on the left of `=`: the remaining outputs as a list; in a build, a group or a new list."""

    name: str


@dataclass(frozen=True, slots=True)
class AnyTargets(Syntax):
    """`...` on the left of `=`: the remaining outputs, whatever they are."""


@dataclass(frozen=True, slots=True)
class MatchLine(Syntax):
    """`targets = pattern`; `is_shared`: the value may have readers outside the match."""

    targets: tuple[Target | RestTargets | AnyTargets, ...]
    pattern: Pattern
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class ManyLines(Syntax):
    """`many 2..8:`, a group of like matches; `same` names agree in all, `limits` must hold for the group."""

    least: int
    most: int | None
    lines: tuple[MatchLine, ...]
    same: tuple[Ident, ...]
    limits: tuple[Expr, ...]


MatchStatement = MatchLine | ManyLines


# ---------------------------------------------------------------- guards, values, builds
@dataclass(frozen=True, slots=True)
class Condition(Syntax):
    """`test else "reason"`; `reason` is what the user reads when it does not hold."""

    test: Expr
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class FoldLine(Syntax):
    """`names = value`, evaluated at compile time; several names unpack a list."""

    names: tuple[Ident, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class BuildNumber(Syntax):
    """A number as input: a constant of the other operands' element type."""

    value: int | float


@dataclass(frozen=True, slots=True)
class BuildParam(Syntax):
    """`$NAME` as input: a constant, as `BuildNumber`."""

    name: str


@dataclass(frozen=True, slots=True)
class BuildNone(Syntax):
    """`none`: the input is absent."""


@dataclass(frozen=True, slots=True)
class BuildRest(Syntax):
    """`*xs`, `*ch.side_inputs`: a list, spread over the inputs."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BuildRef(Syntax):
    """A value that match, fold or an earlier line names."""

    name: str


@dataclass(frozen=True, slots=True)
class MatchedOp(Syntax):
    """`@f`: the operator that `f@SET` matched."""

    name: str


@dataclass(frozen=True, slots=True)
class BuildCall(Syntax):
    """`Op(args, attr=value, **a)`. A `PlainOp` that `is_optional` is left out when a later input is none."""

    op: PlainOp | MatchedOp
    args: tuple[Build | BuildNumber | BuildParam | BuildNone | BuildRest, ...]
    attrs: tuple[tuple[Ident, Expr], ...]
    rests: tuple[Ident, ...]


@dataclass(frozen=True, slots=True)
class BuildFunction(Syntax):
    """`fn Op(args)`: the matched region becomes the body of this new node."""

    call: BuildCall


@dataclass(frozen=True, slots=True)
class BuildEach(Syntax):
    """`each Op(xs)`: a node for every item of the lists named in it, all of one length; gives a list."""

    call: BuildCall


Build = BuildCall | BuildRef | BuildFunction | BuildEach
BuildArg = Build | BuildNumber | BuildParam | BuildNone | BuildRest


@dataclass(frozen=True, slots=True)
class BuildLine(Syntax):
    """`targets = build`; a target that match bound is replaced, any other is new."""

    targets: tuple[Target | RestTargets, ...]
    build: Build


@dataclass(frozen=True, slots=True)
class Annotation(Syntax):
    """`y.engine = "cube"`."""

    value_name: Ident
    key: Ident
    value: Expr


# ---------------------------------------------------------------- tests
@dataclass(frozen=True, slots=True)
class Elements(Syntax):
    """`[3, 2, 2]`, `fill(0)`, `random(7)`: the elements of a value, as graph text writes them.

    `values` are those of the list (one for a number alone), the one of `fill`, or the seed of `random`.
    """

    kind: Choice["list", "fill", "random"]
    values: tuple[int | float, ...]


@dataclass(frozen=True, slots=True)
class GivenValue(Syntax):
    """`B?: const f32[8] in 0.5 .. 2.0`; `type` None: absent; `is_optional`: run with and without it.

    Elements are random between `low` and `high`, or what `elements` says.
    """

    name: Ident
    type: TypePattern | None
    is_optional: bool = False
    low: float | None = None
    high: float | None = None
    elements: Elements | None = None


@dataclass(frozen=True, slots=True)
class GivenAttr(Syntax):
    """`axis = -1`: the value of a captured attribute or of a constant."""

    name: Ident
    value: Expr


@dataclass(frozen=True, slots=True)
class GivenChoice(Syntax):
    """`choose f = [Relu]`: the operators that a variable or a chain stands for.

    For `after y = [Relu, Transpose]`: the operators that read a matched value, one after the other.
    """

    name: Ident
    ops: tuple[Ident, ...]


@dataclass(frozen=True, slots=True)
class RuleTest(Syntax):
    """One `test:` block. `rtol`/`atol` are None when not given; `reason` belongs to `expect no match`."""

    doc: str
    inputs: tuple[GivenValue | GivenAttr, ...]
    choices: tuple[GivenChoice, ...]
    after: tuple[GivenChoice, ...]
    device: Ident | None
    profile: Ident | None
    rtol: float | None
    atol: float | None
    escapes: tuple[Ident, ...]
    expects_match: bool
    reason: str | None


# ---------------------------------------------------------------- rules, patterns, definitions
@dataclass(frozen=True, slots=True)
class Rule(Syntax):
    """A rule. `steps` are guards and folds in the order written: later ones may use names of earlier ones."""

    name: Ident
    ruleset: str
    doc: str
    match: tuple[MatchStatement, ...]
    steps: tuple[Condition | FoldLine, ...]
    gates: tuple[Condition, ...]
    rewrite: tuple[BuildLine, ...]
    annotations: tuple[Annotation, ...]
    tests: Sequence[RuleTest]
    when: tuple[Condition, ...]
    opsets: tuple[tuple[Comparison, int], ...]
    priority: int
    overrides: tuple[Ident, ...]
    aliases: tuple[str, ...]
    is_inexact: bool
    inexact_reason: str
    is_once: bool
    decreases: Expr | None

    @property
    def guards(self) -> Iterator[Condition]:
        """The `where` lines."""
        return (step for step in self.steps if isinstance(step, Condition))

    @property
    def folds(self) -> Iterator[FoldLine]:
        """The `fold` lines."""
        return (step for step in self.steps if isinstance(step, FoldLine))


@dataclass(frozen=True, slots=True)
class Formal(Syntax):
    """A parameter of a `pattern` or an `extern`."""

    name: Ident
    type_name: str
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class PatternDef(Syntax):
    """`pattern name(formals) -> results:`; several of one name are alternatives in order."""

    name: Ident
    formals: tuple[Formal, ...]
    results: tuple[Ident, ...]
    match: tuple[MatchStatement, ...]
    guards: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class DefineParam(Syntax):
    """A parameter of a `define`: an attribute when it has a default, otherwise an input."""

    name: Ident
    is_optional: bool = False
    default: Expr | None = None


@dataclass(frozen=True, slots=True)
class Define(Syntax):
    """`define ge::Op(params, *rest, **attrs) -> results, *rest:`, what an operator computes.

    `rest_results` stands for all outputs of a node after `results`.
    """

    name: Ident
    params: tuple[DefineParam, ...]
    rest_inputs: Ident | None
    rest_attrs: Ident | None
    results: tuple[Ident, ...]
    rest_results: Ident | None
    body: tuple[BuildLine | FoldLine, ...]


def patterns_in(pattern: Pattern) -> Iterator[Pattern]:
    """Yield a pattern and every pattern inside it, outermost first, in reading order."""
    stack: list[Pattern] = [pattern]
    while stack:
        item = stack.pop()
        yield item
        match item:
            case CallPattern(args=args):
                inner = [arg for arg in args if not isinstance(arg, RestInputs | AnyInputs)]
                stack.extend(reversed(inner))
            case Alternatives(choices=choices):
                stack.extend(choice.pattern for choice in reversed(choices))
            case NamedPattern(pattern=inside):
                stack.append(inside)
            case _:
                pass


def match_lines(statements: tuple[MatchStatement, ...]) -> Iterator[MatchLine]:
    """Yield every match line, those of groups included."""
    for statement in statements:
        if isinstance(statement, MatchLine):
            yield statement
        else:
            yield from statement.lines
