"""A client of the language server: messages as the protocol has them, over pipes, and nothing between."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

PATIENCE_S = 120
"""A guard against a server that hangs, far beyond what any answer takes."""

Message = dict[str, Any]


class Failed(Exception):  # noqa: N818 - an answer
    """The server answered with an error."""

    def __init__(self, error: Message) -> None:
        super().__init__(error["message"])
        self.code = error["code"]


class Client:
    """Starts `gerules lsp` and speaks to it."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "gerules.cli", "lsp", *arguments]
        pipe = subprocess.PIPE
        self.log = TemporaryFile()  # noqa: SIM115 - closed with the pipes
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.log)
        self.answers: dict[int | None, Message] = {}
        self.told: list[Message] = []
        self._incoming: queue.Queue[Message | None] = queue.Queue()
        self._n_requests = 0
        self._versions: dict[str, int] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    # ------------------------------------------------------------ messages
    def write(self, body: bytes) -> None:
        """Send bytes as the body of a message."""
        self.write_raw(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def write_raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.write(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def send(self, method: str, params: Any = None) -> int:
        """Send a request and return its number."""
        self._n_requests += 1
        message = {"jsonrpc": "2.0", "id": self._n_requests, "method": method, "params": params}
        self.write(json.dumps(message).encode())
        return self._n_requests

    def answer(self, number: int | None) -> Any:
        """Wait for the answer to a request, or to what had no number. Raises Failed when it is an error."""
        while number not in self.answers:
            self._take()
        found = self.answers.pop(number)
        if "error" in found:
            raise Failed(found["error"])
        return found["result"]

    def ask(self, method: str, params: Any = None) -> Any:
        """Send a request and wait for its answer."""
        return self.answer(self.send(method, params))

    def wait_for(self, fits: Callable[[Message], bool]) -> Message:
        """Wait for a notification, or request of the server, that fits, and take it."""
        while True:
            for place, message in enumerate(self.told):
                if fits(message):
                    return self.told.pop(place)
            self._take()

    def _take(self) -> None:
        message = self._incoming.get(timeout=PATIENCE_S)
        if message is None:
            raise EOFError(f"the server ended with exit code {self.process.wait(PATIENCE_S)}")
        if "method" in message:
            self.told.append(message)
            if "id" in message:  # whatever the server asks for, it gets
                self.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": None}).encode())
        else:
            self.answers[message["id"]] = message

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            size = 0
            while line.strip():
                name, _, value = line.decode().partition(":")
                size = int(value) if name == "Content-Length" else size
                line = self.process.stdout.readline()
            self._incoming.put(json.loads(self.process.stdout.read(size)))
        self._incoming.put(None)

    # ------------------------------------------------------------ what an editor does
    def start(self, *folders: Path, **capabilities: Any) -> Message:
        """Introduce the client and return what the server can."""
        named = [{"uri": folder.as_uri(), "name": folder.name} for folder in folders]
        params = {"processId": None, "rootUri": None, "workspaceFolders": named, "capabilities": capabilities}
        found = self.ask("initialize", params)
        self.notify("initialized", {})
        return found["capabilities"]

    def open(self, uri: str, text: str, language: str = "gerules") -> list[Message]:
        """Open a file and return what is wrong with it."""
        document = {"uri": uri, "languageId": language, "version": self._next(uri), "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})
        return self.diagnostics(uri)

    def change(self, uri: str, text: str) -> list[Message]:
        """Type, and return what is wrong then."""
        self.type(uri, text)
        return self.diagnostics(uri)

    def type(self, uri: str, text: str) -> None:
        """Type, and go on."""
        document = {"uri": uri, "version": self._next(uri)}
        changes = [{"text": text}]
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    def _next(self, uri: str) -> int:
        self._versions[uri] = self._versions.get(uri, 0) + 1
        return self._versions[uri]

    def diagnostics(self, uri: str, fits: Callable[[list[Message]], bool] = lambda _: True) -> list[Message]:
        """Wait for what is wrong with a file as it is now, until that is as expected."""

        def is_it(item: Message) -> bool:
            if item["method"] != "textDocument/publishDiagnostics" or item["params"]["uri"] != uri:
                return False
            found = item["params"]
            return found.get("version") == self._versions[uri] and fits(found["diagnostics"])

        return self.wait_for(is_it)["params"]["diagnostics"]

    def close(self, uri: str) -> None:
        """Close a file."""
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def at(self, method: str, uri: str, text: str, piece: str, into: int = 0, **more: Any) -> Any:
        """Ask about the place where a piece of the text begins, or `into` characters behind it."""
        params = {"textDocument": {"uri": uri}, "position": position(text, text.index(piece) + into), **more}
        return self.ask(f"textDocument/{method}", params)

    def about(self, method: str, uri: str, **more: Any) -> Any:
        """Ask about a file."""
        return self.ask(f"textDocument/{method}", {"textDocument": {"uri": uri}, **more})

    def stop(self) -> int:
        """Say goodbye and return the exit code."""
        self.ask("shutdown")
        self.notify("exit")
        return self.process.wait(PATIENCE_S)

    def logged(self) -> str:
        """What the server has written to stderr."""
        self.log.seek(0)
        return self.log.read().decode()

    def kill(self) -> None:
        """End the server, whatever it does."""
        self.process.kill()
        self.process.wait(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout, self.log):
            if stream is not None:
                stream.close()


def position(text: str, offset: int) -> Message:
    """The place of an offset, in UTF-16 units."""
    line = text.count("\n", 0, offset)
    start = text.rfind("\n", 0, offset) + 1
    return {"line": line, "character": len(text[start:offset].encode("utf-16-le")) // 2}


def cut(text: str, where: Message) -> str:
    """The piece of a text that a range covers."""
    lines = text.split("\n")
    first, last = where["start"], where["end"]
    if first["line"] == last["line"]:
        return _units(lines[first["line"]], first["character"], last["character"])
    middle = lines[first["line"] + 1 : last["line"]]
    head = _units(lines[first["line"]], first["character"], None)
    tail = _units(lines[last["line"]], 0, last["character"]) if last["line"] < len(lines) else ""
    return "\n".join([head, *middle, tail])


def _units(line: str, start: int, end: int | None) -> str:
    raw = line.encode("utf-16-le")
    return raw[2 * start : None if end is None else 2 * end].decode("utf-16-le")


def edited(text: str, edits: list[Message]) -> str:
    """A text after edits, which do not overlap."""
    for edit in sorted(edits, key=lambda item: _key(item["range"]["start"]), reverse=True):
        lines = text.split("\n")
        first, last = edit["range"]["start"], edit["range"]["end"]
        head = "\n".join([*lines[: first["line"]], _units(lines[first["line"]], 0, first["character"])])
        below = lines[last["line"]] if last["line"] < len(lines) else ""
        tail = "\n".join([_units(below, last["character"], None), *lines[last["line"] + 1 :]])
        text = head + edit["newText"] + tail
    return text


def _key(place: Message) -> tuple[int, int]:
    return place["line"], place["character"]
