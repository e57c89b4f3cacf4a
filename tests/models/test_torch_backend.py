"""The backend of torch.compile at its edges: breaks, shapes, mutation, structures, types, faults, options."""

# torch leaves most types open.
# pyright: basic

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from gerules import dynamo
from gerules.dynamo import OPTION_NAMES, EagerWarning, reports
from gerules.dynamo.options import read_options
from gerules.errors import GerulesError
from tests.models.torch_nets import NETS, torch

dynamo.register()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    dynamo.clear_reports()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", EagerWarning)
        yield


def compiled(function: object, **options: object) -> object:
    dynamic = options.pop("dynamic", None)
    return torch.compile(function, backend="gerules", dynamic=dynamic, options=options or None)


def assert_same(got: object, want: object, rtol: float = 1e-4) -> None:
    torch.testing.assert_close(got, want, rtol=rtol, atol=1e-5)


def states() -> list[str]:
    return [report.state for report in reports()]


def test_the_name_is_an_entry_point() -> None:
    config = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, name = config["project"]["entry-points"]["torch_dynamo_backends"]["gerules"].partition(":")
    assert getattr(import_module(module), name) is dynamo.start


# ---------------------------------------------------------------- graphs
def test_each_side_of_a_graph_break_is_compiled() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) + 1
        torch._dynamo.graph_break()
        return y.sum(dim=-1) * 2

    x = torch.randn(3, 4)
    assert_same(compiled(function)(x), function(x))
    assert states() == ["compiled", "compiled"]


def test_values_decide_between_graphs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x - 1

    fast = compiled(function)
    for x in (torch.ones(3), -torch.ones(3)):
        assert_same(fast(x), function(x))
    assert set(states()) == {"compiled"} and len(states()) == 3


def test_outputs_keep_their_structure() -> None:
    def function(x: torch.Tensor, scale: int) -> dict[str, object]:
        y = x * scale
        return {"pair": (y, y + 1), "same": [y, x], "number": scale + 1, "none": None}

    x = torch.randn(2, 3)
    got, want = compiled(function)(x, 3), function(x, 3)
    assert got.keys() == want.keys() and got["number"] == 4 and got["none"] is None
    assert got["same"][1] is x and got["same"][0] is got["pair"][0]
    assert_same(got["pair"], want["pair"])


def test_a_function_without_inputs() -> None:
    def function() -> torch.Tensor:
        rows = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        return rows @ torch.ones(3, 2) + torch.tensor([1.0, 2.0])

    assert_same(compiled(function)(), function())
    assert states() == ["compiled"]


def test_whole_numbers_and_truth_values_come_out() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.argmax(dim=-1), x > 0, (x * 10).to(torch.int32), x.to(torch.int64).sum()

    x = torch.randn(4, 5)
    for got, want in zip(compiled(function)(x), function(x), strict=True):
        assert got.dtype == want.dtype
        assert torch.equal(got, want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
@pytest.mark.parametrize("net", ["mlp", "attention"])
def test_narrow_types(net: str, dtype: torch.dtype) -> None:
    module, x = NETS[net]()
    module, x = module.to(dtype), x.to(dtype)
    got = compiled(module)(x)
    assert got.dtype == dtype and states() == ["compiled"]
    want = module.float()(x.float())
    rtol = 2e-2 if dtype == torch.bfloat16 else 2e-3
    assert (got.float() - want).abs().max() <= rtol * want.abs().max()


def test_attention_of_torch_with_its_masks() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        attention = torch.nn.functional.scaled_dot_product_attention
        blocked = torch.zeros(4, 6, dtype=torch.bool)
        blocked[1:, 2:] = True  # the first row sees nothing
        return (
            attention(q, k, k),
            attention(q, k, k, is_causal=True),
            attention(q, k, k, attn_mask=mask, scale=0.3),
            attention(q, k, k, attn_mask=blocked),
        )

    q, k, mask = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 6, 8), torch.randn(4, 6)
    for got, want in zip(compiled(function)(q, k, mask), function(q, k, mask), strict=True):
        assert_same(got, want)
    assert states() == ["compiled"]


def test_results_lie_in_memory_as_torch_assumes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x).transpose(0, 1)

    x = torch.randn(3, 4)
    assert compiled(function)(x).stride() == function(x).stride() == (1, 4)


# ---------------------------------------------------------------- shapes
def test_open_sizes_are_compiled_shape_by_shape_within_a_bound() -> None:
    module, _ = NETS["mlp"]()
    fast = compiled(module, dynamic=True, cache_size=2)
    for n in (2, 3, 5, 2, 3):
        x = torch.randn(n, 4, 16)
        assert_same(fast(x), module(x))
    (report,) = reports()
    assert report.n_runs == 5 and report.n_compiles == 5 and len(report.models) == 2
    assert_same(fast(x), module(x))
    assert report.n_compiles == 5


def test_sizes_come_out_as_numbers() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x.reshape(x.shape[0] * 2, -1) + x.shape[0], x.shape[0] * 3

    fast = compiled(function, dynamic=True)
    for n in (2, 4):
        x = torch.randn(n, 6)
        got, want = fast(x), function(x)
        assert_same(got[0], want[0])
        assert got[1] == want[1]


def test_an_empty_tensor() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], dim=0) * 2

    x, y = torch.zeros(0, 3), torch.randn(2, 3)
    assert_same(compiled(function)(x, y), function(x, y))


