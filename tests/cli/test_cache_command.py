"""The compile cache on the command line: hits, notes, and `gerules cache`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache switched on, in a folder of the test."""
    monkeypatch.delenv("GERULES_CACHE")
    monkeypatch.setenv("GERULES_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache"


ARGUMENTS = ("--dim", "N=1", "-d", "ascend910b", "--precision", "fp16")


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    return {name: report[name] for name in ("stages", "summary", "warnings", "output")}


def test_a_hit_writes_the_same_files_and_tells_the_same(run_json: Callable[..., Any], stem: Path) -> None:
    files = ("--fusion-result", "f.json", "--fusion-sites", "s.json")
    outputs, reports = list[list[bytes]](), list[Any]()
    for extra in (["--no-cache"], [], []):
        reports.append(run_json("compile", stem, "-o", "a.om", *ARGUMENTS, *files, *extra))
        outputs.append([Path(name).read_bytes() for name in ("a.om", "f.json", "s.json")])
    assert outputs[0] == outputs[1] == outputs[2]
    assert [report["cache"] and report["cache"]["hit"] for report in reports] == [None, False, True]
    assert without_times(reports[1]) == without_times(reports[2])


def test_the_report_of_a_hit_reads_as_that_of_the_compile(run: Run, stem: Path) -> None:
    first, second = (run("compile", stem, "-o", "a.om", *ARGUMENTS).stdout.splitlines() for _ in range(2))
    said = [line for line in second if line not in first]
    assert [line for line in second if line in first] == first
    assert len(said) == 1 and said[0].startswith("cache        hit ")


def test_a_hit_is_validated_and_dumped(run: Run, stem: Path) -> None:
    assert run("compile", stem, "-o", "a.om", *ARGUMENTS).exit_code == 0
    result = run("compile", stem, "-o", "b.om", *ARGUMENTS, "--validate", "--dump", "stages")
    assert result.exit_code == 0, result.output
    assert "warning[E10053]" in result.stderr and "stages that --dump asks for" in result.stderr
    assert len(list(Path("stages").glob("*.graph"))) > 10 and "reference" in result.stdout
    assert Path("a.om").read_bytes() == Path("b.om").read_bytes()


@pytest.mark.parametrize("switch", [("--no-cache",), ("off",)])
def test_it_can_be_switched_off(
    run: Run, stem: Path, on: Path, monkeypatch: pytest.MonkeyPatch, switch: tuple[str]
) -> None:
    if switch == ("off",):
        monkeypatch.setenv("GERULES_CACHE", "0")
        switch = ()  # type: ignore[assignment]  # no option then
    assert run("compile", stem, "-o", "a.om", *ARGUMENTS, *switch).exit_code == 0
    assert not on.exists()


def test_a_damaged_entry_is_told(run: Run, stem: Path, on: Path) -> None:
    run("compile", stem, "-o", "a.om", *ARGUMENTS)
    (entry,) = on.rglob("*.entry")
    entry.write_bytes(entry.read_bytes()[:-40])
    result = run("compile", stem, "-o", "a.om", *ARGUMENTS)
    assert result.exit_code == 0
    assert "warning[E10050]" in result.stderr and "its checksum does not hold" in result.stderr


def test_list_verify_and_clear(run: Run, run_json: Callable[..., Any], stem: Path, on: Path) -> None:
    assert "0 entries" in run("cache", "list").stdout
    for precision in ("fp16", "fp32"):
        run("compile", stem, "-o", "a.om", "--dim", "N=1", "--precision", precision)
    found = run_json("cache", "list")
    assert found["folder"] == str(on) and len(found["entries"]) == 2
    assert found["entries"][0]["key"][:12] in run("cache", "list").stdout
    assert run("cache", "verify").stdout == "2 entries, 0 damaged and deleted\n"
    entry = next(on.rglob("*.entry"))
    entry.write_bytes(b"broken")
    result = run("cache", "verify", "--json")
    assert result.exit_code == 3
    assert [item["code"] for item in json.loads(result.stdout)["damaged"]] == ["E10050"]
    assert run_json("cache", "clear")["deleted"] == 1 and not list(on.rglob("*.entry"))


def test_faults_of_the_settings_have_codes(
    run: Run, monkeypatch: pytest.MonkeyPatch, stem: Path, on: Path
) -> None:
    monkeypatch.setenv("GERULES_CACHE_SIZE", "lots")
    result = run("compile", stem, "-o", "a.om", *ARGUMENTS)
    assert result.exit_code == 1 and "E10003" in result.stderr and "GERULES_CACHE_SIZE" in result.stderr
    monkeypatch.delenv("GERULES_CACHE_SIZE")
    monkeypatch.setenv("GERULES_CACHE", "0")
    assert "E10003" in run("cache", "list").stderr


def test_what_verify_says_fits(run: Run, stem: Path, on: Path) -> None:
    run("compile", stem, "-o", "a.om", *ARGUMENTS)
    (entry,) = on.rglob("*.entry")
    entry.write_bytes(entry.read_bytes()[:-40])
    result = run("cache", "verify")
    assert result.exit_code == 3
    assert "the next compile" in result.stderr and "was compiled again" not in result.stderr


def test_a_file_in_the_place_of_the_folder(run: Run, on: Path) -> None:
    on.write_text("mine")
    for command in ("list", "clear", "verify"):
        result = run("cache", command)
        assert result.exit_code == 1 and "E10001" in result.stderr and "it is a file" in result.stderr
    assert on.read_text() == "mine"


def test_a_switch_that_says_nothing_is_refused(run: Run, stem: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GERULES_CACHE", "banana")
    result = run("compile", stem, "-o", "a.om", *ARGUMENTS)
    assert result.exit_code == 1 and "GERULES_CACHE cannot be banana" in result.stderr


def test_a_limit_that_shrank_is_said(run: Run, stem: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("compile", stem, "-o", "a.om", *ARGUMENTS)
    assert "over the limit" not in run("cache", "list").stdout
    monkeypatch.setenv("GERULES_CACHE_SIZE", "10")
    assert "over the limit" in run("cache", "list").stdout


FAILING = """gerules 1

rule odd in mine.odd "a guard without a value":
    match:
        y = Relu(x)
    where:
        all(dims(x, 0) == 1)
    rewrite:
        y = Abs(x)
"""


def test_that_nothing_is_kept_is_told_only_where_the_cache_was_set_up(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, model = tmp_path / "odd.ger", tmp_path / "net.graph"
    rules.write_text(FAILING, encoding="utf-8")
    model.write_text(
        "graph net:\n    opset 17\n    input x: f32[2]\n    y: f32[2] = Relu(x)\n    return y\n",
        encoding="utf-8",
    )
    arguments = ("compile", model, "--rules", rules, "-o", tmp_path / "out.om")
    result = run(*arguments)
    assert "warning[E40110]" in result.stderr and "warning[E10052]" in result.stderr
    monkeypatch.delenv("GERULES_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    result = run(*arguments)
    assert "warning[E40110]" in result.stderr and "E10052" not in result.stderr
    result = run("phase", "custom", model, "--rules", rules)
    assert result.exit_code == 0 and result.stderr.count("warning[E40110]") == 1
    found = json.loads(run("phase", "custom", model, "--rules", rules, "--json").stdout)
    assert [item["code"] for item in found["warnings"]] == ["E40110"]
