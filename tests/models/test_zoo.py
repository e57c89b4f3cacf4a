"""The zoo: every file is valid, runs, gives numbers worth comparing, and says the same by both exporters."""

# onnx leaves the types of its loader and checker open.
# pyright: reportUnknownMemberType=false

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from bench import light, torch_models, zoo
from tests.models.catalogue import find
from tests.models.oracle import Array, assert_close, ort_outputs, relative_error

EVERY_MODEL = pytest.mark.parametrize("name", zoo.NAMES)
WITH_BOTH_EXPORTERS = [
    name for name in torch_models.RECIPES if "_ts" in name and name.replace("_ts", "_dynamo") in zoo.NAMES
]
EVERY_BUILT_MODEL = pytest.mark.parametrize("name", zoo.BUILT)

LARGEST_BYTES = 120_000_000

EXPORTERS_RTOL = 1e-4
"""Folding a BatchNormalization into its Conv rounds differently: 1.5e-5 measured on ResNet-50, the most."""


WITHOUT_NORMS = {"filled_inception_v1", "filled_squeezenet"}


def run(name: str, seed: int = 1) -> dict[str, Array]:
    file = find(name)
    return ort_outputs(file, zoo.inputs(file, seed))


@EVERY_MODEL
def test_files_are_valid_and_small_enough(name: str) -> None:
    file = find(name)
    assert file.stat().st_size < LARGEST_BYTES
    onnx.checker.check_model(str(file), full_check=True)


@EVERY_MODEL
def test_files_hold_their_own_weights(name: str) -> None:
    graph = onnx.load(find(name), load_external_data=False).graph
    assert not any(weight.external_data for weight in graph.initializer)


@pytest.mark.parametrize("name", light.PATHS)
def test_light_models_run(name: str) -> None:
    # Their weights are all alike, so is every class: only shapes and finite numbers can be asked for.
    for output in run(name).values():
        assert output.shape[:2] == (1, 1000)
        assert np.isfinite(output).all()


@EVERY_BUILT_MODEL
def test_outputs_are_finite_vary_and_follow_the_input(name: str) -> None:
    first, second = run(name, seed=1), run(name, seed=2)
    for output, other in zip(first.values(), second.values(), strict=True):
        assert np.isfinite(output).all()
        assert output.std() > 0.01 * np.abs(output).max()
        # Many random layers without a norm make nearly the same of every image.
        assert relative_error(other, output) > (1e-3 if name in WITHOUT_NORMS else 0.05)


@EVERY_BUILT_MODEL
def test_no_weight_is_trivial(name: str) -> None:
    trivial = [
        weight.name
        for weight in onnx.load(find(name)).graph.initializer
        if weight.data_type == onnx.TensorProto.FLOAT
        and np.prod(weight.dims, dtype=np.int64) >= 16
        and numpy_helper.to_array(weight).std() == 0
    ]
    assert trivial == []


