"""The conversation in docs/editors.md is one that takes place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.docs.pages import DOCS, blocks_of
from tests.editor.client import Client, Failed, Message


@pytest.fixture
def client() -> Iterator[Client]:
    started = Client()
    try:
        started.start()
        yield started
    finally:
        started.kill()


def shown(part: Any, whole: Any) -> Any:
    """What `part` shows of `whole`: fields that it leaves out do not count."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return {key: shown(value, whole.get(key)) for key, value in part.items()}
    if isinstance(part, list) and isinstance(whole, list) and len(part) == len(whole):
        return [shown(one, other) for one, other in zip(part, whole, strict=True)]
    return whole


def test_the_conversation_takes_place(client: Client) -> None:
    (block,) = blocks_of(DOCS / "editors.md", "lsp")
    numbers: dict[int, int] = {}
    n_answers = 0
    for line in block.text.splitlines():
        said: Message = json.loads(line[4:])
        if line.startswith("--> "):
            if "id" in said:
                numbers[said["id"]] = client.send(said["method"], said["params"])
            else:
                client.notify(said["method"], said["params"])
            continue
        n_answers += 1
        if "id" in said:
            try:
                answer: Message = {"id": said["id"], "result": client.answer(numbers[said["id"]])}
            except Failed as failed:
                answer = {"id": said["id"], "error": {"code": failed.code, "message": str(failed)}}
        else:
            version = said["params"]["version"]
            answer = client.wait_for(lambda item, want=version: item["params"].get("version") == want)
        assert shown(said, answer) == said
    assert n_answers == 6
