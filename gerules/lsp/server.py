"""The server: one worker knows all texts, tests run on threads of their own, and the loop always answers."""

# pygls leaves some of its types half open: its constructor's, and those of progress.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from json import JSONDecodeError
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from lsprotocol import types
from pygls.exceptions import (
    FeatureRequestError,
    JsonRpcException,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
)
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from gerules.dsl import rules_folder
from gerules.errors import Source
from gerules.lsp.analyses import Remark, Stopped, analyse, still_true
from gerules.lsp.graph_texts import graph_faults
from gerules.lsp.protocol import Translator, key_of, uri_of
from gerules.lsp.rule_runs import RuleResult, Run, rules_to_run, run_rules
from gerules.lsp.workspace import Context, Workspace

DEBOUNCE_S: Final = 0.2
"""How long the keys must rest before a text is checked."""

REQUEST_FAILED: Final = -32803
"""The code of an answer that says why something cannot be done. Source: the protocol, version 3.17."""

GRAPH: Final = ".graph"
"""How the name of a graph text ends."""

_LOG: Final = logging.getLogger(__name__)

_P = ParamSpec("_P")
_T = TypeVar("_T")


class RulesProtocol(LanguageServerProtocol):
    """The protocol, where a request that cannot be read, or comes too late, gets an answer too."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Read a message. One that is malformed is answered with an error if somebody waits for it."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            number = data.get("id")
            if "method" in data and isinstance(number, int | str):
                self._refuse(error, number)
            raise

    def handle_message(self, message: Any) -> None:
        """Handle a message. What is none, and a request after `shutdown`, is refused."""
        is_request = hasattr(message, "id") and hasattr(message, "method")
        if getattr(message, "jsonrpc", None) != self.VERSION:
            self._refuse(JsonRpcInvalidRequest("no message of JSON-RPC 2.0"), getattr(message, "id", None))
        elif is_request and self.is_shut_down:
            self._refuse(JsonRpcInvalidRequest("the server was shut down; only exit may follow"), message.id)
        else:
            super().handle_message(message)

    def refuse_text(self, error: Exception) -> None:
        """Answer a body that is no JSON; nobody knows the number of the request that it was."""
        self._refuse(JsonRpcParseError(f"no JSON: {error}"), None)

    def _refuse(self, error: JsonRpcException, number: int | str | None) -> None:
        # Not by the types of the protocol, which leave out an id that is null.
        told = {"code": error.code, "message": error.message}
        self._send_data({"jsonrpc": self.VERSION, "id": number, "error": told})

    @property
    def is_shut_down(self) -> bool:
        """Whether the client said that it is about to leave."""
        return bool(self._shutdown)


class RulesServer(LanguageServer):
    """A language server for rule files and graph texts.

    All that knows of texts happens on one worker thread, in the order of the messages. The loop only reads
    and writes messages, so that it always answers. Tests of rules run on threads of their own.
    """

    def __init__(self) -> None:
        super().__init__(
            "gerules",
            importlib.metadata.version("gerules"),
            text_document_sync_kind=types.TextDocumentSyncKind.Full,
            protocol_cls=RulesProtocol,
        )
        self.texts = Workspace()
        self.translator = Translator()
        self.worker = ThreadPoolExecutor(1, "gerules-texts")
        self.graphs: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        """Of the texts that the worker has, by key; set there."""
        self.uris: dict[str, str] = {}
        self.results: dict[str, dict[str, RuleResult]] = {}
        self.stops: dict[tuple[str, str | None], threading.Event] = {}
        self.remarks: dict[str, list[Remark]] = {}
        self.analysing: dict[str, threading.Event] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._jobs: set[asyncio.Task[None]] = set()

    @property
    def is_shut_down(self) -> bool:
        """Whether the client said that it is about to leave."""
        return isinstance(self.protocol, RulesProtocol) and self.protocol.is_shut_down

    def report_server_error(self, error: Exception, source: type[Exception]) -> None:
        """Write to the log what the client cannot be told in an answer; the user has no use for it."""
        if source is not FeatureRequestError:
            _LOG.error("%s: %s", source.__name__, error)
        # From the loop that reads messages come these alone, where it could not read one.
        unread = isinstance(error, UnicodeDecodeError | JSONDecodeError | RecursionError)
        if unread and isinstance(self.protocol, RulesProtocol):
            self.protocol.refuse_text(error)

    # ------------------------------------------------------------ work on texts
    async def ask(self, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        """Do something with texts on the worker; None, and a line in the log, when that fails."""
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self.worker, lambda: work(*args, **kwargs)
            )
        except JsonRpcException:
            raise
        except Exception as error:
            _LOG.exception("cannot answer")
            message = f"E90001: {type(error).__name__}: {error}"
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))
            return None

    def tell(self, work: Callable[[], object]) -> None:
        """Do something with texts on the worker, after all that was asked before."""
        self.worker.submit(_logged, work)

    def uri(self, key: str) -> str:
        """Return the address of a file as the client writes it."""
        return self.uris.get(key, uri_of(key))

    def context(self, uri: str) -> Context | None:
        """Return a rule file in its book. To be called on the worker."""
        key = key_of(uri)
        return None if key.endswith(GRAPH) else self.texts.context(key)

    # ------------------------------------------------------------ diagnostics
    def check_soon(self, key: str, delay_s: float = DEBOUNCE_S) -> None:
        """Check a file when the keys have rested."""
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()
        loop = asyncio.get_running_loop()
        self._timers[key] = loop.call_later(delay_s, lambda: self._start(self._check(key)))

    def publish(self, key: str, items: list[types.Diagnostic], version: int | None = None) -> None:
        """Tell the client all that is wrong with a file, as it was at a version of it."""
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(self.uri(key), items, version))

    def _start(self, job: Any) -> None:
        task = asyncio.ensure_future(job)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    async def _check(self, key: str) -> None:
        self._timers.pop(key, None)
        found = await self.ask(self._diagnostics, key)
        # What was typed meanwhile is checked soon; old news would only flicker.
        if found is not None and key in self.uris and key not in self._timers:
            self.publish(key, *found)

    def _diagnostics(self, key: str) -> tuple[list[types.Diagnostic], int | None] | None:
        uri, version = self.uri(key), self.versions.get(key)
        if key in self.graphs:
            text = self.graphs[key]
            context = self.any_context()
            items = graph_faults(Source(key, text), context)
            return [self.translator.diagnostic(item, text, uri) for item in items], version
        reading = self.texts.reading(key)
        if reading is None:
            return None
        text = reading.source.text
        items = (*self.texts.faults_of(key), *still_true(self.remarks.get(key, ()), reading.source))
        found = [self.translator.diagnostic(item, text, uri) for item in items]
        return [*found, *self.translator.findings(self.results.get(key, {}).values(), text)], version

    def any_context(self) -> Context:
        """The book of the shipped rules and the workspace, for texts that are no rules."""
        context = self.texts.context(str((rules_folder() / "prelude.ger").resolve()))
        if context is None:
            raise FileNotFoundError("the shipped rules are not there")
        return context

    async def analyse(self, key: str) -> None:
        """Analyse what the rules of a file come to, on a thread of its own, and publish what is found."""
        if (earlier := self.analysing.pop(key, None)) is not None:
            earlier.set()
        context = await self.ask(self.texts.context, key)
        if context is None or context.reading.faults:
            return
        stop = self.analysing[key] = threading.Event()
        loop = asyncio.get_running_loop()

        def finish(remarks: list[Remark]) -> None:
            if self.analysing.get(key) is stop:
                del self.analysing[key]
                self.remarks[key] = remarks
                self.check_soon(key, 0.0)

        def work() -> None:
            try:
                _call(loop, finish, analyse(context, stop))
            except Stopped:
                return
            except Exception:
                _LOG.exception("cannot analyse")

        threading.Thread(target=work, name="gerules-analysis", daemon=True).start()

    def analyse_soon(self, key: str) -> None:
        """Start to analyse a file."""
        self._start(self.analyse(key))

    # ------------------------------------------------------------ tests of rules
    async def run_tests(self, uri: str, name: str | None) -> Run | None:
        """Run the tests of a rule, or of all rules of a file, and publish what does not hold.

        Returns None for what is no rule file, or has no rule of the name.
        """
        key = key_of(uri)
        context = await self.ask(self.context, uri)
        rules = [] if context is None else rules_to_run(context, name)
        if context is None or not rules:
            return None
        stop = threading.Event()
        if (earlier := self.stops.get((key, name))) is not None:
            earlier.set()
        self.stops[key, name] = stop
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Run] = loop.create_future()
        progress = await _Progress.begin(self, f"Testing {name or Path(key).name}", len(rules), stop)

        def told(n_done: int, rule: str) -> None:
            _call(loop, progress.report, n_done, rule)

        def work() -> None:
            try:
                run = run_rules(context, rules, stop, told)
            except Exception as error:
                _LOG.exception("tests cannot be run")
                _call(loop, _settle, done, error)
            else:
                _call(loop, _settle, done, run)

        threading.Thread(target=work, name="gerules-tests", daemon=True).start()
        try:
            run = await asyncio.shield(done)
        except asyncio.CancelledError:
            stop.set()
            raise
        finally:
            if self.stops.get((key, name)) is stop:
                del self.stops[key, name]
            progress.end()
        self.results.setdefault(key, {}).update({result.name: result for result in run.results})
        self.check_soon(key, 0.0)
        return run


class _Progress:
    """What the client shows of a run, where it can; its button stops the run."""

    def __init__(self, server: RulesServer, token: str | None, n_steps: int) -> None:
        self.server = server
        self.token = token
        self.n_steps = n_steps

    @staticmethod
    async def begin(server: RulesServer, title: str, n_steps: int, stop: threading.Event) -> _Progress:
        window = server.client_capabilities.window
        if window is None or not window.work_done_progress:
            return _Progress(server, None, n_steps)
        token = f"gerules-{id(stop)}"
        shown = server.work_done_progress
        try:
            await asyncio.wait_for(shown.create_async(token), 5)
        except (TimeoutError, JsonRpcException):
            return _Progress(server, None, n_steps)
        shown.tokens[token].add_done_callback(lambda _: stop.set())
        shown.begin(token, types.WorkDoneProgressBegin(title, cancellable=True, percentage=0))
        return _Progress(server, token, n_steps)

    def report(self, n_done: int, name: str) -> None:
        if self.token is not None:
            percent = n_done * 100 // max(1, self.n_steps)
            step = types.WorkDoneProgressReport(message=name, percentage=percent, cancellable=True)
            self.server.work_done_progress.report(self.token, step)

    def end(self) -> None:
        if self.token is not None:
            self.server.work_done_progress.end(self.token, types.WorkDoneProgressEnd())
            self.server.work_done_progress.tokens.pop(self.token, None)


def _call(
    loop: asyncio.AbstractEventLoop, work: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs
) -> None:
    """Call on the loop from another thread; nothing when the loop has ended."""
    try:
        loop.call_soon_threadsafe(lambda: work(*args, **kwargs))
    except RuntimeError:
        return


def _settle(done: asyncio.Future[Run], outcome: Run | Exception) -> None:
    if done.done():
        return
    if isinstance(outcome, Exception):
        done.set_exception(JsonRpcException(str(outcome), REQUEST_FAILED))
    else:
        done.set_result(outcome)


def _logged(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:
        _LOG.exception("cannot take a change")
