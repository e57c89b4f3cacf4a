"""Known networks through torch.compile(backend="gerules"): compiled as a whole, each equals eager torch."""

# torch leaves most types open.
# pyright: basic

from __future__ import annotations

import warnings

import pytest

from gerules import dynamo
from tests.models.torch_catalogue import CATALOGUE
from tests.models.torch_nets import torch

dynamo.register()

RTOL = 1e-4


def tensors_of(outputs: object) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(outputs)
    return [item for item in leaves if isinstance(item, torch.Tensor)]


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got.double() - want.double()).abs().max() / want.double().abs().max().clamp_min(1e-30))


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_network_equals_eager(name: str) -> None:
    torch._dynamo.reset()
    dynamo.clear_reports()
    torch.manual_seed(11)
    net, inputs = CATALOGUE[name]()
    net = net.eval()
    # Statistics of a fresh BatchNorm change nothing: give it some that do.
    for part in net.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.uniform_(-0.1, 0.1)
            part.running_var.uniform_(0.5, 1.5)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", dynamo.EagerWarning)
        want = tensors_of(net(**inputs))
        got = tensors_of(torch.compile(net, backend="gerules")(**inputs))
    assert [(item.shape, item.dtype) for item in got] == [(item.shape, item.dtype) for item in want]
    assert max(relative_error(*pair) for pair in zip(got, want, strict=True)) <= RTOL
    assert {report.state for report in dynamo.reports()} == {"compiled"}


def test_there_are_twenty() -> None:
    assert len(CATALOGUE) >= 20
