"""Answers in the words of the protocol: places, diagnostics, suggestions, edits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path

from gerules.errors import Diagnostic, table
from gerules.lsp.completion import Kind, Suggestion
from gerules.lsp.hover import Hover
from gerules.lsp.outline import ColouredName, Entry
from gerules.lsp.positions import Encoding, Lines
from gerules.lsp.rule_runs import RuleResult

_PLACE: Final = re.compile(r"^(?P<what>.*) at (?P<file>.+):(?P<line>\d+):(?P<column>\d+)$")
_MEANT: Final = re.compile(r"^did you mean `?([^`?]+)`?\?$")
_NAME: Final = re.compile(r"\$?(?:[^\W\d][\w.]*::)?[^\W\d]\w*(?:\.\w+)*|==?|[&|!]")

_KINDS: Final[Mapping[Kind, types.CompletionItemKind]] = {
    "keyword": types.CompletionItemKind.Keyword,
    "operator": types.CompletionItemKind.Function,
    "pattern": types.CompletionItemKind.Module,
    "attribute": types.CompletionItemKind.Property,
    "input": types.CompletionItemKind.Field,
    "name": types.CompletionItemKind.Variable,
    "function": types.CompletionItemKind.Method,
    "ops": types.CompletionItemKind.Enum,
    "param": types.CompletionItemKind.Constant,
    "type": types.CompletionItemKind.TypeParameter,
    "format": types.CompletionItemKind.EnumMember,
    "rule": types.CompletionItemKind.Class,
    "ruleset": types.CompletionItemKind.Module,
    "phase": types.CompletionItemKind.Event,
    "profile": types.CompletionItemKind.Struct,
    "device": types.CompletionItemKind.Struct,
    "member": types.CompletionItemKind.Property,
    "file": types.CompletionItemKind.File,
}

_ENTRY_KINDS: Final[Mapping[str, types.SymbolKind]] = {
    "rule": types.SymbolKind.Class,
    "pattern": types.SymbolKind.Interface,
    "define": types.SymbolKind.Function,
    "ruleset": types.SymbolKind.Namespace,
    "ops": types.SymbolKind.Enum,
    "const": types.SymbolKind.Constant,
    "param": types.SymbolKind.Constant,
    "format": types.SymbolKind.TypeParameter,
    "extern": types.SymbolKind.Method,
    "phase": types.SymbolKind.Event,
    "pipeline": types.SymbolKind.Array,
    "profile": types.SymbolKind.Struct,
    "device": types.SymbolKind.Struct,
    "formats": types.SymbolKind.Struct,
}


def key_of(uri: str) -> str:
    """Return what a file is known by: its resolved path; the address itself when it is no file."""
    path = to_fs_path(uri)
    if path is None:
        return uri
    try:
        return str(Path(path).resolve())
    except (OSError, ValueError, RuntimeError):
        return uri


def uri_of(key: str) -> str:
    """Return the address of a file."""
    return (from_fs_path(key) or key) if Path(key).is_absolute() else key


def docs_page() -> Path | None:
    """Return the page of errors, in a checkout or in an installed package; None when it is not there."""
    package = Path(__file__).resolve().parents[1]
    pages = (package / "docs" / "errors.md", package.parent / "docs" / "errors.md")
    return next((page for page in pages if page.is_file()), None)


class Translator:
    """Turns what is found in texts into what the protocol sends, with positions as the client counts them."""

    def __init__(self, encoding: Encoding = "utf-16", docs: str | None = None) -> None:
        self.encoding: Encoding = encoding
        page = docs_page()
        self.docs = docs or (None if page is None else uri_of(str(page)))
        self._lines: dict[int, Lines] = {}

    # ------------------------------------------------------------ places
    def lines(self, text: str) -> Lines:
        """Return the lines of a text; those of the texts asked for last are kept."""
        known = self._lines.get(id(text))
        if known is None or known.text is not text:
            if len(self._lines) > 32:
                self._lines.clear()
            known = self._lines[id(text)] = Lines(text, self.encoding)
        return known

    def range(self, text: str, start: int, end: int) -> types.Range:
        """Return the characters from `start` to `end`."""
        lines = self.lines(text)
        return types.Range(types.Position(*lines.position(start)), types.Position(*lines.position(end)))

    def offset(self, text: str, position: types.Position) -> int:
        """Return the offset of a position."""
        return self.lines(text).offset(position.line, position.character)

    # ------------------------------------------------------------ diagnostics
    def diagnostic(self, item: Diagnostic, text: str, uri: str) -> types.Diagnostic:
        """Return a fault of a file, with its remedy, notes, and the page that explains its code."""
        start, end = (0, 0) if item.span is None else (item.span.start, item.span.end)
        where = self.range(text, start, max(end, start))
        message = item.message if not item.hint else f"{item.message}\nhint: {item.hint}"
        fix = self._fix(item, text[start:end])
        return types.Diagnostic(
            where,
            message,
            types.DiagnosticSeverity.Error if item.severity == "error" else types.DiagnosticSeverity.Warning,
            code=item.code.code,
            code_description=None
            if self.docs is None
            else types.CodeDescription(f"{self.docs}#{item.code.code.lower()}-{item.code.slug}"),
            source="gerules",
            tags=[types.DiagnosticTag.Unnecessary] if item.code is table.UNUSED_NAME else None,
            related_information=[self._related(note, where, uri) for note in item.notes] or None,
            data={"fix": fix} if fix is not None else None,
        )

    def _related(self, note: str, where: types.Range, uri: str) -> types.DiagnosticRelatedInformation:
        found = _PLACE.match(note)
        if found is None:
            return types.DiagnosticRelatedInformation(types.Location(uri, where), note)
        at = types.Position(max(0, int(found["line"]) - 1), max(0, int(found["column"]) - 1))
        return types.DiagnosticRelatedInformation(
            types.Location(uri_of(found["file"]), types.Range(at, at)), found["what"]
        )

    @staticmethod
    def _fix(item: Diagnostic, text: str) -> str | None:
        """What the text at the place was meant to be, where the remedy says so and the place is just that."""
        if _NAME.fullmatch(text) is None:
            return None
        for note in (*item.notes, item.hint):
            if (meant := _MEANT.match(note)) is not None:
                return f"${meant[1]}" if text.startswith("$") else meant[1]
        return None

    def findings(self, results: Iterable[RuleResult], text: str) -> Iterator[types.Diagnostic]:
        """Yield what running tests found in rules that say what they said then."""
        for result in results:
            at = text.find(result.text)
            if at < 0:
                continue
            for item in result.findings:
                failed = item.is_failure
                severity = types.DiagnosticSeverity.Error if failed else types.DiagnosticSeverity.Information
                where = self.range(text, at + item.start, at + item.end)
                yield types.Diagnostic(where, item.message, severity, source="gerules test")

    # ------------------------------------------------------------ the rest
    def hover(self, found: Hover, text: str) -> types.Hover:
        """Return a hover."""
        content = types.MarkupContent(types.MarkupKind.Markdown, found.text)
        return types.Hover(content, self.range(text, found.start, found.end))

    def suggestion(self, item: Suggestion, text: str, offset: int, key: str) -> types.CompletionItem:
        """Return a suggestion; what it means is asked for when it is looked at."""
        edit = types.TextEdit(self.range(text, item.start, offset), item.text)
        return types.CompletionItem(
            item.label,
            kind=_KINDS[item.kind],
            detail=item.detail or None,
            sort_text=f"{'0' if item.is_near else '1'}{item.label}",
            filter_text=item.text,
            text_edit=edit,
            data={"kind": item.kind, "name": item.label, "key": key},
        )

    def symbol(self, item: Entry, text: str) -> types.DocumentSymbol:
        """Return an item of a file for the outline."""
        return types.DocumentSymbol(
            item.name,
            _ENTRY_KINDS.get(item.kind, types.SymbolKind.Object),
            self.range(text, item.start, item.end),
            self.range(text, item.name_start, item.name_end),
            detail=item.detail or None,
        )

    def semantic_tokens(self, names: Iterable[ColouredName], text: str) -> list[int]:
        """Return names as the protocol packs them: each as a distance from the one before."""
        packed: list[int] = []
        before = (0, 0)
        lines = self.lines(text)
        for name in names:
            line, character = lines.position(name.start)
            _, end = lines.position(name.end)
            step = (line - before[0], character - before[1] if line == before[0] else character)
            packed += [*step, end - character, name.type, int(name.is_declaration)]
            before = (line, character)
        return packed

    def replacing(self, old: str, new: str) -> list[types.TextEdit]:
        """Return the edit that makes a text another; lines alike at both ends are left alone."""
        if old == new:
            return []
        one, two = old.splitlines(keepends=True), new.splitlines(keepends=True)
        head = 0
        while head < min(len(one), len(two)) and one[head] == two[head]:
            head += 1
        tail = 0
        while tail < min(len(one), len(two)) - head and one[-1 - tail] == two[-1 - tail]:
            tail += 1
        start = len("".join(one[:head]))
        end = len(old) - len("".join(one[len(one) - tail :]))
        return [types.TextEdit(self.range(old, start, end), "".join(two[head : len(two) - tail]))]
