"""What a model's nodes must look like: operators at the model's opsets, looked up once each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gerules.errors import table
from gerules.frontends.onnx.findings import Findings, shorten
from gerules.ops.registry import Schemas, split_op
from gerules.ops.schema import OpSchema, Param, ParamKind

_NO_LIMIT: Final = 1 << 62
_MOST_NAMED: Final = 5
"""Nodes of an unsupported operator that are told by name."""

_ANY: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class OpFacts:
    """What is checked of each node of one operator; `is_open` when nothing is known of it."""

    op: str
    since: int
    kinds: Mapping[str, str]
    required: tuple[str, ...]
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    is_open: bool = False


class Operators:
    """The operators of one set of opset imports (the model's, or those of one of its functions)."""

    def __init__(self, opsets: Mapping[str, int], schemas: Schemas, ledger: Ledger) -> None:
        self.opsets = opsets
        self._schemas = schemas
        self._ledger = ledger
        self.known: dict[str, OpFacts] = {}

    def look_up(self, op: str) -> OpFacts:
        """Return the facts of an operator; they are remembered in `known`."""
        facts = self.known.get(op)
        if facts is None:
            facts = self.known[op] = self.find(op)
        return facts

    def find(self, op: str) -> OpFacts:
        """Return the facts of an operator that is not in `known` yet."""
        domain, _ = split_op(op)
        version = self.opsets.get(domain)
        if version is None or domain not in self._ledger.domains:
            return OpFacts(op, 0, _ANY, (), 0, _NO_LIMIT, 0, _NO_LIMIT, True)
        schema = self._schemas.get(op, version)
        if schema is None or schema.is_deprecated:
            return OpFacts(op, -1, _ANY, (), 0, _NO_LIMIT, 0, _NO_LIMIT, True)
        return _facts(schema)


class Ledger:
    """Operators that no version or domain offers, collected over the whole model."""

    def __init__(self, schemas: Schemas, findings: Findings) -> None:
        self._schemas = schemas
        self._findings = findings
        self._names: dict[str, set[str]] = {}
        for op in schemas.names():
            domain, name = split_op(op)
            self._names.setdefault(domain, set()).add(name)
        self.domains = frozenset(self._names)
        self._unsupported: dict[tuple[str, int], list[str]] = {}
        self._n_nodes: dict[tuple[str, int], int] = {}
        self._unimported: dict[str, int] = {}

    def note(self, op: str, opset: int | None, node: str) -> None:
        """Record a node whose operator does not exist."""
        key = (op, opset or 0)
        self._n_nodes[key] = self._n_nodes.get(key, 0) + 1
        names = self._unsupported.setdefault(key, [])
        if len(names) < _MOST_NAMED:
            names.append(shorten(node))

    def note_domain(self, domain: str) -> None:
        """Record a node of a domain that the model does not import."""
        self._unimported[domain] = self._unimported.get(domain, 0) + 1

    def report(self) -> None:
        """Add a fault for each operator, and each domain, that was recorded."""
        for domain, n_nodes in self._unimported.items():
            self._findings.add(table.MISSING_DOMAIN, domain=domain or "ai.onnx", n_nodes=n_nodes)
        for (op, opset), names in self._unsupported.items():
            reason, remedy = self._explain(op, opset)
            shown = ", ".join(names)
            self._findings.add(
                table.OPERATOR_NOT_SUPPORTED,
                notes=(f"nodes: {shown}",),
                op=op,
                n_nodes=self._n_nodes[op, opset],
                reason=reason,
                remedy=remedy,
            )

    def _explain(self, op: str, opset: int) -> tuple[str, str]:
        newest = self._schemas.get(op)
        if newest is None:
            domain, name = split_op(op)
            close = closest(name, self._names.get(domain, ()))
            remedy = (
                f"did you mean {close}?" if close else "replace the operator, or define it in a rule file"
            )
            return "there is no such operator", remedy
        if newest.is_deprecated and newest.since <= opset:
            return f"it was withdrawn at opset {newest.since}", "export the model for a newer opset"
        return (
            f"it does not exist at opset {opset}; its present form is of opset {newest.since}",
            f"export the model for opset {newest.since}",
        )


def closest(name: str, names: Iterable[str]) -> str:
    """Return the name most like a misspelt one, or nothing."""
    found = difflib.get_close_matches(shorten(name), list(names), n=1, cutoff=0.7)
    return found[0] if found else ""


def describe_range(least: int, most: int) -> str:
    """Say how many are allowed: `2`, `2 to 3`, `at least 1`."""
    if most >= _NO_LIMIT:
        return f"at least {least}"
    return str(least) if least == most else f"{least} to {most}"


def _facts(schema: OpSchema) -> OpFacts:
    return OpFacts(
        schema.op,
        schema.since,
        {name: spec.kind for name, spec in schema.attrs.items()},
        tuple(name for name, spec in schema.attrs.items() if spec.is_required),
        _least(schema.inputs),
        _most(schema.inputs),
        _least(schema.outputs),
        _most(schema.outputs),
    )


def _least(params: tuple[Param, ...]) -> int:
    """The place of the last parameter that must be there."""
    least = 0
    for place, param in enumerate(params):
        if param.kind is ParamKind.REQUIRED:
            least = place + 1
        elif param.kind is ParamKind.VARIADIC and param.min_count:
            least = place + param.min_count
    return least


def _most(params: tuple[Param, ...]) -> int:
    return _NO_LIMIT if params and params[-1].kind is ParamKind.VARIADIC else len(params)
