"""TorchAir's face: every field of its configuration, and its functions."""

# torch leaves most types open.
# pyright: basic

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gerules import dynamo
from gerules.compat import torchair
from gerules.compat.torchair.fields import FIELDS, Field
from gerules.compat.torchair.inference import set_dim_gears
from gerules.dynamo.gears import check_gears
from gerules.errors import GerulesError
from tests.models.torch_nets import NETS, torch


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    torch._dynamo.reset()
    dynamo.clear_reports()
    monkeypatch.chdir(tmp_path)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", dynamo.EagerWarning)
        yield


def run(config: torchair.CompilerConfig, net: str = "mlp") -> dynamo.GraphReport:
    """Compile a net as the configuration says, and hold its result against eager torch."""
    module, x = NETS[net]()
    compiled = torch.compile(module, backend=torchair.get_npu_backend(compiler_config=config))
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-5)
    return dynamo.reports()[-1]


def config_with(**fields: object) -> torchair.CompilerConfig:
    config = torchair.CompilerConfig()
    for path, value in fields.items():
        *sections, name = path.split("__")
        place = config
        for section in sections:
            place = getattr(place, section)
        setattr(place, name, value)
    return config


# ---------------------------------------------------------------- fields
def set_field(config: torchair.CompilerConfig, path: str, value: object) -> None:
    *sections, name = path.split(".")
    place = config
    for section in sections:
        place = getattr(place, section)
    setattr(place, name, value)


def others_of(field: Field, tmp_path: Path) -> list[object]:
    """Values that are of a field's kind and not its default."""
    if isinstance(field.allowed, tuple):
        return [value for value in field.allowed if value != field.default]
    file = tmp_path / "switch.cfg"
    file.write_text('{"Switch": {"GraphFusion": {"ALL": "on"}}}')
    (tmp_path / "folder").mkdir(exist_ok=True)
    folder = str(tmp_path / "folder")
    made = {"number": 7, "decimal": 0.5, "text": "x:on", "path": str(file), "folder": folder,
            "function": print, "names": ["a"], "steps": "0|2-5"}  # fmt: skip
    return [made[field.allowed]]


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.path)
def test_a_field_does_something_or_says_why_not(field: Field, tmp_path: Path) -> None:
    assert bool(field.effect) != bool(field.refused)
    config = torchair.CompilerConfig()
    set_field(config, field.path, field.default)
    for value in others_of(field, tmp_path):
        if field.refused:
            with pytest.raises(ValueError, match="E10112") as caught:
                set_field(config, field.path, value)
            assert field.refused in str(caught.value) and field.path in str(caught.value)
        else:
            set_field(config, field.path, value)
            assert config.changed() == {field.path: value}
    for wrong in (object(), {"a": 1}):
        with pytest.raises(ValueError, match="E10111"):
            set_field(config, field.path, wrong)


def test_unknown_fields_name_their_neighbours() -> None:
    with pytest.raises(ValueError, match="did you mean oo_level") as caught:
        config_with(ge_config__oo_levl="O1")
    assert "enable_single_stream" in str(caught.value)
    with pytest.raises(ValueError, match="E10110"):
        torchair.CompilerConfig().debug.graph_dmp  # noqa: B018
    with pytest.raises(ValueError, match="'O1', 'O3'"):
        config_with(ge_config__oo_level="O2")


def test_fields_that_contradict_are_told_when_the_backend_is_made() -> None:
    config = config_with(amp__enable=True, gerules__precision="fp16")
    with pytest.raises(ValueError, match=r"amp.enable and gerules.precision"):
        torchair.get_npu_backend(compiler_config=config)


def test_fields_come_to_options() -> None:
    config = config_with(
        ge_config__enable_single_stream=True,
        ge_config__oo_constant_folding=False,
        ge_config__optimization_switch="conv_bn:on; layer_norm:off",
        amp__enable=True,
        amp__keep_dtype=["head"],
        memory__limit_bytes=1 << 20,
        precision_check__enable=True,
        precision_check__rtol=0.01,
        gerules__cache_size=3,
    )
    options = config.as_backend_options()
    assert (options.compile.n_streams, options.compile.folds) == (1, False)
    assert (options.compile.enable, options.compile.disable) == (("conv_bn",), ("layer_norm",))
    assert (options.compile.precision, options.compile.keep_dtype) == ("mixed_float16", ("head",))
    assert options.compile.memory_limit_bytes == 1 << 20
    assert (options.verify_rtol, options.cache_size, options.freeze) == (0.01, 3, False)


