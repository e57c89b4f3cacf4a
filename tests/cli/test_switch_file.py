"""`gerules compile` with a fusion switch file, and the fusion result it leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize("option", ["--fusion-switch-file", "--fusion_switch_file"])
def test_a_file_in_json_is_read_as_it_is(run: Run, stem: Path, tmp_path: Path, option: str) -> None:
    switch, short, long = (
        tmp_path / name for name in ("fusion_switch.cfg", "fusion_result.json", "sites.json")
    )
    common = (
        "compile",
        stem,
        "-o",
        tmp_path / "stem.om",
        "--input-shape",
        "x=1,3,8,8",
        "--fusion-result",
        short,
    )
    assert run(*common).exit_code == 0
    (passes,) = json.loads(short.read_text(encoding="utf-8"))[0].values()
    assert passes["graph_fusion"]["AABiasaddConvFusion"] == {"match_times": "1", "effect_times": "1"}
    switch.write_text(
        '{"Switch": {"GraphFusion": {"ALL": "on", "AABiasaddConvFusion": "off",\n'
        '"ConvBatchnormFusionPas": "off"}}}',
        encoding="utf-8",
    )
    result = run(*common, option, switch, "--fusion-sites", long)
    assert result.exit_code == 0, result.output
    assert "warning[E21010]" in result.stderr and "did you mean ConvBatchnormFusionPass?" in result.stderr
    assert "warning[E21011]: AABiasaddConvFusion" in result.stderr
    (passes,) = json.loads(short.read_text(encoding="utf-8"))[0].values()
    assert "AABiasaddConvFusion" not in passes["graph_fusion"]
    (sites,) = json.loads(long.read_text(encoding="utf-8"))[0].values()
    assert sites["off"]["conv_bias"] == "the switch file has AABiasaddConvFusion:off"
    # What the command line says outranks the file.
    assert run(*common, option, switch, "--enable", "conv_bias").exit_code == 0
    (passes,) = json.loads(short.read_text(encoding="utf-8"))[0].values()
    assert "AABiasaddConvFusion" in passes["graph_fusion"]


def test_a_faulty_file_stops_the_compile(run: Run, stem: Path, tmp_path: Path) -> None:
    switch = tmp_path / "fusion_switch.cfg"
    switch.write_text("A:maybe\nB:on\nB:on\n", encoding="utf-8")
    om = tmp_path / "stem.om"
    result = run("compile", stem, "-o", om, "--fusion-switch-file", switch)
    assert result.exit_code == 1 and not om.exists()
    assert "E21004" in result.stderr and "E21005" in result.stderr
    result = run("compile", stem, "-o", om, "--fusion-switch-file", tmp_path / "none.cfg")
    assert result.exit_code == 1 and "E21001" in result.stderr
    result = run("compile", stem, "-o", om, "--fusion-result", tmp_path / "no" / "r.json")
    assert result.exit_code == 1 and "E10004" in result.stderr and not om.exists()
