"""Rule books: everything that a set of rule files declares, merged and in a fixed order."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol, TypeVar

from gerules.dsl.declarations import (
    ConstDecl,
    Device,
    ExternDecl,
    FormatDecl,
    FormatsTable,
    Item,
    OpsDecl,
    ParamDecl,
    Phase,
    Pipeline,
    Profile,
    RuleFile,
    RuleSet,
)
from gerules.dsl.expressions import Ident
from gerules.dsl.functions import FUNCTIONS
from gerules.dsl.registry import Function
from gerules.dsl.syntax import Define, OpSet, PatternDef, Rule
from gerules.errors import Diagnostic, Faults, Span, table
from gerules.ops.schema import OpSchema

_T = TypeVar("_T")

_MOST_TOLD: Final = 5
"""Names that two files share and that are told one by one; with more, one file is a copy of the other."""

_MAX_COMPARED: Final = 2000
_SHORTEST_BEGINNING = 4
"""Names that a suggestion is looked for in."""


class SchemaSource(Protocol):
    """Where operators are looked up; `gerules.ops.Schemas` is one."""

    def get(self, op: str, opset: int | None = None, /) -> OpSchema | None:
        """The schema of an operator at an opset, the latest when None; None when there is none."""
        ...

    def names(self) -> Iterable[str]:
        """Every operator known."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class RuleBook:
    """What rule files say, merged. Rules stand in the order of files, then lines.

    `op_sets` are the named operator sets, resolved. `warnings` were found by the checks when loading.
    `functions` are those that its expressions may call.
    """

    files: tuple[RuleFile, ...]
    rules: tuple[Rule, ...]
    consts: Mapping[str, ConstDecl]
    params: Mapping[str, ParamDecl]
    ops: Mapping[str, OpsDecl]
    op_sets: Mapping[str, frozenset[str]]
    formats: Mapping[str, FormatDecl]
    externs: Mapping[str, ExternDecl]
    patterns: Mapping[str, tuple[PatternDef, ...]]
    defines: Mapping[str, Define]
    rulesets: Mapping[str, RuleSet]
    phases: Mapping[str, Phase]
    pipelines: Mapping[str, Pipeline]
    profiles: Mapping[str, Profile]
    devices: Mapping[str, Device]
    tables: tuple[FormatsTable, ...]
    warnings: tuple[Diagnostic, ...] = ()
    functions: Mapping[str, Function] = field(default_factory=lambda: FUNCTIONS)

    def __repr__(self) -> str:
        return f"<RuleBook: {len(self.rules)} rules in {len(self.files)} files>"

    @cached_property
    def digest(self) -> str:
        """A hexadecimal digest of all texts; line ends and blanks at the end of lines do not count."""
        state = hashlib.blake2b(digest_size=16)
        for file in self.files:
            lines = [line.rstrip() for line in file.source.text.splitlines()]
            text = "\n".join(lines).strip("\n").encode("utf-8", "surrogatepass")
            state.update(len(text).to_bytes(8, "little") + text)
        return state.hexdigest()

    @cached_property
    def rule_by_name(self) -> Mapping[str, Rule]:
        """The rules by name."""
        return {rule.name.name: rule for rule in self.rules}

    @cached_property
    def _sets(self) -> Mapping[str, tuple[Rule, ...]]:
        found: dict[str, list[Rule]] = {name: [] for name in self.rulesets}
        for rule in self.rules:
            found.setdefault(rule.ruleset, []).append(rule)
        return {name: tuple(rules) for name, rules in found.items()}

    @property
    def set_names(self) -> tuple[str, ...]:
        """The names of all rule sets, declared or only named by rules."""
        return tuple(self._sets)

    def rules_of(self, ruleset: str) -> tuple[Rule, ...]:
        """Return the rules of a set, in order; a set that nothing names is empty."""
        return self._sets.get(ruleset, ())

    @cached_property
    def rules_by_alias(self) -> Mapping[str, tuple[Rule, ...]]:
        """The rules by the names that fusion switches know; several rules may share one."""
        found: dict[str, list[Rule]] = {}
        for rule in self.rules:
            for alias in rule.aliases:
                found.setdefault(alias, []).append(rule)
        return {alias: tuple(rules) for alias, rules in found.items()}

    def resolve(self, ops: OpSet) -> frozenset[str]:
        """Return the operators of a set expression; a named set that does not exist is empty."""
        return _resolve(ops, self.op_sets)


def merge_files(files: Sequence[RuleFile], faults: Faults) -> RuleBook:
    """Merge files into a book. Of what is declared twice the first one stays.

    Such names are recorded as E40103; where two files share many, as one E40108.
    """
    merger = _Merger(faults)
    for file in files:
        for item in file.items:
            merger.add(item)
    merger.report_twice()
    return RuleBook(
        tuple(files),
        tuple(merger.rules),
        merger.consts,
        merger.params,
        merger.ops,
        _resolve_sets(merger.ops, faults),
        merger.formats,
        merger.externs,
        {name: tuple(clauses) for name, clauses in merger.patterns.items()},
        merger.defines,
        merger.rulesets,
        merger.phases,
        merger.pipelines,
        merger.profiles,
        merger.devices,
        tuple(merger.tables),
    )