# ---------------------------------------------------------------- what fields do
def test_level_o1_and_switches_leave_operators_unfused() -> None:
    fused = run(config_with(experimental_config__frozen_parameter=True), "conv")
    plain = run(config_with(experimental_config__frozen_parameter=True, ge_config__oo_level="O1"), "conv")
    (one,), (two,) = fused.models.values(), plain.models.values()
    assert one.summary().n_fusions > 0
    assert two.summary().n_nodes > one.summary().n_nodes
    assert not any(node.op.startswith("ge::") for node in two.graph.nodes.values())


def test_frozen_parameters_are_no_inputs() -> None:
    (one,) = run(config_with()).models.values()
    (two,) = run(config_with(experimental_config__frozen_parameter=True)).models.values()
    assert len(one.source.inputs) == 7 and len(two.source.inputs) == 1


@pytest.mark.parametrize("form", ["txt", "py", "pbtxt", "png"])
def test_graphs_are_dumped(form: str, tmp_path: Path) -> None:
    run(config_with(debug__graph_dump__type=form))
    files = sorted(tmp_path.glob(f"dynamo_*_graph_*_rank_0_pid_*_ts_*.{form}"))
    assert [path.name.split("_graph")[0] for path in files] == ["dynamo_optimized", "dynamo_original"]
    for path in files:
        if form == "png":
            with Image.open(path) as picture:
                assert picture.size[0] > 100 and len(picture.getcolors(1 << 20) or []) > 3
        else:
            assert "gelu" in path.read_text().lower()


def test_operators_are_summarized(tmp_path: Path) -> None:
    report = run(config_with(debug__fx_summary__type="csv"))
    (file,) = tmp_path.glob("fx_summary_*.csv")
    rows = list(csv.DictReader(file.open()))
    assert {"aten.gelu.default", "aten.addmm.default"} <= {row["target"] for row in rows}
    assert sum(int(row["call count"]) for row in rows) == report.n_nodes
    assert report.state == "eager"
    assert (
        run(config_with(debug__fx_summary__type="csv", debug__fx_summary__skip_compile=False)).state
        == "compiled"
    )


def test_values_of_torch_are_dumped(tmp_path: Path) -> None:
    run(config_with(debug__data_dump__type="npy", debug__data_dump__filter=lambda node: "gelu" in node.name))
    files = list(tmp_path.glob("worldsize1_global_rank0/graph_*/0/*.npy"))
    assert {path.name.split(".")[-4] for path in files} == {"INPUT", "OUTPUT"}
    (out,) = [np.load(path) for path in files if "OUTPUT" in path.name]
    (given,) = [np.load(path) for path in files if "INPUT" in path.name]
    np.testing.assert_allclose(out, torch.nn.functional.gelu(torch.from_numpy(given)).numpy(), rtol=1e-5)


@pytest.mark.parametrize("stage", ["optimized", "original"])
def test_values_of_chosen_runs_are_dumped(stage: str, tmp_path: Path) -> None:
    config = config_with(
        dump_config__enable_dump=True,
        dump_config__dump_step="1|3-4",
        dump_config__dump_mode="output",
        dump_config__dump_data="stats",
        dump_config__data_dump_stage=stage,
    )
    module, x = NETS["mlp"]()
    compiled = torch.compile(module, backend=torchair.get_npu_backend(compiler_config=config))
    for _ in range(4):
        compiled(x)
    steps = {path.name for path in tmp_path.glob("worldsize1_global_rank0/graph_*/*")}
    files = list(tmp_path.glob("worldsize1_global_rank0/graph_*/*/*"))
    assert steps == {"1", "3"}
    assert files and all(".OUTPUT." in path.name and " mean " in path.read_text() for path in files)


