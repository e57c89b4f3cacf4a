"""What torch's exporters would change without a word: training, state, types and names of results."""

# torch leaves most types open.
# pyright: basic

from __future__ import annotations

import copy
import logging
import threading
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import gerules
from gerules import dynamo
from gerules.errors import GerulesError
from tests.models.torch_nets import torch

dynamo.register()
X = torch.randn(4, 8)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.no_grad():
        yield


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x + self.n


class Dropping(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5, training=True)


class OfTheBatch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.batch_norm(x, None, None, training=True)


class Many(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, object]:
        y = torch.relu(x)
        return {"x": y, "again": y, "relu": x, "total": x.sum(), "deep": [x.cumsum(0)]}


def error_of(call: Callable[[], object]) -> GerulesError:
    with pytest.raises(GerulesError) as caught:
        call()
    return caught.value


# ---------------------------------------------------------------- training
@pytest.mark.parametrize(
    ("make", "operator"),
    [
        (lambda: torch.export.export(torch.nn.BatchNorm1d(8).train(), (X,)), "batch_norm"),
        (lambda: torch.jit.trace(torch.nn.BatchNorm1d(8).train(), X), "batch_norm"),
        (Dropping, "dropout"),
        (lambda: torch.jit.trace(Dropping(), X, check_trace=False), "dropout"),
    ],
    ids=["program", "traced", "function", "traced function"],
)
def test_an_operator_in_training_mode_is_refused(make: Callable, operator: str) -> None:
    model = make()
    is_program = isinstance(model, torch.export.ExportedProgram)
    for use in (gerules.load, gerules.rewrite, gerules.compile) if is_program else (gerules.load,):
        options = {} if is_program else {"example_inputs": X}
        error = error_of(lambda use=use, options=options: use(model, **options))
        assert error.code == "E10086"
        assert operator in str(error) and ".eval()" in str(error)


@pytest.mark.parametrize("wrap", [lambda net: net, torch.jit.script], ids=["module", "script"])
def test_what_trains_nothing_is_taken(wrap: Callable) -> None:
    (got,) = gerules.compile(wrap(OfTheBatch()), example_inputs=X).run({"x": X.numpy()}).values()
    np.testing.assert_allclose(got, OfTheBatch()(X).numpy(), rtol=1e-5, atol=1e-6)
    gerules.load(wrap(torch.nn.BatchNorm1d(8)), example_inputs=X)


def test_torch_runs_what_trains_under_torch_compile() -> None:
    net = torch.nn.BatchNorm1d(8).train()
    other = copy.deepcopy(net)
    fast = torch.compile(net, backend="gerules")
    with pytest.warns(dynamo.EagerWarning, match="E10091.*batch_norm.*training mode"):
        got = fast(X)
    torch.testing.assert_close(got, other(X))
    torch.testing.assert_close(net.running_var, other.running_var)


# ---------------------------------------------------------------- state
@pytest.mark.parametrize(
    "wrap",
    [
        lambda net: net,
        torch.jit.script,
        lambda net: torch.jit.trace(net, X, check_trace=False),
    ],
    ids=["module", "script", "traced"],
)
def test_a_buffer_that_changes_is_refused(wrap: Callable) -> None:
    error = error_of(lambda: gerules.compile(wrap(Counting()), example_inputs=X))
    assert error.code == "E10087"
    assert " n " in str(error)


def test_torch_compile_keeps_what_changes() -> None:
    net, other = Counting(), Counting()
    fast = torch.compile(net, backend="gerules", options={"fallback": "error"})
    for _ in range(3):
        torch.testing.assert_close(fast(X), other(X))


# ---------------------------------------------------------------- results
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_results_have_the_names_and_types_of_torch(dtype: torch.dtype) -> None:
    given = X.to(dtype)
    graph = gerules.load(Many(), example_inputs=given)
    assert [graph.values[item].name for item in graph.outputs] == [
        "x_out", "again", "relu", "total", "deep_0",
    ]  # fmt: skip
    assert len({str(graph.type_of(item)).partition("[")[0] for item in (*graph.inputs, *graph.outputs)}) == 1
    feed = given.view(torch.int16).numpy().view("bfloat16") if dtype == torch.bfloat16 else given.numpy()
    got = gerules.compile(graph).run({"x": feed})
    want = Many()(given)
    for have, item in zip(got.values(), [*list(want.values())[:4], want["deep"][0]], strict=True):
        rtol = 1e-5 if dtype == torch.float32 else 2e-2
        np.testing.assert_allclose(np.float32(have), item.float().numpy(), rtol=rtol, atol=rtol)


def test_sums_of_narrow_types_are_compiled_for_torch() -> None:
    def sums(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.half().sum(), x.bfloat16().cumsum(0)

    fast = torch.compile(sums, backend="gerules", options={"fallback": "error"})
    for got, want in zip(fast(X), sums(X), strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)


# ---------------------------------------------------------------- the process
def test_threads_compile_at_the_same_time() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
            (got,) = gerules.compile(net, example_inputs=X).run({"input": X.numpy()}).values()
            np.testing.assert_allclose(got, net(X).detach().numpy(), rtol=1e-4, atol=1e-5)
        except BaseException as error:  # told by the test
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)
    assert not torch.compiler.is_exporting()


class Asserting(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.shape[0] == 2, "two please"
        return x


def test_a_module_that_raises_is_told_with_its_line_and_blocks_nobody(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    error = error_of(lambda: gerules.load(Asserting(), example_inputs=X))
    assert error.code == "E10080"
    assert "AssertionError: two please" in str(error)
    assert "test_torch_faithful.py" in str(error)
    assert not torch.compiler.is_exporting()
    wrong = torch.jit.script(torch.nn.Linear(4, 4))
    with caplog.at_level(logging.ERROR), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "cannot be multiplied (4x8 and 4x4)" in str(
            error_of(lambda: gerules.load(wrong, example_inputs=X))
        )
        assert error_of(lambda: gerules.load(torch.nn.Linear(4, 4), example_inputs=X)).code == "E10080"
    assert capsys.readouterr().err == ""
    thread = threading.Thread(target=lambda: gerules.load(torch.nn.ReLU(), example_inputs=X))
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
