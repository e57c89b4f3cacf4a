"""Names declared beside rules that nothing of the book uses: constants, operator sets, sub-patterns, externs.

A file without rules is there for others to include, so that what it declares may wait for its users.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from gerules.dsl.book import RuleBook
from gerules.dsl.declarations import ConstDecl, ExternDecl, OpsDecl, ParamDecl, RuleFile
from gerules.dsl.expressions import Ident
from gerules.dsl.syntax import PatternDef, Rule
from gerules.dsl.tokens import TOKEN
from gerules.errors import Diagnostic, table

_KINDS: Final = {
    ConstDecl: "a constant",
    ParamDecl: "a parameter",
    OpsDecl: "an operator set",
    PatternDef: "a pattern",
    ExternDecl: "a function from Python",
}


def unused_declarations(book: RuleBook) -> Iterator[Diagnostic]:
    """Yield a warning for each name declared in a file of rules that stands nowhere else in the book."""
    # What is a word of some text counts as used, whatever it means there: a warning must be right.
    n_words = Counter(
        piece[0]
        for file in book.files
        for piece in TOKEN.finditer(file.source.text)
        if piece.lastgroup == "word"
    )
    n_declared = Counter(name.name for file in book.files for name, _ in _declared(file))
    seen: set[str] = set()
    for file in book.files:
        if not any(isinstance(item, Rule) for item in file.items):
            continue
        for name, kind in _declared(file):
            if name.name not in seen and n_words[name.name] <= n_declared[name.name]:
                seen.add(name.name)
                facts = {"name": name.name, "kind": kind, "remedy": "remove it, or use it"}
                yield Diagnostic(table.UNUSED_NAME, facts, name.span, severity="warning")


def _declared(file: RuleFile) -> Iterator[tuple[Ident, str]]:
    for item in file.items:
        if isinstance(item, ConstDecl | ParamDecl | OpsDecl | PatternDef | ExternDecl):
            yield item.name, _KINDS[type(item)]
