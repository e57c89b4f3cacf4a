"""The extension for VS Code is whole: what its manifest names is there, and names no registry or machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gerules.lsp.features import CANCEL_TESTS, RUN_TESTS
from tests.editor.test_grammar import EXTENSION

MANIFEST: dict[str, Any] = json.loads((EXTENSION / "package.json").read_text("utf-8"))
CONTRIBUTES: dict[str, Any] = MANIFEST["contributes"]
CODE = (EXTENSION / "extension.js").read_text("utf-8")


def test_the_manifest_has_what_a_package_needs() -> None:
    # Source: https://code.visualstudio.com/api/references/extension-manifest
    for field in ("name", "version", "publisher", "engines", "main", "description", "license"):
        assert MANIFEST[field], field
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*", MANIFEST["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", MANIFEST["version"])
    assert re.fullmatch(r"\^\d+\.\d+\.\d+", MANIFEST["engines"]["vscode"])
    assert "@types/vscode" not in MANIFEST.get("devDependencies", {})
    assert (EXTENSION / "README.md").is_file() and (EXTENSION.parents[1] / "LICENSE").is_file()


def test_every_file_that_the_manifest_names_is_there() -> None:
    named = [MANIFEST["main"]]
    named += [item["configuration"] for item in CONTRIBUTES["languages"]]
    named += [item["path"] for item in CONTRIBUTES["grammars"]]
    assert [name for name in named if not (EXTENSION / name).is_file()] == []
    for name in named:
        if name.endswith(".json"):
            json.loads((EXTENSION / name).read_text("utf-8"))


def test_languages_grammars_and_configurations_fit_each_other() -> None:
    languages = {item["id"]: item["extensions"] for item in CONTRIBUTES["languages"]}
    assert languages == {"gerules": [".ger"], "gerules-graph": [".graph"]}
    for item in CONTRIBUTES["grammars"]:
        grammar = json.loads((EXTENSION / item["path"]).read_text("utf-8"))
        assert grammar["scopeName"] == item["scopeName"]
        assert item.get("language", "gerules") in languages
    assert f"LANGUAGES = {json.dumps(list(languages))}" in CODE


def test_every_command_is_registered_once() -> None:
    commands = {item["command"] for item in CONTRIBUTES["commands"]}
    registered = re.findall(r'registerCommand\("([\w.]+)"', CODE)
    assert sorted(registered) == sorted(commands)
    # Those of the server are registered by the client itself; a second time would fail.
    assert not {RUN_TESTS, CANCEL_TESTS} & commands
    assert set(re.findall(r'command: "(gerules\.[\w.]+)"', CODE)) == {RUN_TESTS, CANCEL_TESTS}
    for items in CONTRIBUTES["menus"].values():
        assert {item["command"] for item in items} <= commands


def test_every_setting_is_declared() -> None:
    declared = set(CONTRIBUTES["configuration"]["properties"])
    used = {f"gerules.{name}" for name in re.findall(r'settings\.get\("([\w.]+)"', CODE)}
    # `trace.server` is read by the client library.
    assert used | {"gerules.trace.server"} == declared


def test_patterns_of_the_configurations_are_sound() -> None:
    for item in CONTRIBUTES["languages"]:
        configuration = json.loads((EXTENSION / item["configuration"]).read_text("utf-8"))
        # Without the flag, JavaScript reads \p{L} as plain letters.
        assert configuration["wordPattern"]["flags"] == "u"
        word = re.compile(configuration["wordPattern"]["pattern"].replace(r"[\p{L}_]", r"[^\W\d]"))
        assert word.fullmatch("conv_bias") and word.fullmatch("ge::Conv2D") and word.fullmatch("0.5")
        for rule in configuration["onEnterRules"]:
            assert re.match(rule["beforeText"], "    match:" if item["id"] == "gerules" else "graph g:")


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((EXTENSION / "package-lock.json").read_text("utf-8"))
    assert lock["name"] == MANIFEST["name"]
    root = lock["packages"][""]
    assert root["dependencies"] == MANIFEST["dependencies"]
    assert root["devDependencies"] == MANIFEST["devDependencies"]
    inside = {name: item for name, item in lock["packages"].items() if name}
    assert [name for name, item in inside.items() if "resolved" in item] == []
    assert [name for name, item in inside.items() if not item.get("integrity")] == []


def test_what_is_not_needed_stays_out_of_the_package() -> None:
    ignored = (EXTENSION / ".vscodeignore").read_text("utf-8").split()
    assert {"test/**", "package.js", "package-lock.json", ".gitignore"} <= set(ignored)
    tracked = {path.name for path in Path(EXTENSION).iterdir()}
    assert {"package.json", "package-lock.json", "extension.js", "syntaxes"} <= tracked