def suggest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return a note with the nearest known name, if one is near."""
    # Only names of about this length are compared: a file full of mistakes must not cost minutes.
    known = list(known)
    same = [item for item in known if item.casefold() == name.casefold()]
    if same:
        return (f"did you mean {same[0]}?",)
    alike = [item for item in known if abs(len(item) - len(name)) <= 3][:_MAX_COMPARED]
    near = difflib.get_close_matches(name, alike, n=1)
    if not near and len(name) >= _SHORTEST_BEGINNING:
        near = [item for item in known if item.startswith(name)][:1]
    return (f"did you mean {near[0]}?",) if near else ()


class _Merger:
    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.rules: list[Rule] = []
        self.tables: list[FormatsTable] = []
        self.patterns: dict[str, list[PatternDef]] = {}
        self.consts: dict[str, ConstDecl] = {}
        self.params: dict[str, ParamDecl] = {}
        self.ops: dict[str, OpsDecl] = {}
        self.formats: dict[str, FormatDecl] = {}
        self.externs: dict[str, ExternDecl] = {}
        self.defines: dict[str, Define] = {}
        self.rulesets: dict[str, RuleSet] = {}
        self.phases: dict[str, Phase] = {}
        self.pipelines: dict[str, Pipeline] = {}
        self.profiles: dict[str, Profile] = {}
        self.devices: dict[str, Device] = {}
        self._seen: dict[tuple[str, str], Span] = {}
        self._twice: dict[tuple[str, str], list[tuple[str, Ident, Span]]] = {}
        """Kind, name and first place of what is declared twice, by the files of both."""

    def add(self, item: Item) -> None:
        match item:
            case FormatsTable():
                self.tables.append(item)
            case PatternDef():
                self.patterns.setdefault(item.name.name, []).append(item)
            case Rule():
                if self._is_new("rule", item.name):
                    self.rules.append(item)
            case ConstDecl():
                self._put("constant", self.consts, item, item.name)
            case ParamDecl():
                self._put("constant", self.params, item, item.name)
            case OpsDecl():
                self._put("operator set", self.ops, item, item.name)
            case FormatDecl():
                self._put("format", self.formats, item, item.name)
            case ExternDecl():
                # It defines nothing, so several files may say the same.
                if self.externs.get(item.name.name) != item:
                    self._put("function", self.externs, item, item.name)
            case Define():
                self._put("operator", self.defines, item, item.name)
            case RuleSet():
                self._put("rule set", self.rulesets, item, item.name)
            case Phase():
                self._put("phase", self.phases, item, item.name)
            case Pipeline():
                self._put("pipeline", self.pipelines, item, item.name)
            case Profile():
                self._put("profile", self.profiles, item, item.name)
            case Device():
                self._put("device", self.devices, item, item.name)

    def _put(self, kind: str, known: dict[str, _T], item: _T, name: Ident) -> None:
        if self._is_new(kind, name):
            known[name.name] = item

    def _is_new(self, kind: str, name: Ident) -> bool:
        first = self._seen.setdefault((kind, name.name), name.span)
        if first is name.span:
            return True
        files = name.span.source.name, first.source.name
        self._twice.setdefault(files, []).append((kind, name, first))
        return False

    def report_twice(self) -> None:
        """Record what is declared twice: each name, or that a file is a copy of another."""
        for (_, other), found in self._twice.items():
            if len(found) > _MOST_TOLD and other != found[0][1].span.source.name:
                names = ", ".join(name.name for _, name, _ in found[:_MOST_TOLD])
                span = found[0][1].span
                self.faults.add(table.COPIED_FILE, span=span, n_names=len(found), other=other, names=names)
                continue
            for kind, name, first in found:
                notes = [f"the first is at {first}"]
                self.faults.add(table.DECLARED_TWICE, span=name.span, kind=kind, name=name.name, notes=notes)


def _resolve(ops: OpSet, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for term in ops.terms:
        part = frozenset(op.name for op in term.ops)
        if term.ref is not None:
            part = known.get(term.ref.name, frozenset())
        found = found | part if term.sign == "+" else found - part
    return found


def _resolve_sets(declared: Mapping[str, OpsDecl], faults: Faults) -> dict[str, frozenset[str]]:
    """Resolve named sets that name each other in any order; a circle is recorded as E40106."""
    done: dict[str, frozenset[str]] = {}
    for root in declared:
        stack, path = [root], list[str]()
        while stack:
            name = stack[-1]
            if name in done:
                stack.pop()
                continue
            needed = [
                term.ref
                for term in declared[name].ops.terms
                if term.ref is not None and term.ref.name in declared and term.ref.name not in done
            ]
            if path and path[-1] == name:
                path.pop()
                stack.pop()
                done[name] = _resolve(declared[name].ops, done)
                continue
            path.append(name)
            for ref in needed:
                if ref.name in path:
                    circle = [*path[path.index(ref.name) :], ref.name]
                    faults.add(table.CIRCLE, span=ref.span, what="operator sets", path=" -> ".join(circle))
                else:
                    stack.append(ref.name)
    return done