def test_what_rules_did_is_written_after_a_compile(tmp_path: Path) -> None:
    run(config_with())
    assert not (tmp_path / "fusion_result.json").exists()
    run(config_with(ge_config__export_compile_stat="2"))
    (session,) = json.loads((tmp_path / "fusion_result.json").read_text())
    assert any("graph_fusion" in part for part in session.values())


def test_a_device_is_compiled_for_as_well() -> None:
    report = run(config_with(gerules__device="ascend910b", gerules__precision="fp16"))
    (model,) = report.device_models.values()
    assert (model.summary().device, model.summary().precision) == ("ascend910b", "fp16")


def test_passes_run_in_their_order() -> None:
    seen: list[str] = []
    config = config_with(
        post_grad_custom_pre_pass=lambda gm: seen.append("before"),
        post_grad_custom_post_pass=lambda gm: seen.append("after"),
    )
    run(config)
    assert seen == ["before", "after"]
    assert run(config_with(debug__run_eagerly=True)).state == "eager"


# ---------------------------------------------------------------- functions
def test_patterns_can_be_switched_off() -> None:
    torchair.register_replacement(
        lambda x: torch.sigmoid(torch.neg(x)), lambda x: 1 - torch.sigmoid(x), [torch.randn(2, 2)]
    )

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(torch.neg(x)) * 2

    for is_on, operators in ((True, {"sigmoid", "rsub", "mul"}), (False, {"neg", "sigmoid", "mul"})):
        torch._dynamo.reset()
        seen: set[str] = set()
        config = config_with(experimental_config__pattern_fusion_pass=is_on)
        config.post_grad_custom_post_pass = lambda gm, seen=seen: seen.update(
            str(node.target).split(".")[1] for node in gm.graph.nodes if node.op == "call_function"
        )
        x = torch.randn(3, 3)
        compiled = torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config))
        torch.testing.assert_close(compiled(x), function(x))
        assert seen == operators


def test_gears_are_checked() -> None:
    x = torch.randn(4, 6)
    for gears in ({0: [4]}, {0: [1, 4]}, {0: [4, 4]}, {2: [4, 5]}, {0: range(2, 50), 1: [2, 3, 4]}):
        with pytest.raises(ValueError, match="E10115"):
            set_dim_gears(x, gears)
    set_dim_gears(x, {0: [2, 4]})
    set_dim_gears(x, {0: [2, 4]})
    with pytest.raises(ValueError, match="already"):
        set_dim_gears(x, {0: [2, 8]})


@pytest.mark.parametrize(
    ("is_zipped", "allowed"), [(True, {(2, 4), (8, 6)}), (False, {(2, 4), (2, 6), (8, 4), (8, 6)})]
)
def test_gears_of_two_dimensions(is_zipped: bool, allowed: set[tuple[int, int]]) -> None:
    gears = {0: {0: (2, 8), 1: (4, 6)}}
    for shape in [(2, 4), (2, 6), (8, 4), (8, 6), (3, 4)]:
        if shape in allowed:
            check_gears(gears, [torch.zeros(shape)], is_zipped=is_zipped)
        else:
            with pytest.raises(GerulesError, match="E10094"):
                check_gears(gears, [torch.zeros(shape)], is_zipped=is_zipped)


def test_what_belongs_to_a_device_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="custom_decompositions"):
        torchair.get_npu_backend(custom_decompositions={1: 2})
    with pytest.raises(ValueError, match="global_rank"):
        torchair.inference.cache_compile(lambda x: x, global_rank=1)
    with pytest.raises(ValueError, match="ge_cache"):
        torchair.inference.cache_compile(lambda x: x, ge_cache=True)
    with pytest.raises(ValueError, match="E10114"):
        torchair.ge.custom_op("Relu", 1)


def test_links_are_not_followed_when_exporting(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    module, x = NETS["mlp"]()
    with pytest.raises(ValueError, match="symbolic link"):
        torchair.dynamo_export(x, model=module, export_path=str(tmp_path / "link"))
