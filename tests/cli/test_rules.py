"""`gerules rules` and `gerules devices`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gerules.dsl import rules_folder
from gerules.pipeline import shipped_rules
from tests.cli.conftest import Run

OWN = """\
gerules 1
ruleset own "rules of our own":
    default on
rule twice in own "Negating twice does nothing":
    alias "TwiceFusionPass"
    match: y = Neg(Neg(x))
    rewrite: y = Identity(x)
    test:
        x: f32[2, 3]
rule never in own "Only on a device with wings":
    when device.has("wings") else "the device has no wings"
    match: y = Abs(Abs(x))
    rewrite: y = Abs(x)
"""

LISTED = """\
Rules for host
rule    set   phase   on    what it does, what GE calls it, why it is off
─────────────────────────────────────────────────────────────────────────
twice   own   -       on    Negating twice does nothing
                            GE: TwiceFusionPass
never   own   -       off   Only on a device with wings
                            off: the device has no wings
2 rules, 1 of them on; 1 tests
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.ger"
    path.write_text(OWN, encoding="utf-8")
    return path


def test_list_of_a_set(run: Run, own: Path) -> None:
    result = run("rules", "list", "--rules", own, "--set", "own")
    assert result.exit_code == 0, result.output
    assert [line.rstrip() for line in result.stdout.splitlines()] == LISTED.splitlines()


def test_list_has_every_shipped_rule_once(run_json: Callable[..., Any]) -> None:
    rows = run_json("rules", "list", "--device", "ascend910b")["rules"]
    assert [row["rule"] for row in rows] == [rule.name.name for rule in shipped_rules().rules]
    assert all(row["on"] == (not row["why_off"]) for row in rows)
    assert {row["set"] for row in rows} == {rule.ruleset for rule in shipped_rules().rules}


def test_switches_show_in_the_list(run_json: Callable[..., Any]) -> None:
    def off(*options: str) -> dict[str, str]:
        rows = run_json("rules", "list", "--set", "fuse.conv", *options)["rules"]
        return {row["rule"]: row["why_off"] for row in rows if not row["on"]}

    assert "conv_relu" not in off()
    assert off("--disable", "conv_relu")["conv_relu"] == "it is disabled by the name conv_relu"
    assert len(off("--disable", "all")) > len(off())


def test_check_of_shipped_rules_is_clean(run: Run, run_json: Callable[..., Any]) -> None:
    result = run("rules", "check")
    assert result.exit_code == 0 and result.stderr == ""
    assert result.stdout.endswith(": no faults\n")
    found = run_json("rules", "check")
    assert found["n_rules"] == len(shipped_rules().rules) and found["warnings"] == []


def test_check_speaks_of_own_files_only(run_json: Callable[..., Any], own: Path) -> None:
    found = run_json("rules", "check", own)
    assert found["n_rules"] == 2 and [Path(name).name for name in found["files"]] == ["own.ger"]


def test_test_runs_the_tests_of_own_rules(run: Run, run_json: Callable[..., Any], own: Path) -> None:
    result = run("rules", "test", own)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("1 test of 2 rules") and "1 rule without a test" in result.stdout
    assert run_json("rules", "test", own, "--rule", "twice")["rules"] == 1


def test_a_rule_that_changes_the_meaning_is_exit_code_3(
    run: Run, run_json: Callable[..., Any], own: Path
) -> None:
    own.write_text(OWN.replace("rewrite: y = Identity(x)", "rewrite: y = Neg(x)"), encoding="utf-8")
    result = run("rules", "test", own)
    assert result.exit_code == 3
    assert "twice" in result.stdout and "differs" in result.stdout
    assert '    test "the sides part":\n        x: f32[]\n' in result.stdout  # the smallest graph made up
    assert "2 failures" in result.stdout  # its own test, and that graph
    (failure,) = run_json("rules", "test", own, code=3)["failures"][:1]
    assert failure["rule"] == "twice" and "own.ger:8" in failure["at"]


