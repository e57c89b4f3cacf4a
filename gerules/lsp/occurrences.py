"""Occurrences: every name that a rule file mentions, where, and as what, read off the parse tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from lark import Token, Tree

from gerules.dsl.read_pattern import DTYPE_CLASSES, DTYPES
from gerules.dsl.syntax import ANY
from gerules.dsl.tree import Branch, kids

Role = Literal[
    "local",  # a name of one rule, pattern or definition
    "ref",  # a name in an expression: local, an operator set, an operator, or of the language
    "operator",
    "ops",
    "attribute",
    "parameter",
    "member",
    "function",
    "param",
    "rule",
    "ruleset",
    "switch",
    "phase",
    "pipeline",
    "profile",
    "device",
    "engine",
    "feature",
    "format",
    "axis",
    "mark",
    "dtype",
]


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One mention of a name.

    `item` counts the items of the file: local names of different items have nothing to do with each
    other. `owner` is the operator of an attribute, or the function of a parameter.
    """

    start: int
    end: int
    name: str
    role: Role
    is_declaration: bool = False
    item: int = 0
    owner: str = ""


_FIRST_AND_REST: Final[dict[str, tuple[Role, Role]]] = {
    "const_decl": ("param", "param"),
    "param_decl": ("param", "param"),
    "ops_decl": ("ops", "ops"),
    "opset_ref": ("ops", "ops"),
    "opset_lit": ("operator", "operator"),
    "format_decl": ("format", "format"),
    "fdim_axis": ("axis", "axis"),
    "fdim_outer": ("axis", "axis"),
    "fdim_inner": ("axis", "axis"),
    "extern_decl": ("function", "dtype"),
    "formal": ("local", "dtype"),
    # Of a pattern the first is its name, of a definition too; what it gives stands behind.
    "pattern_def": ("operator", "local"),
    "define_def": ("operator", "local"),
    "dresult_one": ("local", "local"),
    "dresult_rest": ("local", "local"),
    "dformal_one": ("local", "local"),
    "dformal_rest": ("local", "local"),
    "dformal_attrs": ("local", "local"),
    "rule_block": ("rule", "rule"),
    "rule_inline": ("rule", "rule"),
    "meta_overrides": ("rule", "rule"),
    "many_same": ("local", "local"),
    "target_name": ("local", "local"),
    "target_rest": ("local", "local"),
    "fold_stmt": ("local", "local"),
    "ann_stmt": ("local", "mark"),
    "pat": ("local", "local"),
    "op": ("operator", "operator"),
    "op_ordered": ("operator", "operator"),
    "op_assoc": ("operator", "operator"),
    "op_optional": ("operator", "operator"),
    "op_var": ("local", "local"),
    "op_chain": ("local", "local"),
    "p_rest": ("local", "local"),
    "p_kwrest": ("local", "local"),
    "pvar": ("local", "local"),
    "p_param": ("param", "param"),
    "wbind": ("local", "local"),
    "a_capture": ("local", "local"),
    "a_optional": ("local", "local"),
    "a_param": ("param", "param"),
    "ty_dtype": ("local", "local"),
    "ty_dtypes": ("dtype", "dtype"),
    "ty_format": ("format", "format"),
    "dim_name": ("local", "local"),
    "dim_seq": ("local", "local"),
    "bt_name": ("local", "local"),
    "bt_rest": ("local", "local"),
    "b_var": ("local", "local"),
    "bop": ("operator", "operator"),
    "bop_optional": ("operator", "operator"),
    "bop_var": ("local", "local"),
    "b_param": ("param", "param"),
    "b_kwrest": ("local", "local"),
    "name": ("ref", "ref"),
    "param": ("param", "param"),
    "e_attr": ("member", "member"),
    "tname": ("local", "local"),
    "t_attr": ("local", "local"),
    "t_choose": ("local", "operator"),
    "t_after": ("local", "operator"),
    "t_device": ("device", "device"),
    "t_profile": ("profile", "profile"),
    "t_escapes": ("local", "local"),
    "phase_def": ("phase", "phase"),
    "pipeline_decl": ("pipeline", "phase"),
    "profile_def": ("profile", "profile"),
    "pf_set": ("param", "param"),
    "device_def": ("device", "device"),
    "dv_engine": ("engine", "engine"),
    "dv_has": ("feature", "feature"),
    "dv_set": ("param", "param"),
    "fmt_line": ("operator", "operator"),
    "fmt_one": ("local", "format"),
    "fmt_rest": ("format", "format"),
    "fmt_out_one": ("format", "format"),
    "fmt_out_rest": ("format", "format"),
    # The three whose name belongs to an operator or a function are looked at where that is known.
    "p_kw": ("attribute", "attribute"),
    "b_kw": ("attribute", "attribute"),
    "e_kw": ("parameter", "parameter"),
}
"""What the first name directly below a node of the tree is, and what the others are."""

ROLES_OF_NODES: Final = frozenset(_FIRST_AND_REST)
"""The nodes of the tree that hold names."""

