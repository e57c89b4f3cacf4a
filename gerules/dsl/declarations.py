"""Syntax of what stands around rules: constants, operator sets, formats, phases, profiles, devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as Choice

from gerules.dsl.expressions import Expr, Ident, Syntax
from gerules.dsl.syntax import Condition, Define, Formal, OpSet, PatternDef, Rule
from gerules.errors import Source


@dataclass(frozen=True, slots=True)
class Include(Syntax):
    """`include "prelude.ger"`."""

    path: str


@dataclass(frozen=True, slots=True)
class ConstDecl(Syntax):
    """`const NAME = value`, used as `$NAME`."""

    name: Ident
    value: Expr


@dataclass(frozen=True, slots=True)
class ParamDecl(Syntax):
    """`param NAME = value "what it does"`: a constant that a profile, a device or a caller may set."""

    name: Ident
    value: Expr
    doc: str


@dataclass(frozen=True, slots=True)
class OpsDecl(Syntax):
    """`ops NAME = set`."""

    name: Ident
    ops: OpSet


@dataclass(frozen=True, slots=True)
class FormatDim(Syntax):
    """One storage dimension: an axis whole, its blocks (`C / 16`), inside a block (`C % C0`), or the rest."""

    kind: Choice["axis", "outer", "inner", "rest"]
    axis: str
    block: int | Choice["C0"] | None


@dataclass(frozen=True, slots=True)
class FormatDecl(Syntax):
    """`format NC1HWC0(N, C / C0, H, W, C % C0)`."""

    name: Ident
    dims: tuple[FormatDim, ...]


@dataclass(frozen=True, slots=True)
class ExternDecl(Syntax):
    """`extern function f(x: value) -> int from "module"`: registered from Python.

    `returns` is "bool" for a predicate; `module` is what to import, for whoever reads an error.
    """

    kind: Choice["predicate", "function"]
    name: Ident
    formals: tuple[Formal, ...]
    returns: str
    module: str = ""


@dataclass(frozen=True, slots=True)
class RuleSet(Syntax):
    """`ruleset name "doc":` with the settings of its rules; `kind` is what GE calls such a pass."""

    name: Ident
    doc: str
    when: tuple[Condition, ...]
    is_on: bool
    priority: int
    kind: Choice["GraphFusion", "UBFusion"] | None


@dataclass(frozen=True, slots=True)
class Phase(Syntax):
    """`phase name "doc":`. `max_rounds` is None when not given; `is_fixpoint` False runs each place once."""

    name: Ident
    doc: str
    run: tuple[Ident, ...]
    then: tuple[Ident, ...]
    order: Choice["outputs_first", "inputs_first"]
    is_fixpoint: bool
    max_rounds: int | None
    is_once: bool
    requires: tuple[Condition, ...]
    ensures: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Pipeline(Syntax):
    """`pipeline name = [phases]`."""

    name: Ident
    phases: tuple[Ident, ...]


@dataclass(frozen=True, slots=True)
class Setting(Syntax):
    """`set name = value`."""

    name: Ident
    value: Expr


@dataclass(frozen=True, slots=True)
class Profile(Syntax):
    """`profile name extends base "doc":`. `enable`/`disable` name rules, rule sets or aliases."""

    name: Ident
    extends: Ident | None
    doc: str
    settings: tuple[Setting, ...]
    enable: tuple[Ident, ...]
    disable: tuple[Ident, ...]


@dataclass(frozen=True, slots=True)
class Engine(Syntax):
    """`engine cube priority 10: MATMUL + {Conv} where cond`."""

    name: Ident
    priority: int
    ops: OpSet
    where: Condition | None


@dataclass(frozen=True, slots=True)
class Device(Syntax):
    """`device name extends base "doc":`."""

    name: Ident
    extends: Ident | None
    doc: str
    engines: tuple[Engine, ...]
    lacks: tuple[OpSet, ...]
    features: tuple[Ident, ...]
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class FormatInput(Syntax):
    """`x: NC1HWC0`, `B?: ND`, or `*: f` for all inputs (`name` empty). Lower-case formats are variables."""

    name: str
    format: Ident
    is_optional: bool = False
    is_rest: bool = False


@dataclass(frozen=True, slots=True)
class FormatLine(Syntax):
    """One kernel variant: an operator (or a set of them), the formats it takes and gives, its cost factor.

    `rest_outputs` is the format of every output after `outputs`, where the line says `*: FORMAT`.
    """

    ops: Ident | OpSet
    inputs: tuple[FormatInput, ...]
    outputs: tuple[Ident, ...]
    rest_outputs: Ident | None
    where: Condition | None
    cost: Expr | None


@dataclass(frozen=True, slots=True)
class FormatsTable(Syntax):
    """`formats on device.engine:`."""

    engine: Ident
    lines: tuple[FormatLine, ...]


Item = (
    ConstDecl
    | ParamDecl
    | OpsDecl
    | FormatDecl
    | ExternDecl
    | PatternDef
    | Define
    | RuleSet
    | Rule
    | Phase
    | Pipeline
    | Profile
    | Device
    | FormatsTable
)


@dataclass(frozen=True, slots=True)
class RuleFile:
    """One parsed file, its items in order; `version` is the language version it names (1 if none)."""

    source: Source
    version: int
    includes: tuple[Include, ...]
    items: tuple[Item, ...]
