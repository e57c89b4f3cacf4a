"""A pattern built in Python: operators on values, printed as the text of a rule."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Final

from gerules.dsl.external import declaration_of, name_in_rules
from gerules.ir import DType

_INDENT: Final = "    "


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A value of a pattern: what an operator makes, an input, something captured or folded."""

    name: str
    declared: str = ""
    """How a match writes it where it first stands: `W: const f32[M, C]`."""
    made_by: OpTerm | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """An expression of the rule language, as the attribute of a new operator."""

    text: str


Argument = Term | int | float | None
Attribute = (
    Term | Expression | DType | EllipsisType | bool | int | float | str | Sequence[int | float | str] | None
)


@dataclass(frozen=True, slots=True, eq=False)
class OpTerm:
    """An operator: in the match when a replaced value depends on it, otherwise a new one."""

    op: str
    args: tuple[Argument, ...]
    attrs: Mapping[str, Attribute]
    rest: Term | EllipsisType | None
    outputs: list[Term]
    line: int


class PatternFault(Exception):  # noqa: N818 - the registration makes the fault of it
    """What cannot be printed as a rule."""


@dataclass(slots=True)
class Pattern:
    """Builds one rule; a function given to `register_fusion_pattern` gets an empty one.

    Values are made by `input`, `const`, `attr`, `attrs`, `op` and `fold`; `replace` says which of them leave
    for what. Operators that the replaced values depend on are the match, all others are new. Types,
    conditions, folds and tests are texts, as a rule file has them.
    """

    file: str
    line: int
    _terms: list[Term] = field(default_factory=list[Term])
    _pairs: list[tuple[tuple[Term, ...], tuple[Term, ...], int]] = field(
        default_factory=list[tuple[tuple[Term, ...], tuple[Term, ...], int]]
    )
    _steps: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    _tests: list[tuple[str, str, int]] = field(default_factory=list[tuple[str, str, int]])
    _lines: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    _externs: dict[str, int] = field(default_factory=dict[str, int])

    # ------------------------------------------------------------ values
    def input(self, name: str, type: str = "", *, optional: bool = False) -> Term:
        """A value that the region reads: `p.input("x", "f16[N, C]")`; it may be absent when `optional`."""
        return self._term(name, f"{name}{'?' if optional else ''}{': ' + type if type else ''}")

    def const(self, name: str, type: str = "", *, optional: bool = False) -> Term:
        """A constant that the region reads: `p.const("W", "[M, C, 3, 3]")`."""
        return self.input(name, f"const {type}".rstrip(), optional=optional)

    def attr(self, name: str) -> Term:
        """A name for an attribute's value: `p.op("Concat", a, b, axis=p.attr("k"))`."""
        return self._term(name, name)

    def attrs(self, name: str) -> Term:
        """A name for all attributes not mentioned: `p.op("Conv", x, W, attrs=p.attrs("a"))`."""
        return self._term(name, f"**{name}")

    def op(
        self,
        op: str,
        *inputs: Argument,
        name: str = "",
        outputs: int = 1,
        attrs: Term | EllipsisType | None = None,
        **attributes: Attribute,
    ) -> Term:
        """What an operator makes of values and numbers; its first output.

        Args:
            name: Of the output in the rule; without it `t1`, `t2`, ...
            outputs: How many; `p.outputs(term)` gives all of them.
            attrs: The attributes not mentioned: `p.attrs("a")` binds them, `...` ignores them; without it
                they have their defaults.
            attributes: Numbers, texts, lists, element types, what `p.attr` and `p.expr` give; `...` is
                anything.
        """
        made = OpTerm(op, inputs, attributes, attrs, [], self._here())
        for place in range(max(1, outputs)):
            term = Term(name if not place else "", made_by=made)
            made.outputs.append(term)
            self._terms.append(term)
        return made.outputs[0]

    def outputs(self, term: Term) -> tuple[Term, ...]:
        """All outputs of the operator that makes a value."""
        return (term,) if term.made_by is None else tuple(term.made_by.outputs)

    def expr(self, text: str) -> Expression:
        """An expression of the rule language, for an attribute of a new operator: `axis=p.expr("k + 1")`."""
        return Expression(text)

    def fold(self, name: str, expression: str) -> Term:
        """A value computed when compiling: `p.fold("k", "cast(a * b, a.dtype)")`."""
        self._steps.append(("fold", f"{name} = {expression}", self._here()))
        return self._term(name, name)

    # ------------------------------------------------------------ what the rule says of them
    def where(self, condition: str | Callable[..., object], *arguments: str, otherwise: str = "") -> None:
        """A condition: an expression, or a function registered by `@gerules.predicate` and its arguments.

        Args:
            arguments: Expressions, one for each parameter: `p.where(is_pow2, "C")`.
            otherwise: Why the rule does not fire then, in the words of the user.
        """
        text = condition if isinstance(condition, str) else self._call(condition, arguments)
        reason = f" else {_quoted(otherwise)}" if otherwise else ""
        self._steps.append(("where", text + reason, self._here()))

    def replace(self, old: Term | Sequence[Term], new: Term | Sequence[Term]) -> None:
        """Say what the readers of matched values read from now on."""
        olds, news = _listed(old), _listed(new)
        if len(olds) != len(news):
            raise PatternFault(f"{len(olds)} values are replaced by {len(news)}")
        self._pairs.append((olds, news, self._here()))

    def say(self, line: str) -> None:
        """Another line of the rule: `inexact "..."`, `once`, `opset >= 13`, `when device.has("...")`."""
        self._lines.append((line, self._here()))

    def test(self, lines: str, doc: str = "") -> None:
        """A test of the rule, its lines as in a rule file."""
        self._tests.append((lines, doc, self._here()))

    # ------------------------------------------------------------ printing
    def print_rule(self, name: str, ruleset: str, doc: str, priority: int) -> tuple[str, tuple[int, ...]]:
        """Return the text of the rule, and for each of its lines the line of Python that says it.

        Raises:
            PatternFault: nothing is replaced, a name is given twice, a value is of another pattern.
        """
        if not self._pairs:
            raise PatternFault("it replaces nothing; end with p.replace(old, new)")
        names = self._names()
        matched = _closure([term for old, _, _ in self._pairs for term in old], set())
        if not matched:
            raise PatternFault("what it replaces is made by no operator")
        out = [(line, at) for line, at in self._externs.items()]
        out += [(f"rule {name} in {ruleset}{' ' + _quoted(doc) if doc else ''}:", self.line)]
        out += [(f"{_INDENT}priority {priority}", self.line)] if priority else []
        out += [(_INDENT + line, at) for line, at in self._lines]
        out += [(f"{_INDENT}match:", self.line)]
        declared: set[Term] = set()
        out += [(_INDENT * 2 + self._matched(op, names, declared), op.line) for op in matched]
        section = ""
        for kind, text, at in self._steps:
            out += [(f"{_INDENT}{kind}:", at)] if kind != section else []
            out += [(_INDENT * 2 + text, at)]
            section = kind
        out += [(f"{_INDENT}rewrite:", self._pairs[0][2])]
        out += [(_INDENT * 2 + line, at) for line, at in self._rewrite(names, set(matched))]
        for lines, test_doc, at in self._tests:
            out += [(f"{_INDENT}test{' ' + _quoted(test_doc) if test_doc else ''}:", at)]
            out += [(_INDENT * 2 + line.strip(), at) for line in lines.splitlines() if line.strip()]
        return "".join(f"{line}\n" for line, _ in out), tuple(at for _, at in out)

    def _rewrite(self, names: dict[Term, str], matched: set[OpTerm]) -> list[tuple[str, int]]:
        replaced: dict[Term, str] = {}
        aliases: list[tuple[str, Term, int]] = []
        for olds, news, at in self._pairs:
            for old, new in zip(olds, news, strict=True):
                is_new = new.made_by is not None and new.made_by not in matched
                if is_new and new not in replaced:
                    replaced[new] = names[old]
                else:
                    aliases.append((names[old], new, at))
        names = names | replaced
        built = _closure([new for _, news, _ in self._pairs for new in news], matched)
        lines = [(self._built(op, names), op.line) for op in built]
        return lines + [(f"{old} = {names[new]}", at) for old, new, at in aliases]

    def _names(self) -> dict[Term, str]:
        taken: dict[str, Term] = {}
        for term in self._terms:
            if term.name and taken.setdefault(term.name, term) is not term:
                raise PatternFault(f"two of its values are called {term.name}")
        fresh = (f"t{number}" for number in range(1, len(self._terms) + len(taken) + 1))
        free = (name for name in fresh if name not in taken)
        return {term: term.name or next(free) for term in self._terms}

    def _matched(self, op: OpTerm, names: Mapping[Term, str], declared: set[Term]) -> str:
        args: list[str] = []
        for arg in op.args:
            text = _argument(arg, names)
            if isinstance(arg, Term) and arg.made_by is None and arg not in declared:
                text = arg.declared
                declared.add(arg)
            args.append(text)
        for key, value in op.attrs.items():
            args.append(f"{key}={_attribute(value, names)}")
        if op.rest is not None:
            args.append("**" if isinstance(op.rest, EllipsisType) else op.rest.declared)
        return f"{', '.join(names[term] for term in op.outputs)} = {op.op}({', '.join(args)})"

    def _built(self, op: OpTerm, names: Mapping[Term, str]) -> str:
        args = [_argument(arg, names) for arg in op.args]
        args += [f"{key}={_attribute(value, names)}" for key, value in op.attrs.items()]
        if isinstance(op.rest, EllipsisType):
            raise PatternFault(f"the new {op.op} cannot have attributes that were ignored; capture them")
        args += [f"**{op.rest.name}"] if op.rest is not None else []
        return f"{', '.join(names[term] for term in op.outputs)} = {op.op}({', '.join(args)})"

    # ------------------------------------------------------------ parts
    def _term(self, name: str, declared: str) -> Term:
        term = Term(name, declared)
        self._terms.append(term)
        return term

    def _call(self, function: Callable[..., object], arguments: Sequence[str]) -> str:
        found = name_in_rules(function)
        if found is None:
            name = getattr(function, "__name__", "this")
            raise PatternFault(f"{name} is not registered; decorate it with @gerules.predicate")
        self._externs.setdefault(declaration_of(found), self._here())
        return f"{found.name}({', '.join(arguments)})"

    def _here(self) -> int:
        """The line of the pattern's own file that is being executed."""
        frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  (the cheap way to a line)
        while frame is not None and frame.f_code.co_filename != self.file:
            frame = frame.f_back
        return self.line if frame is None else frame.f_lineno