# ---------------------------------------------------------------- mutation
def test_arguments_are_mutated_as_in_torch() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        view = y[0]
        view.mul_(3)
        return x + y

    one, two = [torch.randn(3, 3), torch.randn(3, 3)], []
    two = [item.clone() for item in one]
    got, want = compiled(function)(*one), function(*two)
    assert_same(got, want)
    assert_same(one, two)
    assert states() == ["compiled"]


def test_buffers_that_the_graph_changes_stay_inputs() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return x * self.count

    module = Counter()
    fast = compiled(module)
    for step in range(1, 6):
        assert_same(fast(torch.ones(2)), torch.full((2,), float(step)))
    (report,) = reports()
    assert report.n_compiles <= 3


def test_changed_parameters_are_compiled_anew() -> None:
    module, x = NETS["conv"]()
    fast = compiled(module)
    assert_same(fast(x), module(x))
    module.conv.weight.mul_(2)
    assert_same(fast(x), module(x))
    module.head.weight = torch.nn.Parameter(torch.zeros_like(module.head.weight), requires_grad=False)
    assert_same(fast(x), module(x))
    state = {name: item.clone() for name, item in NETS["conv"]()[0].state_dict().items()}
    module.load_state_dict(state)
    assert_same(fast(x), NETS["conv"]()[0](x))


def test_parameters_can_stay_inputs() -> None:
    module, x = NETS["conv"]()
    fast = compiled(module, freeze=False)
    assert_same(fast(x), module(x))
    module.conv.weight.mul_(2)
    assert_same(fast(x), module(x))
    (report,) = reports()
    assert report.n_compiles == 1


# ---------------------------------------------------------------- what torch has to run
def test_graphs_that_need_gradients_are_left_to_torch_with_a_word() -> None:
    module, x = NETS["mlp"]()
    module.requires_grad_(True)
    with torch.enable_grad():
        with pytest.warns(EagerWarning, match="E10092"):
            got = compiled(module)(x)
        got.sum().backward()
    assert module.up.weight.grad is not None
    assert states() == ["eager"]


def test_an_operator_that_cannot_be_compiled_is_named_and_run_by_torch() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.qr(x)[0].abs()

    x = torch.randn(3, 3)
    fast = compiled(function)
    with pytest.warns(EagerWarning, match=r"E10091(.|\n)*linalg_qr"):
        got = fast(x)
    assert_same(got, function(x))
    assert_same(fast(x), function(x))  # and not a word more
    (report,) = reports()
    assert report.state == "eager" and "linalg_qr" in report.reason
    torch._dynamo.reset()
    with pytest.raises(GerulesError, match="linalg_qr") as caught:
        compiled(function, fallback="error")(x)
    assert caught.value.code == "E10080"


def test_random_numbers_are_those_of_torch() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(3)

    fast = compiled(function)
    with pytest.warns(EagerWarning, match="random"):
        torch.manual_seed(3)
        got = fast(torch.zeros(3))
    torch.manual_seed(3)
    assert torch.equal(got, torch.rand(3))


UNFIT = {
    "complex argument": (lambda x: x.abs(), torch.randn(3, dtype=torch.complex64), "argument 0 is complex"),
    "complex result": (lambda x: torch.view_as_complex(x), torch.randn(3, 2), "result 0 is complex"),
    "another device": (lambda x: x * 2, torch.empty(3, device="meta"), "lies on meta"),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_what_has_no_place_here_is_run_by_torch(kind: str) -> None:
    function, x, reason = UNFIT[kind]
    with pytest.warns(EagerWarning, match=reason):
        got = compiled(function)(x)
    want = function(x)
    assert got.dtype == want.dtype and got.device == want.device
    assert kind == "another device" or torch.equal(got, want)


# ---------------------------------------------------------------- options
def test_a_device_is_compiled_for_and_told_of() -> None:
    module, x = NETS["conv"]()
    fast = compiled(module, device="ascend910b", precision="fp16")
    assert_same(fast(x), module(x))
    (report,) = reports()
    (model,) = report.device_models.values()
    assert model.summary().device == "ascend910b" and model.summary().precision == "fp16"
    assert "for ascend910b, fp16" in str(report)
    assert model.om is not None


def test_the_first_run_can_be_compared_with_torch() -> None:
    module, x = NETS["mlp"]()
    assert_same(compiled(module, verify_rtol=1e-4)(x), module(x))
    torch._dynamo.reset()
    with pytest.raises(GerulesError) as caught:
        compiled(module, verify_rtol=1e-12, precision="fp16", fallback="error")(x)
    assert caught.value.code == "E10093"


def test_wrong_options_are_told_all_at_once() -> None:
    with pytest.raises(GerulesError) as caught:
        read_options({"divice": "host", "cache_size": 0, "fallback": "no", "input_shapes": {}, "freeze": 1})
    text = str(caught.value)
    assert "did you mean device?" in text and "shapes come from torch" in text
    assert sorted(item.code.code for item in caught.value.diagnostics) == ["E10003"] * 3 + ["E10090"] * 2
    assert all(name in text for name in OPTION_NAMES)
    with pytest.raises(Exception, match="did you mean device"):
        compiled(lambda x: x + 1, divice="host")(torch.ones(2))
    with pytest.raises(GerulesError, match="E10090"):
        read_options(None, "max-autotune")


def test_an_unknown_device_is_told_as_everywhere() -> None:
    with pytest.raises(GerulesError, match="E50010"):
        compiled(lambda x: x + 1, device="ascend999")(torch.ones(2))
