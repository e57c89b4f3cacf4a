"""Completion: the names and words that fit where the cursor stands, in a text that may be half written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from gerules.dsl import rules_folder
from gerules.dsl.check_expr import GATE_NAMES, STATIC_NAMES
from gerules.dsl.functions import ATTRIBUTES, METHODS
from gerules.dsl.load import SUFFIX
from gerules.dsl.read_pattern import DTYPE_CLASSES, DTYPES
from gerules.dsl.selection import switch_names
from gerules.ir import Format
from gerules.lsp.cursor import Cursor, find_cursor, names_in
from gerules.lsp.operator_docs import attribute_note
from gerules.lsp.words import BLOCKS, EXPRESSIONS, WORDS
from gerules.lsp.workspace import Context
from gerules.ops import ParamKind

Kind = (
    Literal[
        "keyword", "operator", "pattern", "attribute", "input", "name", "function", "ops", "param", "type"
    ]
    | Literal["format", "rule", "ruleset", "phase", "profile", "device", "member", "file"]
)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What may stand at the cursor.

    `text` replaces the characters from `start` to the cursor. `is_near`: it comes from here (a name of the
    rule, an attribute of the operator), and stands above the others.
    """

    label: str
    kind: Kind
    text: str
    start: int
    detail: str = ""
    is_near: bool = False


_PART_OF_PROFILE: Final = frozenset(["enable", "disable"])


def complete(context: Context, text: str, offset: int) -> list[Suggestion]:
    """Return what fits at an offset of a text; the context may be of an earlier state of it.

    Every suggestion goes on with what is typed there already.
    """
    cursor = find_cursor(text, offset)
    if cursor.place == "comment":
        return []
    if cursor.place == "text":
        found = _files(context, text, offset)
    else:
        found = _Completer(context, cursor, names_in(text, offset)).all()
    unique: dict[str, Suggestion] = {}
    for item in found:
        typed = text[item.start : offset]
        if item.text.lower().startswith(typed.lower()) or _is_spread(typed, item.text):
            unique.setdefault(item.label, item)
    return list(unique.values())


def _is_spread(typed: str, text: str) -> bool:
    """Whether the letters typed appear in this order, as editors filter."""
    letters = iter(text.lower())
    return all(letter in letters for letter in typed.lower())


def _files(context: Context, text: str, offset: int) -> Iterator[Suggestion]:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    if not line.startswith("include"):
        return
    start = offset - (len(line) - line.rfind('"') - 1)
    folder = Path(context.key).parent
    for root in (folder, rules_folder().resolve()):
        for key in context.readings:
            if key != context.key and key.endswith(SUFFIX) and Path(key).is_relative_to(root):
                path = Path(key).relative_to(root).as_posix()
                yield Suggestion(path, "file", path, start, "", root == folder)


