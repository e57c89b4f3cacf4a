"""Real models as ONNX files, for tests and benches: built once into a cache folder, then only looked up.

    python bench/zoo.py                        build all that is missing
    python bench/zoo.py bert_mini_ts --list    build none, say what is there

`light_*` come with the `onnx` wheel and are used where they lie; `filled_*` are six of them with weights. The
others are exported from torch, which needs the extra: `pip install -e '.[models]'`.
"""

# The signatures of onnx leave argument types open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

if not __package__:  # run as a script, a file sees only its own folder
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench import light, torch_models
from bench.torch_models import ModelsExtraMissing

RECIPE_VERSION = 4
"""Raise it when a model would come out differently: cached files of another version are built again."""

SEED = 20240607

BUILT: tuple[str, ...] = (*light.FILLED, *torch_models.RECIPES)
"""Models that live in the cache folder."""

NAMES: tuple[str, ...] = (*light.PATHS, *BUILT)

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a built file; kept beside it as JSON."""

    recipe_version: int
    n_nodes: int
    opset: int
    size_bytes: int
    took_s: float
    producer: str
    operators: dict[str, int]


def folder() -> Path:
    """Where built models are kept: `$GERULES_MODELS`, or `models/` in the checkout."""
    return Path(os.environ.get("GERULES_MODELS") or Path(__file__).parents[1] / "models")


def path(name: str) -> Path:
    """The file of the model `name`, built first if it is missing or of another recipe version.

    Raises:
        KeyError: There is no model of that name.
        ModelsExtraMissing: It has to be built, and a package that builds it is not installed.
    """
    if name in light.PATHS:
        return light.PATHS[name]
    if name not in NAMES:
        raise KeyError(f"no model is called {name!r}; there are {', '.join(NAMES)}")
    if entry(name) is None:
        _build(name)
    return folder() / f"{name}.onnx"


def entry(name: str) -> Entry | None:
    """What is known of the built file of `name`, or None if it has to be built."""
    file = folder() / f"{name}.onnx"
    try:
        known = Entry(**json.loads(file.with_suffix(".json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # absent, torn, or written by another recipe version
        return None
    is_whole = file.is_file() and file.stat().st_size == known.size_bytes
    return known if is_whole and known.recipe_version == RECIPE_VERSION else None


def _build(name: str) -> None:
    if name in light.FILLED and find_spec("onnxruntime") is None:
        raise ModelsExtraMissing("filling a light model needs onnxruntime: pip install -e '.[test]'")
    started = time.perf_counter()
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder(), prefix=f".{name}.") as scratch:
        file, note = Path(scratch) / "model.onnx", Path(scratch) / "entry.json"
        write = light.write_filled if name in light.FILLED else torch_models.export
        write(name, file, seed=SEED)
        onnx.checker.check_model(str(file))
        model = onnx.load(file)
        known = Entry(
            recipe_version=RECIPE_VERSION,
            n_nodes=len(model.graph.node),
            opset=next(opset.version for opset in model.opset_import if not opset.domain),
            size_bytes=file.stat().st_size,
            took_s=round(time.perf_counter() - started, 2),
            producer=f"{model.producer_name} {model.producer_version}".strip(),
            operators=dict(sorted(Counter(node.op_type for node in model.graph.node).items())),
        )
        note.write_text(json.dumps(asdict(known), indent=1) + "\n", encoding="utf-8")
        # The note last: a model without one counts as missing, a note without its model would not.
        file.replace(folder() / f"{name}.onnx")
        note.replace(folder() / f"{name}.json")


_SYMBOL_SIZES = (2, 3, 5, 7)
"""Sizes for symbolic dimensions in order of appearance: small, and no two alike until they run out."""

_KEEPS_VALUES = frozenset(
    {"Cast", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}
)


def inputs(
    model_path: Path | str, seed: int = 0, *, dims: Mapping[str, int] | None = None
) -> dict[str, Array]:
    """Random inputs that fit the model.

    Floats are standard normal, attention masks are all ones, other integers are token ids: below the number
    of rows of every table they look up in.

    Args:
        seed: The same seed gives the same arrays.
        dims: Sizes for symbolic dimensions by their name; others get small ones.
    """
    graph = onnx.load(model_path, load_external_data=False).graph
    rng = np.random.default_rng(seed)
    limits = _token_limits(graph)
    weights = {tensor.name for tensor in graph.initializer}  # which old files list as inputs as well
    sizes = dict(dims or {})
    made: dict[str, Array] = {}
    for value in graph.input:
        if value.name in weights:
            continue
        shape: list[int] = []
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.HasField("dim_value"):
                shape.append(dim.dim_value)
                continue
            symbol = dim.dim_param or f"{value.name}.{axis}"
            shape.append(sizes.setdefault(symbol, _SYMBOL_SIZES[len(sizes) % len(_SYMBOL_SIZES)]))
        made[value.name] = _fill(value, shape, rng, limits.get(value.name, 2))
    return made


def _fill(value: onnx.ValueInfoProto, shape: Sequence[int], rng: np.random.Generator, limit: int) -> Array:
    dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
    if dtype == np.bool_:
        return rng.integers(2, size=shape).astype(dtype)
    if "mask" in value.name and np.issubdtype(dtype, np.integer):
        return np.ones(shape, dtype)
    if np.issubdtype(dtype, np.integer):
        return rng.integers(limit, size=shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def _token_limits(graph: onnx.GraphProto) -> dict[str, int]:
    """Rows of the smallest table each integer input looks up in, maybe after a change of shape or type."""
    rows = {tensor.name: tensor.dims[0] for tensor in graph.initializer if tensor.dims}
    origin = {value.name: value.name for value in graph.input if _is_integer(value)}
    limits: dict[str, int] = {}
    for node in graph.node:
        if node.op_type in _KEEPS_VALUES and node.input[0] in origin:
            origin[node.output[0]] = origin[node.input[0]]
        if node.op_type == "Gather" and node.input[0] in rows and node.input[1] in origin:
            name = origin[node.input[1]]
            limits[name] = min(rows[node.input[0]], limits.get(name, rows[node.input[0]]))
    return limits


def _is_integer(value: onnx.ValueInfoProto) -> bool:
    return value.type.tensor_type.elem_type in (TensorProto.INT32, TensorProto.INT64)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the models that tests and benches use.")
    parser.add_argument("names", nargs="*", metavar="name", help="models to build; all if none is named")
    parser.add_argument("--list", action="store_true", help="say what is there, build nothing")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in NAMES]
    if unknown:
        parser.error(f"no model is called {', '.join(unknown)}; --list shows all")
    names = chosen.names or NAMES
    for number, name in enumerate(names, 1):
        try:
            state = _look_up(name) if chosen.list or name in light.PATHS else _provide(name)
        except ModelsExtraMissing as missing:
            print(f"{name}: {missing}", file=sys.stderr)
            return 1
        print(f"[{number}/{len(names)}] {name}: {state}", flush=True)
    return 0


def _provide(name: str) -> str:
    if entry(name) is not None:
        return _look_up(name)
    path(name)
    return f"built: {_look_up(name)}"


def _look_up(name: str) -> str:
    if name in light.PATHS:
        return "part of the onnx wheel"
    known = entry(name)
    if known is None:
        return "not built"
    size_mb = known.size_bytes / 1e6
    return f"{known.n_nodes} nodes, opset {known.opset}, {size_mb:.1f} MB, took {known.took_s} s"


if __name__ == "__main__":
    sys.exit(main())
