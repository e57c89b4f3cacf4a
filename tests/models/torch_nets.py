"""Small nets of torch with random weights, each with an input: what tests of torch's models start from."""

# torch leaves most types open.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.torch_models import ModelsExtraMissing, prepare_torch

try:
    prepare_torch()
except ModelsExtraMissing as missing:
    import os

    if os.environ.get("GERULES_REQUIRE_MODELS"):
        raise
    pytest.skip(str(missing), allow_module_level=True)

import torch


class ConvNet(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x)))
        x = torch.nn.functional.max_pool2d(x, 2)
        return self.head(x.mean(dim=[2, 3]))


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.up = torch.nn.Linear(16, 32)
        self.down = torch.nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class AttentionBlock(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(16, 48)
        self.out = torch.nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, s, c = x.shape
        q, k, v = self.qkv(x).reshape(n, s, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) * 0.35, dim=-1)
        return self.out(torch.matmul(weights, v).transpose(1, 2).reshape(n, s, c))


Make = Callable[[], tuple[torch.nn.Module, torch.Tensor]]


def _seeded(make: Callable[[], torch.nn.Module], *shape: int) -> Make:
    def build() -> tuple[torch.nn.Module, torch.Tensor]:
        torch.manual_seed(7)
        net = make()
        for part in net.modules():
            if isinstance(part, torch.nn.BatchNorm2d):
                part.running_mean.uniform_(-0.5, 0.5)
                part.running_var.uniform_(0.5, 1.5)
        for parameter in net.parameters():
            parameter.requires_grad_(False)
        return net.eval(), torch.randn(*shape)

    return build


NETS: dict[str, Make] = {
    "conv": _seeded(ConvNet, 2, 3, 8, 8),
    "mlp": _seeded(Mlp, 2, 4, 16),
    "attention": _seeded(AttentionBlock, 2, 5, 16),
}