class _Completer:
    def __init__(self, context: Context, cursor: Cursor, names: frozenset[str]) -> None:
        self.context = context
        self.book = context.book
        self.cursor = cursor
        self.names = names

    def all(self) -> Iterator[Suggestion]:
        """Yield what fits, the nearest first."""
        cursor = self.cursor
        if cursor.before == "$":
            yield from self.several([*self.book.consts, *self.book.params], "param")
        elif cursor.before == "." or cursor.dotted.endswith("."):
            yield from self.members()
        elif not cursor.line and not cursor.item:
            yield from self.words(BLOCKS[""])
        elif cursor.item in {"rule", "pattern", "define"}:
            yield from self.in_rule()
        else:
            yield from self.elsewhere()

    # ------------------------------------------------------------ rules, patterns, definitions
    def in_rule(self) -> Iterator[Suggestion]:
        cursor = self.cursor
        block = cursor.block or ("" if cursor.item == "rule" else cursor.item)
        first = cursor.line[0].text if cursor.line else ""
        if block == "head":
            yield from self.head(cursor.before)
        elif block in {"match", "many", "pattern"}:
            yield from self.in_match(block)
        elif block in {"rewrite", "define"} and first not in EXPRESSIONS:
            yield from self.in_rewrite(block)
        elif block == "test":
            yield from self.in_test(first)
        elif block in EXPRESSIONS or first in EXPRESSIONS:
            yield from self.in_expression(block or first)
        elif not cursor.line:
            yield from self.words(BLOCKS["rule"])
        elif first == "overrides":
            yield from self.several(self.book.rule_by_name, "rule")

    def head(self, before: str) -> Iterator[Suggestion]:
        if before == "in" or "." in self.cursor.dotted:
            yield from self.dotted(self.book.set_names, "ruleset")
        elif len(self.cursor.line) == 2:
            yield from self.words(["in"])

    def in_match(self, block: str) -> Iterator[Suggestion]:
        cursor = self.cursor
        if cursor.before == "@":
            is_format = cursor.is_type
            yield from self.formats() if is_format else self.several(self.book.ops, "ops")
            return
        if cursor.is_type:
            yield from self.types()
            return
        if cursor.keyword:
            yield from self.locals()
            yield from self.words(["none", "true", "false"])
            yield from self.dtypes()
            return
        yield from self.attributes()
        yield from self.locals()
        if not cursor.line:
            yield from self.words(BLOCKS.get(block, ()))
        else:
            yield from self.operators()
            yield from self.several(self.book.patterns, "pattern")
            yield from self.words(["none", "as", "with"] if cursor.callee else [])

    def in_rewrite(self, block: str) -> Iterator[Suggestion]:
        cursor = self.cursor
        if cursor.before == "@":
            yield from self.locals()
        elif cursor.keyword:
            yield from self.in_expression("fold")
        else:
            yield from self.attributes()
            yield from self.locals()
            if cursor.line:
                yield from self.operators()
                yield from self.words(["none"] if cursor.callee else ["fn", "each"])
            else:
                yield from self.words(BLOCKS.get(block, ()))

    def in_test(self, first: str) -> Iterator[Suggestion]:
        cursor = self.cursor
        if not cursor.line:
            yield from self.locals()
            yield from self.words(BLOCKS["test"])
        elif first == "device":
            yield from self.several(self.book.devices, "device")
        elif first == "profile":
            yield from self.several(self.book.profiles, "profile")
        elif first == "expect":
            yield from self.words(["no", "match"])
        elif first in {"choose", "after"}:
            yield from self.operators() if any(item.text == "[" for item in cursor.line) else self.locals()
        elif first == "escapes":
            yield from self.locals()
        elif cursor.before == "@":
            yield from self.formats()
        elif cursor.is_type:
            yield from self.types()
            yield from self.words(["none", "in"])

    def in_expression(self, block: str) -> Iterator[Suggestion]:
        function = self.book.functions.get(self.cursor.callee)
        if function is not None:
            for parameter in function.parameters:
                if not parameter.is_variadic:
                    name = parameter.name
                    yield self.one(name, "attribute", f"{name}=", function.signature, is_near=True)
            if any(parameter.reads_ops for parameter in function.parameters):
                yield from self.operators()
        yield from self.locals()
        for function in self.book.functions.values():
            yield self.one(function.name, "function", detail=function.signature)
        yield from self.several(self.book.externs, "function")
        yield from self.several(self.book.ops, "ops")
        yield from self.several(STATIC_NAMES, "name")
        if block == "gate":
            yield from self.several(GATE_NAMES, "name")
        yield from self.dtypes()
        yield from self.words(["and", "or", "not", "in", "is", "none", "true", "false", "if", "else"])

    # ------------------------------------------------------------ the other items
    def elsewhere(self) -> Iterator[Suggestion]:
        cursor, book = self.cursor, self.book
        first = cursor.line[0].text if cursor.line else ""
        match cursor.item, first:
            case ("", "") | ("include" | "gerules" | "extern", _):
                return
            case _, "run" | "then":
                yield from self.dotted(_with_prefixes(book.set_names), "ruleset")
            case _, "enable" | "disable":
                yield from self.dotted(switch_names(book), "ruleset")
            case _, "order":
                yield from self.words(["outputs_first", "inputs_first"])
            case _, "until":
                yield from self.words(["fixpoint", "max"])
            case _, "default":
                yield from self.words(["on", "off"])
            case _, "kind":
                yield from self.words(["GraphFusion", "UBFusion"])
            case "pipeline", _:
                yield from self.several(book.phases, "phase")
            case "profile", "profile":
                yield from self.based_on(book.profiles, "profile")
            case "device", "device":
                yield from self.based_on(book.devices, "device")
            case ("ops", _) | (_, "lacks" | "engine"):
                yield from self.several(book.ops, "ops")
                yield from self.operators()
            case "formats", "formats":
                for device in book.devices.values():
                    names = (f"{device.name}.{item.name}" for item in device.engines)
                    yield from self.dotted(names, "device")
            case "formats", _:
                yield from self.formats() if cursor.line else self.operators()
            case ("profile" | "device", "set") if "=" not in [item.text for item in cursor.line]:
                yield from self.several(book.params, "param")
            case ("ruleset", "ruleset"):
                yield from self.dotted(book.set_names, "ruleset")
            case item, "" if item in BLOCKS:
                yield from self.words(BLOCKS[item])
            case item, word if item in {"const", "param"} or word in EXPRESSIONS:
                yield from self.in_expression(word)
            case _:
                return

    def based_on(self, names: Iterable[str], kind: Kind) -> Iterator[Suggestion]:
        return self.several(names, kind) if self.cursor.before == "extends" else self.words(["extends"])

    # ------------------------------------------------------------ sources of names
    def one(
        self, label: str, kind: Kind, text: str = "", detail: str = "", *, is_near: bool = False
    ) -> Suggestion:
        return Suggestion(label, kind, text or label, self.cursor.start, detail, is_near)

    def several(self, names: Iterable[str], kind: Kind) -> Iterator[Suggestion]:
        for name in sorted(names):
            yield self.one(name, kind)

    def words(self, words: Iterable[str]) -> Iterator[Suggestion]:
        for word in words:
            yield self.one(word, "keyword", detail=WORDS[word])

    def dotted(self, names: Iterable[str], kind: Kind) -> Iterator[Suggestion]:
        """Names with dots replace all that is typed of them."""
        start = self.cursor.start + len(self.cursor.word) - len(self.cursor.dotted)
        for name in sorted(set(names)):
            yield Suggestion(name, kind, name, start)

    def locals(self) -> Iterator[Suggestion]:
        for name in sorted(self.names):
            yield self.one(name, "name", is_near=True)

    def operators(self) -> Iterator[Suggestion]:
        for name in sorted({*self.context.schemas.names(), *self.book.defines}):
            schema = self.context.schemas.get(name)
            if schema is not None and not schema.is_deprecated:
                yield self.one(name, "operator")

    def attributes(self) -> Iterator[Suggestion]:
        """Attributes of the operator whose parentheses are open, and inputs that may be named."""
        cursor = self.cursor
        if not cursor.callee or cursor.before not in {"(", ","}:
            return
        signs = zip(cursor.line, cursor.line[1:], strict=False)
        given = {piece.text for piece, sign in signs if sign.text == "="}
        ops = sorted(self.book.op_sets.get(cursor.callee, ())) if cursor.is_set else [cursor.callee]
        for op in ops:
            schema = self.context.schemas.get(op)
            if schema is None:
                continue
            for spec in schema.attrs.values():
                name = spec.name
                if name not in given:
                    yield self.one(name, "attribute", f"{name}=", attribute_note(spec), is_near=True)
            for param in schema.inputs:
                if param.name not in given and param.kind is not ParamKind.VARIADIC:
                    yield self.one(param.name, "input", f"{param.name}=", f"an input of {op}")

    def types(self) -> Iterator[Suggestion]:
        yield from self.words(["const"])
        yield from self.dtypes()
        yield from self.several(DTYPE_CLASSES, "type")
        yield from (item for item in self.locals() if item.label[0].isupper())

    def dtypes(self) -> Iterator[Suggestion]:
        yield from self.several(DTYPES, "type")

    def formats(self) -> Iterator[Suggestion]:
        yield from self.several({*self.book.formats, *Format.__members__}, "format")

    def members(self) -> Iterator[Suggestion]:
        """What may follow a dot: of a set's name its further parts, of a value its attributes."""
        cursor = self.cursor
        first = cursor.line[0].text if cursor.line else ""
        if first in {"run", "then", "rule", "ruleset", *_PART_OF_PROFILE}:
            names = switch_names(self.book) if first in _PART_OF_PROFILE else self.book.set_names
            yield from self.dotted((name for name in names if name.startswith(cursor.dotted)), "ruleset")
            return
        owner = cursor.line[-2].text if len(cursor.line) > 1 else ""
        if owner == "device":
            for name in (*METHODS, *ATTRIBUTES["device"]):
                yield self.one(name, "member")
        elif owner in GATE_NAMES:
            yield from self.several(ATTRIBUTES["cost"], "member")
        else:
            for what, names in ATTRIBUTES.items():
                if what not in {"device", "cost"}:
                    for name in names:
                        yield self.one(name, "member", detail=f"of a {what}")


def _with_prefixes(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        parts = name.split(".")
        yield from (".".join(parts[:n]) for n in range(1, len(parts) + 1))
