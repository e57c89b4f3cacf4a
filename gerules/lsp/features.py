"""What the server answers: each request of the protocol, from the texts as they are being typed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Final, Protocol, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams

from gerules.dsl.formatting import format_rules
from gerules.errors import GerulesError, Source
from gerules.lsp.completion import complete
from gerules.lsp.graph_texts import graph_hover
from gerules.lsp.hover import describe, find_hover
from gerules.lsp.outline import TOKEN_TYPES, coloured_names, entries, folds
from gerules.lsp.positions import Encoding
from gerules.lsp.protocol import Translator, key_of
from gerules.lsp.rename import CannotRename, find_renamed, rename
from gerules.lsp.server import GRAPH, REQUEST_FAILED, RulesServer
from gerules.lsp.symbols import Kind, Place, Symbol, declarations, mentions, occurrence_at, symbol_of
from gerules.lsp.workspace import Context

RUN_TESTS: Final = "gerules.runTests"
"""The command that runs the tests of one rule, or of all rules of a file: address, name of the rule."""

CANCEL_TESTS: Final = "gerules.cancelTests"
"""The command that stops all runs."""

_ENCODINGS: Final[dict[str, Encoding]] = {"utf-8": "utf-8", "utf-16": "utf-16", "utf-32": "utf-32"}
_MOST_SYMBOLS: Final = 500
_KINDS_OF_SUGGESTIONS: Final[dict[str, Kind]] = {
    "operator": "operator",
    "pattern": "pattern",
    "function": "function",
    "ops": "ops",
    "param": "param",
    "format": "format",
    "rule": "rule",
    "ruleset": "ruleset",
    "phase": "phase",
    "profile": "profile",
    "device": "device",
    "type": "dtype",
}


def make_server() -> RulesServer:
    """Return a server that is ready to be started."""
    server = RulesServer()
    texts, reads = _Documents(server), _Readers(server)
    for name, take in texts.handlers.items():
        server.feature(name)(_sync(take))
    options: dict[str, object] = {
        types.TEXT_DOCUMENT_COMPLETION: types.CompletionOptions(
            trigger_characters=[".", "$", "@", "(", ":", '"'], resolve_provider=True
        ),
        types.TEXT_DOCUMENT_RENAME: types.RenameOptions(prepare_provider=True),
        types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL: types.SemanticTokensLegend(
            list(TOKEN_TYPES), ["declaration"]
        ),
        types.TEXT_DOCUMENT_CODE_ACTION: types.CodeActionOptions([types.CodeActionKind.QuickFix]),
    }
    for name, answer in reads.handlers.items():
        server.feature(name, options.get(name))(_async(answer))

    async def run_tests(*args: Any) -> Any:
        return await reads.run_tests(list(args))

    async def cancel_tests(*_args: Any) -> None:
        texts.stop_runs()

    server.command(RUN_TESTS)(run_tests)
    server.command(CANCEL_TESTS)(cancel_tests)
    return server


def _sync(take: Callable[[Any], None]) -> Callable[[Any], None]:
    # The library marks the functions it is given, which a bound method does not allow.
    def handler(params: Any) -> None:
        take(params)

    return handler


def _async(answer: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    async def handler(params: Any) -> Any:
        return await answer(params)

    return handler


class _Versioned(Protocol):
    """A text as the client has it now."""

    uri: str
    version: int


class _Documents:
    """What the client tells: files that open, change and close, folders, files that change on disk."""

    def __init__(self, server: RulesServer) -> None:
        self.server = server
        self.handlers: dict[str, Callable[[Any], None]] = {
            types.INITIALIZE: self.initialize,
            types.INITIALIZED: self.initialized,
            types.SHUTDOWN: lambda _: self.stop_runs(),
            types.TEXT_DOCUMENT_DID_OPEN: self.opened,
            types.TEXT_DOCUMENT_DID_CHANGE: lambda params: self.changed(params.text_document),
            types.TEXT_DOCUMENT_DID_CLOSE: self.closed,
            types.TEXT_DOCUMENT_DID_SAVE: self.saved,
            types.WORKSPACE_DID_CHANGE_WATCHED_FILES: self.changed_on_disk,
            types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: lambda _: self.folders(),
        }

    def initialize(self, params: types.InitializeParams) -> None:
        server = self.server
        given = params.initialization_options
        docs = _field(given, "docs")
        encoding = _ENCODINGS.get(str(server.workspace.position_encoding or ""), "utf-16")
        server.translator = Translator(encoding, docs if isinstance(docs, str) and docs else None)
        self.folders()

    def initialized(self, _params: object) -> None:
        server = self.server
        # The shipped rules take a second to read; the first hover should not have to wait for it.
        server.tell(server.any_context)
        workspace = server.client_capabilities.workspace
        watched = workspace.did_change_watched_files if workspace is not None else None
        if watched is not None and watched.dynamic_registration:
            options = types.DidChangeWatchedFilesRegistrationOptions([types.FileSystemWatcher("**/*.ger")])
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            wanted = types.Registration("gerules-files", method, options)
            server.client_register_capability(types.RegistrationParams([wanted]))

    def folders(self) -> None:
        known = self.server.workspace
        uris = list(known.folders) or ([known.root_uri] if known.root_uri else [])
        paths = [Path(key) for key in map(key_of, uris) if Path(key).is_absolute()]
        self.server.tell(lambda: self.server.texts.set_folders(paths))
        self.check_open()

    def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        self.changed(params.text_document, 0.0)
        self.analyse(params.text_document.uri)

    def saved(self, params: types.DidSaveTextDocumentParams) -> None:
        self.check_open()
        self.analyse(params.text_document.uri)

    def analyse(self, uri: str) -> None:
        if not uri.endswith(GRAPH):
            self.server.analyse_soon(key_of(uri))

    def changed(self, document: _Versioned, delay_s: float | None = None) -> None:
        server, uri = self.server, document.uri
        key, text, version = key_of(uri), server.workspace.get_text_document(uri).source, document.version
        server.uris[key] = uri

        def put() -> None:
            server.versions[key] = version
            if key.endswith(GRAPH):
                server.graphs[key] = text
            else:
                server.texts.put(key, text)

        server.tell(put)
        if delay_s is None:
            server.check_soon(key)
            self.check_open(but=key)
        else:
            server.check_soon(key, delay_s)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        server, key = self.server, key_of(params.text_document.uri)

        def drop() -> None:
            server.versions.pop(key, None)
            server.graphs.pop(key, None)
            server.texts.drop(key)
            server.texts.forget([key])

        server.tell(drop)
        server.results.pop(key, None)
        server.remarks.pop(key, None)
        server.publish(key, [])
        server.uris.pop(key, None)
        self.check_open()

    def changed_on_disk(self, params: types.DidChangeWatchedFilesParams) -> None:
        keys = [key_of(change.uri) for change in params.changes]
        self.server.tell(lambda: self.server.texts.forget(keys))
        self.check_open()

    def check_open(self, but: str = "") -> None:
        """Check the open files again, for what others declare may have changed."""
        for key in self.server.uris:
            if key != but:
                self.server.check_soon(key, 1.0)

    def stop_runs(self) -> None:
        for stop in (*self.server.stops.values(), *self.server.analysing.values()):
            stop.set()


class _Positioned(Protocol):
    """A request about a place in a file."""

    @property
    def text_document(self) -> types.TextDocumentIdentifier: ...

    @property
    def position(self) -> types.Position: ...


class _Readers:
    """What the client asks. The work itself is done on the worker: methods with a leading underscore."""

    def __init__(self, server: RulesServer) -> None:
        self.server = server
        self.handlers: dict[str, Callable[[Any], Awaitable[Any]]] = {
            name: self._on_worker(work)
            for name, work in (
                (types.TEXT_DOCUMENT_COMPLETION, self._completion),
                (types.COMPLETION_ITEM_RESOLVE, self._resolve),
                (types.TEXT_DOCUMENT_HOVER, self._hover),
                (types.TEXT_DOCUMENT_DEFINITION, self._definition),
                (types.TEXT_DOCUMENT_REFERENCES, self._references),
                (types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, self._highlight),
                (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, self._document_symbols),
                (types.WORKSPACE_SYMBOL, self._workspace_symbols),
                (types.TEXT_DOCUMENT_PREPARE_RENAME, self._prepare_rename),
                (types.TEXT_DOCUMENT_RENAME, self._rename),
                (types.TEXT_DOCUMENT_FORMATTING, self._formatting),
                (types.TEXT_DOCUMENT_FOLDING_RANGE, self._folding),
                (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, self._semantic_tokens),
                (types.TEXT_DOCUMENT_CODE_LENS, self._lenses),
                (types.TEXT_DOCUMENT_CODE_ACTION, self._actions),
            )
        }

    def _on_worker(self, work: Callable[[Any], object]) -> Callable[[Any], Awaitable[object]]:
        return lambda params: self.server.ask(work, params)

    # ------------------------------------------------------------ where the cursor stands
    def _at(self, params: _Positioned) -> tuple[Context, int] | None:
        context = self.server.context(params.text_document.uri)
        if context is None:
            return None
        return context, self.server.translator.offset(context.reading.source.text, params.position)

    def _symbol(self, params: _Positioned) -> tuple[Context, Symbol] | None:
        found = self._at(params)
        if found is None:
            return None
        context, offset = found
        item = occurrence_at(context.reading, offset)
        return None if item is None else (context, symbol_of(item, context.key, context))

    def _location(self, place: Place, context: Context) -> types.Location:
        text = context.readings[place.key].source.text
        where = self.server.translator.range(text, place.start, place.end)
        return types.Location(self.server.uri(place.key), where)

    # ------------------------------------------------------------ reading
    def _completion(self, params: types.CompletionParams) -> list[types.CompletionItem]:
        key = key_of(params.text_document.uri)
        if key.endswith(GRAPH):
            return []
        text, context = self.server.texts.text(key), self.server.texts.latest(key)
        if text is None or context is None:
            return []
        translator = self.server.translator
        offset = translator.offset(text, params.position)
        return [translator.suggestion(item, text, offset, key) for item in complete(context, text, offset)]

    def _resolve(self, item: types.CompletionItem) -> types.CompletionItem:
        kind = _KINDS_OF_SUGGESTIONS.get(str(_field(item.data, "kind")))
        context = self.server.texts.latest(str(_field(item.data, "key")))
        if kind is not None and context is not None:
            text = describe(Symbol(kind, str(_field(item.data, "name"))), context)
            if text:
                item.documentation = types.MarkupContent(types.MarkupKind.Markdown, text)
        return item

    def _hover(self, params: types.HoverParams) -> types.Hover | None:
        server, key = self.server, key_of(params.text_document.uri)
        if key in server.graphs:
            text = server.graphs[key]
            offset = server.translator.offset(text, params.position)
            shown = graph_hover(Source(key, text), offset, server.any_context())
            return None if shown is None else server.translator.hover(shown, text)
        found = self._at(params)
        shown = None if found is None else find_hover(*found)
        if found is None or shown is None:
            return None
        return server.translator.hover(shown, found[0].reading.source.text)

    def _definition(self, params: types.DefinitionParams) -> list[types.Location]:
        at = self._at(params)
        if at is not None:
            for include, target, _ in self.server.texts.includes(at[0].key):
                if target is not None and include.span.start <= at[1] <= include.span.end:
                    begin = types.Position(0, 0)
                    return [types.Location(self.server.uri(target), types.Range(begin, begin))]
        found = self._symbol(params)
        if found is None:
            return []
        context, symbol = found
        return [self._location(place, context) for place in declarations(symbol, context)]

    def _references(self, params: types.ReferenceParams) -> list[types.Location]:
        found = self._symbol(params)
        if found is None:
            return []
        context, symbol = found
        with_declaration = params.context.include_declaration
        declared = [] if with_declaration else declarations(symbol, context)
        places = [place for place, _ in mentions(symbol, context) if place not in declared]
        return [self._location(place, context) for place in places]

    def _highlight(self, params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        found = self._symbol(params)
        if found is None:
            return []
        context, symbol = found
        kinds = types.DocumentHighlightKind.Read, types.DocumentHighlightKind.Write
        return [
            types.DocumentHighlight(self._location(place, context).range, kinds[item.is_declaration])
            for place, item in mentions(symbol, context)
            if place.key == context.key
        ]

    def _document_symbols(self, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        reading = self._reading(params.text_document.uri)
        if reading is None:
            return []
        return [self.server.translator.symbol(item, reading.source.text) for item in entries(reading)]

    def _workspace_symbols(self, params: types.WorkspaceSymbolParams) -> list[types.WorkspaceSymbol]:
        context, wanted = self.server.any_context(), params.query.lower()
        found: list[types.WorkspaceSymbol] = []
        for key, reading in context.readings.items():
            for item in entries(reading):
                if wanted in item.name.lower() and len(found) < _MOST_SYMBOLS:
                    shown = self.server.translator.symbol(item, reading.source.text)
                    where = types.Location(self.server.uri(key), shown.selection_range)
                    found.append(types.WorkspaceSymbol(where, shown.name, shown.kind))
        return found

    def _folding(self, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
        uri = params.text_document.uri
        text = self.server.graphs.get(key_of(uri)) or self.server.texts.text(key_of(uri)) or ""
        return [types.FoldingRange(first, last) for first, last in folds(text)]

    def _semantic_tokens(self, params: types.SemanticTokensParams) -> types.SemanticTokens:
        reading = self._reading(params.text_document.uri)
        if reading is None:
            return types.SemanticTokens([])
        names = coloured_names(reading)
        return types.SemanticTokens(self.server.translator.semantic_tokens(names, reading.source.text))

    def _reading(self, uri: str) -> Any:
        key = key_of(uri)
        return None if key.endswith(GRAPH) else self.server.texts.reading(key)

    # ------------------------------------------------------------ changing
    def _prepare_rename(self, params: types.PrepareRenameParams) -> types.PrepareRenamePlaceholder | None:
        found = self._at(params)
        if found is None:
            return None
        context, offset = found
        try:
            _, item = find_renamed(context, self.server.texts, offset)
        except CannotRename as reason:
            raise JsonRpcException(str(reason), REQUEST_FAILED) from None
        where = self.server.translator.range(context.reading.source.text, item.start, item.end)
        return types.PrepareRenamePlaceholder(where, item.name)

    def _rename(self, params: types.RenameParams) -> types.WorkspaceEdit | None:
        found = self._at(params)
        if found is None:
            return None
        context, offset = found
        try:
            renaming = rename(context, self.server.texts, offset, params.new_name)
        except CannotRename as reason:
            raise JsonRpcException(str(reason), REQUEST_FAILED) from None
        changes: dict[str, list[types.TextEdit]] = {}
        for place in renaming.places:
            where = self._location(place, context)
            changes.setdefault(where.uri, []).append(types.TextEdit(where.range, renaming.new_name))
        return types.WorkspaceEdit(changes=dict(changes))

    def _formatting(self, params: types.DocumentFormattingParams) -> list[types.TextEdit] | None:
        key = key_of(params.text_document.uri)
        text = None if key.endswith(GRAPH) else self.server.texts.text(key)
        if text is None:
            return None
        try:
            new = format_rules(Source(key, text))
        except GerulesError as error:
            message = f"not laid out: {error.diagnostics[0].message}"
            raise JsonRpcException(message, REQUEST_FAILED) from None
        return self.server.translator.replacing(text, new)

    def _actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        return list(_fixes(params.text_document.uri, params.context.diagnostics))

    # ------------------------------------------------------------ tests of rules
    def _lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        reading = self._reading(uri)
        if reading is None:
            return []
        text = reading.source.text
        return [
            types.CodeLens(
                self.server.translator.range(text, item.name_start, item.name_end),
                types.Command(f"Run {_tests(item.n_tests)}", RUN_TESTS, arguments=[uri, item.name]),
            )
            for item in entries(reading)
            if item.n_tests
        ]

    async def run_tests(self, args: list[object]) -> dict[str, object]:
        """Run tests; the answer counts them. The client may cancel the request, the progress, or all runs."""
        uri, name = (*args, None, None)[:2]
        if not isinstance(uri, str) or not (name is None or isinstance(name, str)) or len(args) > 2:
            raise JsonRpcInvalidParams(f"{RUN_TESTS} takes the address of a file, and the name of a rule")
        run = await self.server.run_tests(uri, name)
        if run is None:
            raise JsonRpcException(f"there is no rule {name or ''} to be tested", REQUEST_FAILED)
        kind = types.MessageType.Warning if run.n_failures else types.MessageType.Info
        self.server.window_show_message(types.ShowMessageParams(kind, run.summary))
        return run.as_json()


def _field(data: object, name: str) -> object:
    """Return a field of any JSON; None when it has none of the name."""
    return cast("dict[str, object]", data).get(name) if isinstance(data, dict) else None


def _tests(count: int) -> str:
    return "its test" if count == 1 else f"its {count} tests"


def _fixes(uri: str, items: Iterable[types.Diagnostic]) -> Iterable[types.CodeAction]:
    for item in items:
        fix = _field(item.data, "fix")
        if isinstance(fix, str):
            edit = types.WorkspaceEdit(changes={uri: [types.TextEdit(item.range, fix)]})
            kind = types.CodeActionKind.QuickFix
            yield types.CodeAction(f"Write {fix}", kind, [item], is_preferred=True, edit=edit)
