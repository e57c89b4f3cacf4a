"""Plugins: packages that bring rules, devices and front ends by entry points, good ones and broken ones."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gerules
from gerules.dsl import FUNCTIONS, RuleBook, load_rules
from gerules.errors import Source, render
from gerules.frontends import ModelError
from gerules.ops import Schemas
from gerules.pipeline.plugins import (
    Found,
    _add_rules,
    _find_frontends,
    add_rules,
    find_frontends,
    list_plugins,
)
from tests.pipeline.packages import install, run_python

RULES = """\
extern predicate is_even(n: int) from "good_rules"

rule sin_of_cos in good.rules "not that this were true":
    match:
        y = Sin(Cos(x: f32[N, C]))
    where:
        is_even(C) else "an odd number of columns"
    rewrite:
        y = Cos(Cos(x))
"""
BOARD = """\
include "devices/host.ger"

device good_board extends host "a board of ours":
    set clock_mhz = 1500
"""
READER = """\
import gerules

class Reader:
    suffixes = (".twice", ".BAD")

    def read(self, path):
        if path.suffix == ".bad":
            raise RuntimeError("byte 7 is odd")
        if path.suffix == ".BAD":
            return "a text"
        n = int(path.read_text())
        return gerules.parse_graph(f"graph g:\\n    opset 20\\n    input x: f32[2, {n}]\\n"
                                   "    c = Cos(x)\\n    y = Sin(c)\\n    return y\\n")

reader = Reader()
"""
PREDICATES = """\
import gerules

