"""Make the models of `exports.zip` with MindSpore, each with inputs and the outputs that MindSpore computes.

    pip install mindspore==2.10.0 'numpy<2'
    python export_models.py exports.zip

No test runs this; whoever adds a model runs it where MindSpore is installed. MindSpore compiles the source
text of these classes, so they are written for it.
"""

# ruff: noqa: SIM108, RUF005 - branches and sums of tuples are what is exported
from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, export, nn, ops

ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
RNG = np.random.default_rng(0)


def random(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


class Branch(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, 4)

    def construct(self, x):
        y = self.dense(x)
        if y.sum() > 0:
            y = y * 2 + x
        else:
            y = ops.relu(y) - x
        return y


class BranchesInBranches(nn.Cell):
    def construct(self, x, n):
        a = x
        b = x + 1
        if n > 2:
            a = x * 3
            b = b - x
            if n > 5:
                a = a + b
        return a, b


class Loop(nn.Cell):
    def construct(self, x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            x = x * 1.5 + 1
            i = i + 1
        return x


class LoopWithBranch(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(3, 3)

    def construct(self, x, n):
        i = Tensor(0, ms.int32)
        t = x
        while i < n:
            if x.sum() > 0:
                t = t - self.dense(x)
            else:
                t = t + 1
            x = x - 0.5
            i = i + 1
        return t * 2, x


class LoopsInLoops(nn.Cell):
    def construct(self, x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            j = Tensor(0, ms.int32)
            while j < i:
                x = x + 0.25 * x
                j = j + 1
            x = x - 1
            i = i + 1
        return x + 1


class LoopThatContinues(nn.Cell):
    def construct(self, x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            i = i + 1
            if x.sum() > 20:
                continue
            x = x * 2
        return x


class LoopThatBreaks(nn.Cell):
    def construct(self, x, n):
        i = Tensor(0, ms.int32)
        while i < n:
            if x.sum() > 20:
                break
            x = x * 2
            i = i + 1
        return x


class Activations(nn.Cell):
    def __init__(self):
        super().__init__()
        self.parts = [
            nn.GELU(),
            nn.GELU(approximate=False),
            nn.SiLU(),
            nn.HSwish(),
            nn.HSigmoid(),
            nn.LeakyReLU(0.1),
            nn.ELU(),
            nn.ReLU6(),
            nn.Sigmoid(),
            nn.Tanh(),
            nn.Softsign(),
            nn.Mish(),
            nn.LogSoftmax(-1),
            nn.Softmax(1),
        ]

    def construct(self, x, y):
        out = ()
        for cell in self.parts:
            out = out + (cell(x),)
        return (
            *out,
            ops.softplus(x),
            ops.clamp(x, -0.5, 0.5),
            ops.prelu(y, Tensor([0.1, 0.2, 0.3], ms.float32)),
            ops.SeLU()(x),
            ops.bias_add(y, Tensor([1.0, 2.0, 3.0], ms.float32)),
        )


class Unary(nn.Cell):
    def construct(self, x):
        p = ops.abs(x) + 0.5
        return (
            ops.exp(x),
            ops.log(p),
            ops.sqrt(p),
            ops.rsqrt(p),
            ops.neg(x),
            ops.floor(x),
            ops.ceil(x),
            ops.round(x),
            ops.erf(x),
            ops.erfc(x),
            ops.sin(x),
            ops.cos(x),
            ops.tan(x),
            ops.atan(x),
            ops.reciprocal(p),
            ops.sign(x),
            ops.square(x),
            ops.pow(p, 2.0),
            ops.logical_not(x > 0),
            ops.log1p(p),
            ops.expm1(x),
            ops.ones_like(x),
            ops.zeros_like(x),
            ops.isnan(x),
            ops.isfinite(x),
        )


class Binary(nn.Cell):
    def construct(self, x, y, i, j):
        return (
            x + y,
            x - y,
            x * y,
            x / y,
            ops.maximum(x, y),
            ops.minimum(x, y),
            x > y,
            x >= y,
            x < y,
            x <= y,
            x == y,
            x != y,
            ops.select(x > y, x, y),
            ops.floor_div(x, y),
            x % y,
            i // j,
            i % j,
            i + j,
            i / j,
            ops.bitwise_and(i, j),
            ops.logical_and(x > 0, y > 0),
            ops.logical_or(x > 0, y > 0),
            ops.cast(x, ms.float16),
            ops.cast(i, ms.float32),
            ops.cast(x, ms.int32),
            ops.SquaredDifference()(x, y),
            x + 2,
            3 - x,
            x / 2,
            2 / x,
            ops.where(x > 0, x, 0.0),
            ops.AddN()([x, x, x]),
        )


class Reductions(nn.Cell):
    def construct(self, x):
        return (
            ops.mean(x, 1, True),
            ops.mean(x, (0, 2)),
            ops.sum(x, 1),
            x.sum(),
            ops.amax(x, 1),
            ops.amin(x, (1, 2), True),
            ops.prod(x, 1),
            ops.argmax(x, 1),
            ops.argmin(x, 1),
            ops.cumsum(x, 1),
            ops.ReduceAll()(x > -10, 1),
            ops.ReduceAny()(x > 1, 1),
            ops.ReduceSum(True)(x, 1),
            ops.ArgMaxWithValue(1)(x),
            ops.ArgMinWithValue(1, True)(x),
            x.mean(),
            x.max(),
            x.min(),
            ops.topk(x, 2),
        )


class Shapes(nn.Cell):
    def construct(self, x, index, mask):
        a, b = ops.split(x, 2, 1)
        return (
            x.reshape(2, -1),
            x.transpose(0, 2, 1),
            ops.concat((a, b, a), 1),
            ops.stack((a, b), 0),
            a,
            b,
            ops.expand_dims(x, 1),
            ops.squeeze(ops.expand_dims(x, 1), 1),
            x[:, 1:3],
            x[:, :, 0],
            x[..., ::2],
            x[0],
            ops.tile(x, (1, 2, 1)),
            ops.broadcast_to(x[0:1], (2, 4, 6)),
            ops.gather(x, index, 1),
            ops.flatten(x),
            ops.gather_nd(x, Tensor([[0, 1], [1, 2]], ms.int32)),
            ops.slice(x, (0, 1, 2), (2, 2, 3)),
            ops.swapaxes(x, 0, 1),
            ops.one_hot(index, 5, Tensor(1.0), Tensor(0.0)),
            ops.chunk(x, 2, 2)[1],
            ops.repeat_elements(x, 2, 1),
            ops.select(x > 0, x, -x),
            ops.Unstack(1)(x),
            ops.ReverseV2([1])(x),
            ops.tril(x),
            ops.triu(x, 1),
            ops.masked_fill(x, mask, 0.5),
            ops.GatherD()(x, 1, Tensor(np.zeros((2, 1, 6)), ms.int64)),
            ops.full_like(x, 3.0),
            x.shape[0] * x,
        )


class Pads(nn.Cell):
    def construct(self, x):
        return (
            ops.pad(x, (1, 2, 0, 1)),
            ops.pad(x, (1, 1, 1, 1), mode="reflect"),
            ops.Pad(((0, 0), (0, 0), (1, 1), (2, 0)))(x),
            ops.pad(x, (1, 1), value=2.5),
        )


class Windows(nn.Cell):
    def __init__(self):
        super().__init__()
        self.parts = nn.CellList(
            [
                nn.Conv2d(4, 6, 3),
                nn.Conv2d(4, 6, 3, stride=2, pad_mode="valid", has_bias=True),
                nn.Conv2d(4, 4, 3, pad_mode="pad", padding=(1, 2, 0, 1), group=4, dilation=2),
                nn.Conv2dTranspose(4, 3, 3, stride=2),
                nn.Conv2dTranspose(4, 3, 4, stride=2, pad_mode="pad", padding=1, has_bias=True),
                nn.MaxPool2d(2, 2),
                nn.MaxPool2d(3, 2, pad_mode="same"),
                nn.AvgPool2d(3, 2, pad_mode="same"),
                nn.AvgPool2d(2, 2),
                nn.AdaptiveAvgPool2d(1),
                nn.AdaptiveAvgPool2d((2, 3)),
                nn.GroupNorm(2, 4),
                nn.BatchNorm2d(4),
                nn.Conv2d(4, 6, (3, 2), stride=(2, 1)),
            ]
        )

    def construct(self, x):
        out = ()
        for cell in self.parts:
            out = out + (cell(x),)
        return out


class WindowsOfOneAxis(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 6, 3, has_bias=True)
        self.pool = nn.MaxPool1d(2, 2)

    def construct(self, x):
        y = self.conv(x)
        return y, self.pool(y)


class WindowsOfThreeAxes(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(2, 3, 3, has_bias=True)
        self.pool = nn.MaxPool3d(2, 2)

    def construct(self, x):
        y = self.conv(x)
        return y, self.pool(y)


class Embedding(nn.Cell):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.norm = nn.LayerNorm((6,))

    def construct(self, ids):
        return self.norm(self.embedding(ids))


class Resizes(nn.Cell):
    def construct(self, x):
        return (
            ops.interpolate(x, size=(8, 10), mode="nearest"),
            ops.interpolate(x, size=(8, 10), mode="bilinear", align_corners=True),
            ops.interpolate(x, size=(8, 10), mode="bilinear"),
        )


class Products(nn.Cell):
    def construct(self, a, b):
        return (
            ops.matmul(a, b),
            ops.BatchMatMul(transpose_b=True)(a, b.transpose(0, 2, 1)),
            ops.bmm(a, b),
            ops.MatMul(transpose_a=True)(a[0].T, b[0]),
        )


class Recurrence(nn.Cell):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, batch_first=True)

    def construct(self, x):
        return self.lstm(x, (ops.zeros((1, 2, 5)), ops.zeros((1, 2, 5))))[0]


class Attention(nn.Cell):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def construct(self, x):
        return self.attention(x, x, x)[0]


class Perceptron(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = nn.Dense(6, 5, activation="relu")
        self.second = nn.Dense(5, 3, has_bias=False)
        self.dropout = nn.Dropout(p=0.5)

    def construct(self, x):
        return self.dropout(self.second(self.first(x)))


class OpenSizes(nn.Cell):
    def construct(self, x):
        s = ops.shape(x)
        return x.reshape(s[0], s[1] * s[2]), ops.broadcast_to(x[:1], (s[0], 4, 3)), ops.softmax(x)


class State(nn.Cell):
    def __init__(self):
        super().__init__()
        self.sum = ms.Parameter(Tensor(np.zeros(3, np.float32)), name="sum")

    def construct(self, x):
        self.sum = self.sum + x
        return self.sum * 2


def number(n):
    return np.array(n, np.int32)


MODELS = {
    "branch": (Branch(), random(2, 4)),
    "branches_in_branches": (BranchesInBranches(), random(2, 3), number(7)),
    "loop": (Loop(), random(2, 3), number(3)),
    "loop_with_branch": (LoopWithBranch(), random(2, 3), number(4)),
    "loops_in_loops": (LoopsInLoops(), random(2, 3), number(4)),
    "loop_that_continues": (LoopThatContinues(), np.abs(random(2, 3)), number(9)),
    "loop_that_breaks": (LoopThatBreaks(), np.abs(random(2, 3)), number(9)),
    "activations": (Activations(), random(3, 4, 5), random(2, 3, 4)),
    "unary": (Unary(), random(3, 4)),
    "binary": (
        Binary(),
        random(3, 4),
        random(4),
        np.arange(-6, 6, dtype=np.int32).reshape(3, 4),
        np.array([2, 3, -2, 5], np.int32),
    ),
    "reductions": (Reductions(), random(2, 3, 4)),
    "shapes": (Shapes(), random(2, 4, 6), np.array([0, 2, 1], np.int32), random(2, 4, 6) > 0),
    "pads": (Pads(), random(1, 2, 4, 5)),
    "windows": (Windows(), random(1, 4, 7, 8)),
    "windows_of_one_axis": (WindowsOfOneAxis(), random(2, 4, 9)),
    "windows_of_three_axes": (WindowsOfThreeAxes(), random(1, 2, 4, 5, 6)),
    "embedding": (Embedding(), np.array([[1, 2, 10], [0, 4, 5]], np.int32)),
    "resizes": (Resizes(), random(1, 2, 4, 5)),
    "products": (Products(), random(2, 3, 4), random(2, 4, 5)),
    "recurrence": (Recurrence(), random(2, 3, 4)),
    "attention": (Attention(), random(2, 3, 8)),
    "perceptron": (Perceptron(), random(2, 3, 6)),
    "open_sizes": (OpenSizes(), random(2, 4, 3)),
    "state": (State(), random(3)),
}


def flat(value) -> Iterator[np.ndarray]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from flat(item)
    else:
        yield value.asnumpy()


def main(target: Path) -> None:
    os.chdir(tempfile.mkdtemp())
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for name, (net, *inputs) in MODELS.items():
            net.set_train(False)
            given = [Tensor(item) for item in inputs]
            if name == "open_sizes":
                net.set_inputs(Tensor(shape=[None, 4, 3], dtype=ms.float32))
            outputs = list(flat(net(*given)))
            shown = [Tensor(shape=[None, 4, 3], dtype=ms.float32)] if name == "open_sizes" else given
            export(net, *shown, file_name=name, file_format="MINDIR")
            arrays = {f"in{place}": item for place, item in enumerate(inputs)}
            arrays |= {f"out{place}": item for place, item in enumerate(outputs)}
            np.savez(f"{name}.npz", **arrays)
            file.write(f"{name}.mindir")
            file.write(f"{name}.npz")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
