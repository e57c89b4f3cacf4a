"""The server outlives whatever comes in: broken files, broken messages, huge ones; and it ends well."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gerules.dsl import rules_folder
from gerules.lsp.reading import MAX_BYTES
from tests.editor.client import PATIENCE_S, Client, Failed, position
from tests.editor.conftest import RULES, Files, messages

SHIPPED = sorted(rules_folder().resolve().rglob("*.ger"))
PIECES = [*'()[]{}:,=#@$"\n\t\r\x00', "**", "rule ", "match:", "é𝄞"]
ASKED = ["hover", "completion", "definition", "documentHighlight", "prepareRename"]
ABOUT = ["documentSymbol", "foldingRange", "semanticTokens/full", "codeLens"]


@pytest.fixture
def alone() -> Iterator[Client]:
    """A server of its own."""
    client = Client()
    try:
        yield client
    finally:
        client.kill()


def damaged(text: str, draw: random.Random) -> str:
    """A text with a piece cut out, put in, doubled, or cut off."""
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(text) + 1)
        match draw.randrange(4):
            case 0:
                text = text[:at]
            case 1:
                text = text[:at] + draw.choice(PIECES) + text[at:]
            case 2:
                text = text[:at] + text[at + draw.randrange(60) :]
            case _:
                text = text[:at] + text[at - draw.randrange(min(at, 200) + 1) : at] + text[at:]
        text = text or "x"
    return text


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_never_stop_the_server(server: Client, files: Files, seed: int) -> None:
    draw = random.Random(seed)
    uri = files.new()
    server.open(uri, "")
    for _ in range(12):
        path = draw.choice(SHIPPED)
        text = damaged(path.read_text("utf-8")[: draw.choice([400, 3000])], draw)
        server.type(uri, text)
        sent = []
        for _ in range(3):
            where = position(text, draw.randrange(len(text) + 1))
            asked = draw.choice(ASKED)
            params = {"textDocument": {"uri": uri}, "position": where}
            sent.append(server.send(f"textDocument/{asked}", params))
        sent += [server.send(f"textDocument/{asked}", {"textDocument": {"uri": uri}}) for asked in ABOUT]
        for number in sent:
            try:
                server.answer(number)
            except Failed as failed:
                # "There is no name here", and its like.
                assert failed.code == -32803
    assert isinstance(server.change(uri, "rule"), list)
    server.close(uri)
    internal = [item for item in server.told if item["method"] == "window/logMessage"]
    assert internal == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"7",
        b'"text"',
        b"\xff\xfe{}",
        b'{"jsonrpc": "2.0"}',
        b'{"jsonrpc": "1.0", "id": 1, "method": "shutdown"}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {}}',
        b'{"jsonrpc": "2.0", "method": "textDocument/didChange", "params": {"textDocument": {"uri": "file:///no.ger",'
        b' "version": 1}, "contentChanges": [{"text": ""}]}}',
        b'{"jsonrpc": "2.0", "method": "nothing/known", "params": [1, 2]}',
        b'{"jsonrpc": "2.0", "id": 999999, "result": 1}',
        b'{"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 424242}}',
        json.dumps([[[[[]]]]] * 100).encode(),
        b"[" * 100_000,
    ],
)
def test_malformed_messages_are_survived(server: Client, rules: str, body: bytes) -> None:
    if body:
        server.write(body)
    else:
        server.write_raw(b"Content-Length: many\r\nX: " + b"y" * 20_000 + b"\r\n\r\n")
    assert server.at("hover", rules, RULES, "Neg(x)") is not None


def refusal(server: Client, number: int | None) -> tuple[int, str]:
    with pytest.raises(Failed) as refused:
        server.answer(number)
    return refused.value.code, str(refused.value)


@pytest.mark.parametrize("body", [b"{bad}", b"{", b'{"a": "\xff"}', b"[" * 100_000])
def test_what_is_no_json_is_answered_without_a_number(server: Client, body: bytes) -> None:
    server.answers.clear()
    server.write(body)
    code, message = refusal(server, None)
    assert code == -32700 and message.startswith("no JSON: ")


@pytest.mark.parametrize("body", [b"[]", b"null", b"7", b'{"id": 3}', b"{}"])
def test_what_is_no_message_is_answered_without_a_number(server: Client, body: bytes) -> None:
    server.answers.clear()
    server.write(body)
    assert refusal(server, None) == (-32600, "no message of JSON-RPC 2.0")


@pytest.mark.parametrize("length", ["abc", "-5", "", "9" * 5000, "1e3", "\u0665"])
def test_a_length_that_is_none_is_logged_and_the_next_message_is_read(alone: Client, length: str) -> None:
    alone.start()
    alone.write_raw(f"Content-Length: {length}\r\n\r\n".encode() + b'{"jsonrpc": "2.0", "id": 7}')
    assert alone.stop() == 0
    assert alone.logged().count("ERROR") == 1 and "which is none; it is skipped" in alone.logged()


def test_a_message_without_a_length_is_logged_and_the_next_message_is_read(alone: Client) -> None:
    alone.start()
    alone.write_raw(b"Content-Type: x\r\n\r\n{}")
    assert alone.stop() == 0
    assert alone.logged().count("ERROR") == 1 and "a message has no length; it is skipped" in alone.logged()


def test_names_of_headers_are_read_in_any_case(alone: Client) -> None:
    alone.start()
    body = b'{"jsonrpc": "2.0", "id": 77, "method": "shutdown"}'
    alone.write_raw(b"content-length:%d\r\n\r\n%b" % (len(body), body))
    assert alone.answer(77) is None


def test_malformed_requests_are_answered(server: Client, rules: str) -> None:
    for method, params in [
        ("textDocument/hover", {"position": {"line": 0, "character": 0}}),
        ("textDocument/hover", None),
        ("textDocument/hover", {"textDocument": {"uri": rules}, "position": {"line": "x", "character": []}}),
        ("nothing/known", {}),
        ("workspace/executeCommand", {"command": "nothing.known"}),
    ]:
        with pytest.raises(Failed):
            server.ask(method, params)


def test_places_that_do_not_exist_are_survived(server: Client, files: Files, rules: str) -> None:
    far = {"line": 10**6, "character": 10**6}
    for uri in (
        rules,
        files.new(),
        "untitled:Untitled-1",
        "file:///nowhere/at/all.ger",
        "no address",
        "file:///\x00.ger",
    ):
        params = {"textDocument": {"uri": uri}, "position": far}
        for asked in ("hover", "completion", "definition"):
            server.ask(f"textDocument/{asked}", params)


def test_a_text_that_is_no_file(server: Client) -> None:
    uri = "untitled:Untitled-1"
    text = 'include "prelude.ger"\nrule new in s: Abs(Neg(x)) => Abz(x)\n'
    assert messages(server.open(uri, text)) == [("E40111", "Abz is no operator")]
    assert server.at("definition", uri, text, "new")[0]["uri"] == uri
    server.close(uri)


def test_a_huge_file_is_not_read(server: Client, files: Files) -> None:
    uri = files.new()
    text = "# long\n" * (MAX_BYTES // 7 + 1)
    assert [code for code, _ in messages(server.open(uri, text))] == ["E10005"]
    server.close(uri)


def test_a_file_of_faults_is_told_of_in_time(server: Client, files: Files) -> None:
    uri = files.new()
    found = server.open(uri, "rule x in s: Abs(( => y\n" * 300)
    assert 20 <= len(found) <= 300
    server.close(uri)


# ---------------------------------------------------------------- how it begins and ends
def test_goodbye_without_shutdown_is_a_fault(alone: Client) -> None:
    alone.start()
    alone.notify("exit")
    assert alone.process.wait(PATIENCE_S) == 1
    assert alone.logged() == "the editor left without `shutdown`\n"


def test_after_shutdown_requests_are_refused_and_exit_ends(alone: Client) -> None:
    alone.start()
    assert alone.ask("shutdown") is None
    for method in ("textDocument/hover", "shutdown", "nothing/known"):
        params = {"textDocument": {"uri": "file:///a.ger"}, "position": {"line": 0, "character": 0}}
        number = alone.send(method, None if method == "shutdown" else params)
        assert refusal(alone, number) == (-32600, "the server was shut down; only exit may follow")
    alone.notify("textDocument/didClose", {"textDocument": {"uri": "file:///a.ger"}})
    alone.notify("exit")
    assert alone.process.wait(PATIENCE_S) == 0


def test_a_message_that_is_too_large_is_read_past_and_a_closed_pipe_ends_the_server(alone: Client) -> None:
    alone.start()
    size = 65 * 1024 * 1024
    alone.write_raw(b"Content-Length: %d\r\n\r\n" % size)
    for _ in range(65):
        alone.write_raw(b" " * (1024 * 1024))
    assert alone.ask("workspace/symbol", {"query": "nothing is called so"}) == []
    assert alone.process.stdin is not None
    alone.process.stdin.close()
    assert alone.process.wait(PATIENCE_S) == 1


def test_positions_may_count_in_utf8(alone: Client, tmp_path: Path) -> None:
    can = alone.start(tmp_path, general={"positionEncodings": ["utf-8"]})
    assert can["positionEncoding"] == "utf-8"
    (found,) = alone.open((tmp_path / "a.ger").as_uri(), 'rule r in s "𝄞": Neg(Neg(x)) => y\n')
    assert found["range"]["start"]["character"] == len('rule r in s "𝄞": Neg(Neg(x)) => '.encode())
    assert alone.stop() == 0


def test_without_pygls_the_command_says_what_to_install(tmp_path: Path) -> None:
    # A package of this name that cannot be found: its parent has no place to look in.
    code = (
        "import sys, importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'pygls' else real(name, *rest)\n"
        "from gerules.cli.app import main; sys.exit(main(['lsp']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1 and done.stdout == ""
    assert "E10009" in done.stderr and 'pip install "gerules[editor]"' in done.stderr