def test_devices(run: Run, run_json: Callable[..., Any]) -> None:
    rows = {row["device"]: row for row in run_json("devices")["devices"]}
    assert set(rows) == {"ascend310", "ascend310p", "ascend910a", "ascend910b", "host"}
    b1 = rows["ascend910b"]
    # Source: Ascend platform file Ascend910B1: 24 cube cores at 1850 MHz, 4096 multiply-adds a clock.
    assert (b1["n_cube_cores"], b1["clock_mhz"]) == (24, 1850)
    assert b1["peak_f16_tflops"] == pytest.approx(24 * 2 * 16**3 * 1850e6 / 1e12, abs=0.1)
    assert b1["engines"][0]["engine"] == "AIcoreEngine"
    text = run("devices").stdout
    assert all(name in text for name in rows)


def test_an_own_device_is_listed_and_compiled_for(
    run: Run, run_json: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    board = tmp_path / "board.ger"
    board.write_text(
        'gerules 1\ninclude "devices/host.ger"\n'
        'device tafel extends host "a board of one\'s own":\n    set clock_mhz = 123\n',
        encoding="utf-8",
    )
    rows = {row["device"]: row for row in run_json("devices", "--rules", board)["devices"]}
    assert rows["tafel"]["clock_mhz"] == 123
    result = run("compile", model, "-o", tmp_path / "o.om", "--rules", board, "-d", "tafel")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("klein for tafel")


def test_a_file_without_rules_has_nothing_to_test(
    run: Run, run_json: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "numbers.ger"
    path.write_text('param MOST = 3 "a number"\n', encoding="utf-8")
    assert run("rules", "test", path).stdout == "no tests in 0 rules\n"
    assert run_json("rules", "test", path)["rules"] == 0


def test_shipped_files_can_be_given_too(run_json: Callable[..., Any]) -> None:
    path = rules_folder() / "fusion" / "conv.ger"
    found = run_json("rules", "check", path)
    assert [Path(name).name for name in found["files"]] == ["conv.ger"] and found["n_rules"] > 3


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("f32[1000000, 1000000]", "too large for a test"),
        ("f32[50000, 50000]", "too large for a test"),
        ("f32[" + "1, " * 99 + "1]", "too large for a test"),
        ("f32[999999999999999999999]", "too large for a test"),
        ("f32[2] in 5 .. 1", "no number is in 5 .. 1"),
        ("i8[2] in 500 .. 1000", "no i8 is in 500 .. 1000"),
        ("i32[2] in 0.2 .. 0.7", "no i32 is in 0.2 .. 0.7"),
        ("f64[2] in -1.7e308 .. 1.7e308", "too wide"),
        ("string[2]", "no random numbers of type string"),
        ("c64[2]", "no random numbers of type c64"),
    ],
)
def test_inputs_that_no_test_can_have_are_failures_with_a_reason(
    run: Run, tmp_path: Path, given: str, reason: str
) -> None:
    path = tmp_path / "r.ger"
    path.write_text(
        f"rule r in a: Identity(Identity(x)) => Identity(x)\n    test:\n        x: {given}\n",
        encoding="utf-8",
    )
    result = run("rules", "test", path)
    assert result.exit_code == 3, result.output
    assert reason in result.stdout


def test_numbers_of_tests_stay_within_their_type(run: Run, tmp_path: Path) -> None:
    kinds = (
        "i8[9] in -1000 .. 1000",
        "f16[9] in -1e30 .. 1e30",
        "u64[9] in 0 .. 18446744073709551615",
        "u8[0]",
    )
    tests = "".join(f'    test "{at}":\n        x: {kind}\n' for at, kind in enumerate(kinds))
    path = tmp_path / "r.ger"
    path.write_text(f"rule r in a: Identity(Identity(x)) => Identity(x)\n{tests}", encoding="utf-8")
    result = run("rules", "test", path)
    assert result.exit_code == 0, result.output


def test_what_is_given_is_known_wherever_rules_were_read(
    run_json: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_json("rules", "check", rules_folder())
    monkeypatch.chdir(tmp_path)
    found = run_json("rules", "check", rules_folder() / "fusion" / "conv.ger")
    assert [Path(name).name for name in found["files"]] == ["conv.ger"]


def test_a_rule_that_does_not_exist_is_told_with_the_nearest(run: Run) -> None:
    result = run("rules", "test", "--rule", "conv_bia")
    assert result.exit_code == 1 and "did you mean conv_bias?" in result.stderr
    (hint,) = (line for line in result.stderr.splitlines() if "hint" in line)
    assert "such as conv_bias, " in hint and len(hint) < 200