@gerules.predicate
def is_even(n: int) -> bool:
    return n % 2 == 0
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder where three sound packages are installed."""
    install(
        tmp_path / "site",
        "good-rules",
        {"good_rules/__init__.py": PREDICATES, "good_rules/fusion/sums.ger": RULES},
        {"gerules.rules": {"sums": "good_rules"}},
    )
    files = "from pathlib import Path\n\ndef files():\n    return [Path(__file__).with_name('board.ger')]\n"
    install(
        tmp_path / "site",
        "good-board",
        {"good_board/__init__.py": files, "good_board/board.ger": BOARD},
        {"gerules.devices": {"board": "good_board:files"}},
    )
    install(
        tmp_path / "site",
        "good-reader",
        {"good_reader.py": READER},
        {"gerules.frontends": {"twice": "good_reader:reader"}},
    )
    return tmp_path / "site"


@pytest.fixture
def here(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RuleBook]:
    """The packages installed in this process; gives a small book to extend, and forgets all at the end."""
    monkeypatch.syspath_prepend(site)
    before = set(sys.modules)
    for function in (_add_rules, _find_frontends):
        function.cache_clear()
    yield load_rules([Source("base.ger", "rule r in s: Abs(Abs(x) as r) => r\n")], schemas=Schemas())
    for function in (_add_rules, _find_frontends):
        function.cache_clear()
    FUNCTIONS.discard("is_even")
    for name in set(sys.modules) - before:
        if name.split("_")[0] in ("good", "broken"):
            del sys.modules[name]


SHOW_ALL = """\
import sys, pathlib, gerules
from gerules.cli.app import main
packages = {'good_rules', 'good_board', 'good_reader'}
main(['--help'])
assert not packages & set(sys.modules)
path = pathlib.Path(sys.argv[1])
path.write_text('4')
graph = gerules.load(path)
assert packages & set(sys.modules) == {'good_reader'}
after, trace = gerules.rewrite(graph, device='good_board')
assert packages <= set(sys.modules)
assert [item.rule for item in trace.applications] == ['sin_of_cos'], trace
path.write_text('5')
assert not gerules.rewrite(path)[1].applications
assert main(['plugins', '--json']) == 0
"""


def test_what_packages_bring_takes_part_and_is_loaded_when_needed(site: Path, tmp_path: Path) -> None:
    run = run_python(site, "-c", SHOW_ALL, str(tmp_path / "m.twice"))
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout[run.stdout.index("{\n") :])["plugins"]
    assert [(item["name"], item["status"], item["gives"], item["distribution"]) for item in found] == [
        ("board", "used", ["good_board"], "good-board 1.2"),
        ("sums", "used", ["sin_of_cos"], "good-rules 1.2"),
        ("twice", "used", [".twice", ".bad"], "good-reader 1.2"),
    ]


def test_all_can_be_switched_off(here: RuleBook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GERULES_PLUGINS", "0")
    found = list_plugins(here)
    assert [(item.name, item.status) for item in found] == [
        ("board", "off"), ("sums", "off"), ("twice", "off"),
    ]  # fmt: skip
    assert add_rules(here) == (here, Found()) and not find_frontends().frontends
    assert "good_rules" not in sys.modules


@pytest.mark.parametrize(
    ("group", "value", "files", "reason"),
    [
        ("rules", "broken", {"broken.py": "1 / 0\n"}, "loading broken raised ZeroDivisionError: division"),
        ("rules", "broken", {"broken.py": "import sys\nsys.exit('no licence')\n"}, "SystemExit: no licence"),
        ("rules", "missing", {}, "ModuleNotFoundError: No module named 'missing'"),
        ("rules", "broken:nothing", {"broken.py": ""}, "AttributeError"),
        ("rules", "broken", {"broken.py": ""}, "broken is a module, and no package with rule files inside"),
        ("rules", "broken:n", {"broken.py": "n = 3\n"}, "it is int, and no package, path or function"),
        ("rules", "broken:n", {"broken.py": "n = [3]\n"}, "something else than paths of rule files"),
        ("rules", "broken:f", {"broken.py": "def f():\n    raise OSError('gone')\n"}, "it raised OSError"),
        ("rules", "broken:p", {"broken.py": "p = 'nowhere/at.ger'\n"}, "E10001: nowhere/at.ger cannot be"),
        ("rules", "broken", {"broken/__init__.py": ""}, "no .ger file is inside"),
        (
            "rules",
            "broken",
            {"broken/__init__.py": "", "broken/a.ger": "rule q in s: Rellu(x) => x\n"},
            "E40111: Rellu is no operator",
        ),
        (
            "devices",
            "broken",
            {"broken/__init__.py": "", "broken/a.ger": "device d extends nothing:\n    has x\n"},
            "E40003: nothing is not defined",
        ),
        ("frontends", "broken:f", {"broken.py": "def f(path):\n    pass\n"}, "no object with `suffixes` and"),
        ("frontends", "broken:F", {"broken.py": READER.replace("Reader", "F")}, "no object with"),
        (
            "frontends",
            "broken:reader",
            {"broken.py": READER.replace('(".twice", ".BAD")', '"twice"')},
            "no list of endings",
        ),
    ],
)
def test_a_plugin_that_fails_is_a_warning_and_the_rest_goes_on(
    site: Path, here: RuleBook, group: str, value: str, files: dict[str, str], reason: str
) -> None:
    install(site, "broken-one", files, {f"gerules.{group}": {"broken": value}})
    importlib.invalidate_caches()
    found = list_plugins(here)
    assert {item.name: item.status for item in found} == {
        "board": "used", "broken": "failed", "sums": "used", "twice": "used",
    }  # fmt: skip
    (fault,) = [item.fault for item in found if item.fault is not None]
    assert fault.severity == "warning" and fault.code.code == "E10007"
    text = render([fault])
    assert f"the plugin broken (gerules.{group}) of broken-one 1.2 failed: " in text
    assert reason in text and "update or remove broken-one 1.2" in text


def test_a_book_has_the_warnings_of_what_it_goes_without(site: Path, here: RuleBook) -> None:
    install(site, "broken-one", {"broken.py": "1 / 0\n"}, {"gerules.rules": {"broken": "broken"}})
    book, found = add_rules(here)
    assert {"r", "sin_of_cos"} == set(book.rule_by_name) and len(found.warnings) == 1
    again, _ = add_rules(here)
    assert again is book


@pytest.mark.parametrize(
    ("name", "reason"),
    [("m.bad", "reading {} raised RuntimeError: byte 7 is odd"), ("m.BAD", "gave str, and no Graph")],
)
def test_a_front_end_that_fails_is_an_error_with_its_package(
    here: RuleBook, tmp_path: Path, name: str, reason: str
) -> None:
    model = tmp_path / name
    model.write_text("4", encoding="utf-8")
    with pytest.raises(ModelError) as caught:
        gerules.load(model)
    (fault,) = caught.value.diagnostics
    assert fault.code.code == "E10007" and reason.format(model) in fault.message
    assert "the plugin twice (gerules.frontends) of good-reader 1.2 failed" in fault.message