_DECLARING: Final = frozenset(
    [
        *("const_decl", "param_decl", "ops_decl", "format_decl", "extern_decl", "pattern_def", "define_def"),
        *("rule_block", "rule_inline", "phase_def", "pipeline_decl", "profile_def", "device_def"),
        *("target_name", "target_rest", "bt_name", "bt_rest", "fold_stmt", "pat", "wbind", "dv_engine"),
        *("op_var", "op_chain", "p_rest", "p_kwrest", "a_capture", "a_optional", "formal", "fmt_one"),
        *("dformal_one", "dformal_rest", "dformal_attrs"),
    ]
)
"""Nodes whose first name is declared there."""

_NAMES: Final = frozenset(["NAME", "QNAME"])

_DOTTED: Final[dict[str, Role]] = {
    "rule_block": "ruleset",
    "rule_inline": "ruleset",
    "ruleset_def": "ruleset",
    "ph_run": "switch",
    "ph_then": "switch",
    "pf_enable": "switch",
    "pf_disable": "switch",
    "formats_def": "engine",
    "b_rest": "local",
}
"""What a name with dots is, by the node above it."""


def find_occurrences(tree: Tree[Token]) -> tuple[Occurrence, ...]:
    """Return every name in a tree of the rule grammar, in the order of the text.

    Cost: linear.
    """
    found: list[Occurrence] = []
    for number, item in enumerate(child for child in kids(tree) if isinstance(child, Tree)):
        found += _in_item(item, number)
    return tuple(sorted(found, key=lambda item: item.start))


def _in_item(item: Tree[Token], number: int) -> Iterator[Occurrence]:
    stack: list[tuple[Tree[Token], str, bool]] = [(item, "", False)]
    while stack:
        node, owner, is_called = stack.pop()
        kind = str(node.data)
        children = kids(node)
        yield from _direct(node, kind, children, number, owner, is_called)
        inner = _owner(kind, children) or owner
        for place, child in enumerate(children):
            if isinstance(child, Tree) and child.data != "dotted":
                stack.append((child, inner, kind == "e_call" and place == 0))


def _direct(
    node: Tree[Token], kind: str, children: list[Branch], number: int, owner: str, is_called: bool
) -> Iterator[Occurrence]:
    roles = _FIRST_AND_REST.get(kind)
    n_names = 0
    for child in children:
        if isinstance(child, Tree):
            role = _DOTTED.get(kind)
            if child.data == "dotted" and role is not None:
                yield from _dotted(child, role, kind == "ruleset_def", number)
            continue
        if child is None or child.type not in _NAMES or roles is None:
            continue
        role = roles[0] if n_names == 0 else roles[1]
        # All names on the left of a fold are declared.
        is_declared = kind in _DECLARING and (n_names == 0 or kind == "fold_stmt")
        n_names += 1
        if child == ANY:
            continue
        if is_called and kind == "name":
            role = "function"
        elif kind == "name" and child.type == "QNAME":
            role = "operator"
        role = _settled(kind, str(child), role)
        is_owned = role in {"attribute", "parameter"}
        yield _occurrence(child, role, is_declared and role != "dtype", number, owner if is_owned else "")


def _settled(kind: str, name: str, role: Role) -> Role:
    """Small names are element types where a variable could stand, and format variables among formats."""
    if kind in {"ty_dtype", "a_capture"} and (name in DTYPES or name in DTYPE_CLASSES):
        return "dtype"
    return "local" if role == "format" and kind.startswith("fmt_") and name[0].islower() else role


def _dotted(tree: Tree[Token], role: Role, is_declared: bool, number: int) -> Iterator[Occurrence]:
    parts = [child for child in kids(tree) if isinstance(child, Token)]
    if role in {"local", "engine"}:
        first: Role = "device" if role == "engine" else "local"
        rest: Role = "engine" if role == "engine" else "member"
        for place, part in enumerate(parts):
            yield _occurrence(part, rest if place else first, False, number, str(parts[0]) if place else "")
        return
    start, end = parts[0].start_pos or 0, parts[-1].end_pos or 0
    yield Occurrence(start, end, ".".join(parts), role, is_declared, number)


def _occurrence(token: Token, role: Role, is_declared: bool, number: int, owner: str) -> Occurrence:
    return Occurrence(token.start_pos or 0, token.end_pos or 0, str(token), role, is_declared, number, owner)


def _owner(kind: str, children: list[Branch]) -> str:
    """The operator (or operator set) that a call is one of, or the function that it calls."""
    first = children[0] if children else None
    if kind not in {"call", "bcall", "e_call"} or not isinstance(first, Tree):
        return ""
    names = [str(child) for child in kids(first) if isinstance(child, Token) and child.type in _NAMES]
    if first.data in {"op_var", "op_chain"}:
        ops = next(child for child in kids(first) if isinstance(child, Tree))
        names = [str(child) for child in kids(ops) if isinstance(child, Token)]
    return names[0] if names and first.data != "bop_var" else "?"