@pytest.mark.parametrize("name", ["resnet50_ts", "vit_small_ts", "gpt2_mini_dynamo", "filled_shufflenet"])
def test_a_lost_norm_parameter_or_bias_shows(name: str) -> None:
    model = onnx.load(find(name))
    feeds = zoo.inputs(find(name), 1)
    want = ort_outputs(find(name), feeds)
    vectors = [weight for weight in model.graph.initializer if len(weight.dims) == 1 and weight.dims[0] > 16]
    for weight in (vectors[0], vectors[len(vectors) // 2], vectors[-1]):
        kept = weight.SerializeToString()
        numbers = numpy_helper.to_array(weight)
        neutral = np.ones_like(numbers) if numbers.min() > 0.3 else np.zeros_like(numbers)
        weight.CopyFrom(numpy_helper.from_array(neutral, weight.name))
        got = ort_outputs(model.SerializeToString(), feeds)
        assert max(relative_error(got[key], want[key]) for key in want) > 10 * EXPORTERS_RTOL, weight.name
        weight.ParseFromString(kept)


@pytest.mark.parametrize("name", WITH_BOTH_EXPORTERS)
def test_both_exporters_say_the_same(name: str) -> None:
    assert_close(run(name.replace("_ts", "_dynamo")), run(name), rtol=EXPORTERS_RTOL)


def test_a_symbolic_length_gives_what_the_static_model_gives() -> None:
    static, dynamic = find("bert_mini_ts"), find("bert_mini_ts_seq")
    feeds = zoo.inputs(static, seed=3)
    assert_close(ort_outputs(dynamic, feeds), ort_outputs(static, feeds), rtol=EXPORTERS_RTOL)


@pytest.mark.parametrize("name", [name for name in torch_models.RECIPES if name.endswith("_dyn")])
def test_a_symbolic_batch_gives_row_by_row_what_the_static_model_gives(name: str) -> None:
    static, dynamic = find(name.removesuffix("_dyn")), find(name)
    feeds = zoo.inputs(dynamic, seed=3, dims={"batch": 3})
    assert {array.shape[0] for array in feeds.values()} == {3}
    batch = ort_outputs(dynamic, feeds)
    for row in range(3):
        one = ort_outputs(static, {key: array[row : row + 1] for key, array in feeds.items()})
        assert_close({key: array[row : row + 1] for key, array in batch.items()}, one, rtol=1e-5)


def test_batch_norms_survive_in_torchscript_files() -> None:
    for name in ("resnet50_ts", "mobilenetv2_ts", "efficientnet_b0_ts"):
        operators = [node.op_type for node in onnx.load(find(name)).graph.node]
        assert operators.count("BatchNormalization") >= 49


def test_layer_norms_are_decomposed_below_opset_17() -> None:
    for name in ("vit_small_ts", "bert_mini_ts"):
        operators = {node.op_type for node in onnx.load(find(name)).graph.node}
        assert "LayerNormalization" not in operators
        assert {"ReduceMean", "Pow", "Sqrt", "Erf"} <= operators


def test_inputs_depend_on_nothing_but_the_seed_and_stay_in_the_vocabulary() -> None:
    file = find("bert_mini_ts")
    first, again, other = zoo.inputs(file, 1), zoo.inputs(file, 1), zoo.inputs(file, 2)
    assert all(np.array_equal(first[key], again[key]) for key in first)
    assert not np.array_equal(first["input_ids"], other["input_ids"])
    drawn = np.concatenate([zoo.inputs(file, seed)["input_ids"].ravel() for seed in range(50)])
    assert torch_models.VOCABULARY // 2 < drawn.max() < torch_models.VOCABULARY
    assert (first["attention_mask"] == 1).all()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(KeyError, match="resnet51"):
        zoo.path("resnet51")


def test_a_torn_or_outdated_file_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "bert_mini_dynamo"
    source = find(name)
    monkeypatch.setenv("GERULES_MODELS", str(tmp_path))
    assert zoo.entry(name) is None
    model, note = tmp_path / source.name, tmp_path / f"{name}.json"
    model.write_bytes(source.read_bytes())
    assert zoo.entry(name) is None
    note.write_bytes(source.with_suffix(".json").read_bytes())
    known = zoo.entry(name)
    assert known is not None
    assert known.n_nodes == len(onnx.load(model).graph.node)
    assert zoo.path(name) == model
    with monkeypatch.context() as patch:
        patch.setattr(zoo, "RECIPE_VERSION", zoo.RECIPE_VERSION + 1)
        assert zoo.entry(name) is None
    model.write_bytes(source.read_bytes()[:-1])
    assert zoo.entry(name) is None
    model.write_bytes(source.read_bytes())
    note.write_text("{", encoding="utf-8")
    assert zoo.entry(name) is None


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GERULES_MODELS", str(tmp_path))
    installed = torch_models.find_spec("onnx")

    def find_all_but_timm(name: str) -> object:
        return None if name == "timm" else installed

    monkeypatch.setattr(torch_models, "find_spec", find_all_but_timm)
    with pytest.raises(zoo.ModelsExtraMissing, match=r"needs timm.*\[models\]"):
        zoo.path("resnet50_ts")
    assert zoo.main(["resnet50_ts"]) == 1
    assert list(tmp_path.iterdir()) == []


def test_listing_builds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GERULES_MODELS", str(tmp_path))
    assert zoo.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(zoo.NAMES)
    assert sum(line.endswith("not built") for line in lines) == len(zoo.BUILT)
    assert list(tmp_path.iterdir()) == []
