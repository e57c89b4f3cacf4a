"""Models with wrong rules planted among the good ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gerules.errors import Source

Arrays = dict[str, NDArray[np.float32]]


def residual_text(n_blocks: int = 3) -> str:
    """A chain of residual blocks: Conv, BatchNormalization, Relu, and a sum, written as graph text."""
    lines = ["graph residual:", "    opset 17", "    input x: f32[1, 4, 8, 8]"]
    last = "x"
    for n in range(n_blocks):
        lines += [
            f"    W{n}: const f32[4, 4, 3, 3] = random({n + 1})",
            *(f"    {name}{n}: const f32[4] = fill({value})" for name, value in _NORM.items()),
            f"    c{n} = Conv({last}, W{n}, pads=[1, 1, 1, 1])",
            f"    b{n} = BatchNormalization(c{n}, g{n}, o{n}, m{n}, v{n})",
            f"    r{n} = Relu(b{n})",
            f"    s{n} = Add(r{n}, {last})",
        ]
        last = f"s{n}"
    return "\n".join([*lines, f"    return {last}"]) + "\n"


_NORM = {"g": 0.5, "o": 0.1, "m": 0.2, "v": 4.0}


def attention_text(n_layers: int = 2) -> str:
    """A chain of attention layers as exporters spell them out: products, Softmax, a norm, Gelu."""
    lines = ["graph attention:", "    opset 17", "    input x: f32[1, 6, 8]", "    q: const f32[] = 0.35"]
    lines += [f"    {name}: const f32[] = {value}" for name, value in _GELU.items()]
    last = "x"
    for n in range(n_layers):
        lines += [f"    {name}{n}: const f32[8, 8] = random({10 * n + k})" for k, name in enumerate("ABCDE")]
        lines += [
            f"    one{n}: const f32[8] = fill(1.0)",
            f"    zero{n}: const f32[8] = fill(0.0)",
            f"    query{n} = MatMul({last}, A{n})",
            f"    key{n} = MatMul({last}, B{n})",
            f"    value{n} = MatMul({last}, C{n})",
            f"    turned{n} = Transpose(key{n}, perm=[0, 2, 1])",
            f"    scores{n} = MatMul(query{n}, turned{n})",
            f"    scaled{n} = Mul(scores{n}, q)",
            f"    weights{n} = Softmax(scaled{n})",
            f"    mixed{n} = MatMul(weights{n}, value{n})",
            f"    sum{n} = Add(mixed{n}, {last})",
            f"    norm{n} = LayerNormalization(sum{n}, one{n}, zero{n})",
            f"    up{n} = MatMul(norm{n}, D{n})",
            f"    d{n} = Div(up{n}, root)",
            f"    e{n} = Erf(d{n})",
            f"    f{n} = Add(e{n}, unit)",
            f"    h{n} = Mul(up{n}, f{n})",
            f"    gelu{n} = Mul(h{n}, half)",
            f"    down{n} = MatMul(gelu{n}, E{n})",
            f"    out{n} = Add(down{n}, norm{n})",
        ]
        last = f"out{n}"
    return "\n".join([*lines, f"    return {last}"]) + "\n"


_GELU = {"root": 1.4142135623730951, "unit": 1.0, "half": 0.5}

SHAPES = {"residual": (1, 4, 8, 8), "attention": (1, 6, 8)}


def written(folder: Path, name: str) -> tuple[Path, Arrays]:
    """Write one of the models; return its file and an input."""
    path = folder / f"{name}.graph"
    path.write_text({"residual": residual_text, "attention": attention_text}[name](), encoding="utf-8")
    rng = np.random.default_rng(7)
    return path, {"x": rng.standard_normal(SHAPES[name]).astype(np.float32)}


def wrong_rule(op: str, *sites: str, name: str = "wrong", error: str = "0.01", alias: str = "") -> Source:
    """A rule that adds an error to what an operator makes, at some values or at all."""
    where = " or ".join(f'y.name == "{site}"' for site in sites) or "true"
    given = f'    alias "{alias}"\n' if alias else ""
    text = f"""
rule {name} in planted.{name} "Adds what it should not":
{given}    once
    match:
        y = {op}(x, **a)
    where:
        {where} else "not here"
    rewrite:
        y = Add({op}(x, **a), {error})
"""
    return Source(f"{name}.ger", text)