def _closure(roots: Sequence[Term], known: set[OpTerm]) -> list[OpTerm]:
    """The operators that values depend on, inputs before readers, without those known."""
    found: dict[OpTerm, None] = {}
    stack: list[tuple[OpTerm, bool]] = [(root.made_by, False) for root in reversed(roots) if root.made_by]
    while stack:
        op, is_done = stack.pop()
        if is_done:
            found.setdefault(op)
        elif op not in found and op not in known:
            stack.append((op, True))
            args = [arg.made_by for arg in op.args if isinstance(arg, Term) and arg.made_by is not None]
            stack += [(arg, False) for arg in reversed(args)]
    return list(found)


def _listed(terms: Term | Sequence[Term]) -> tuple[Term, ...]:
    return (terms,) if isinstance(terms, Term) else tuple(terms)


def _argument(arg: Argument, names: Mapping[Term, str]) -> str:
    if arg is None:
        return "none"
    if not isinstance(arg, Term):
        return _number(arg)
    if arg not in names:
        raise PatternFault(f"{arg.name or 'a value'} belongs to another pattern")
    return names[arg]


def _attribute(value: Attribute, names: Mapping[Term, str]) -> str:
    match value:
        case Term():
            return _argument(value, names)
        case Expression(text=text):
            return text
        case DType():
            return value.value
        case str():
            return _quoted(value)
        case None:
            return "none"
        case bool() | int() | float():
            return _number(value)
        case EllipsisType():
            return "_"
        case _:
            items = (_quoted(item) if isinstance(item, str) else _number(item) for item in value)
            return f"[{', '.join(items)}]"


def _number(value: float) -> str:
    # ONNX has no truth values among its attributes and scalars: they are 0 and 1.
    return repr(int(value)) if isinstance(value, bool) else repr(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
