"""Real models as ONNX files, for tests and benches: built once into a cache folder, then only looked up.

    python bench/zoo.py                     build all that is missing
    python bench/zoo.py bert_mini_ts --list build none, say what is there

The nine `light_*` models come with the `onnx` wheel. The others are exported here from torch, timm and
transformers with random weights, so nothing is downloaded. `_ts` is the TorchScript exporter, `_dynamo` the
one on torch.export; both get the very same weights, so their outputs must agree. `_dyn` leaves the batch
symbolic. Building needs the extra: `pip install -e '.[models]'`.
"""

# The signatures of torch, transformers and onnx leave argument types open.
# pyright: reportUnknownMemberType=false, reportCallIssue=false

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx.backend.test
from numpy.typing import NDArray
from onnx import TensorProto, helper

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

RECIPE_VERSION = 1
"""Raise it when a model would come out differently: cached files of another version are built again."""

SEED = 20240607
OPSET_DECOMPOSED = 16
"""The last opset without LayerNormalization: TorchScript spells it out in ReduceMean, Sub, Pow, ..."""
OPSET_TORCHSCRIPT = 17
OPSET_DYNAMO = 20

VOCABULARY = 2048
TOKENS = 32
PIXELS = 224

Array = NDArray[np.generic]


class ModelsExtraMissing(RuntimeError):  # noqa: N818 - it says what is missing, as ModuleNotFoundError does
    """A model has to be built, but the packages that build it are not installed."""


@dataclass(frozen=True, slots=True)
class Source:
    """A torch module in eval mode, with example inputs of batch 1 and the names of inputs and outputs."""

    module: nn.Module
    examples: dict[str, Tensor]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one file is made: from what, by which exporter, for which opset, and if the batch is symbolic."""

    make: Callable[[], Source]
    dynamo: bool
    opset: int
    dynamic_batch: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a built file; kept beside it as JSON."""

    recipe_version: int
    n_nodes: int
    opset: int
    size_bytes: int
    took_s: float
    torch: str
    operators: dict[str, int]


def _randomise(module: nn.Module) -> None:
    """Give every parameter a value that matters to the output.

    Fresh modules hold zeros for biases and ones for norms, and projections so small that each softmax is
    flat: a compiler that drops a bias, folds a norm wrongly or forgets a scale would go unnoticed.
    Convolutions keep their own random weights, which BatchNorm rescales anyway.
    """
    import torch

    seen: set[int] = set()
    for part in module.modules():
        for name, weight in part.named_parameters(recurse=False):
            if id(weight) in seen:  # an embedding that is also the output projection
                continue
            seen.add(id(weight))
            if weight.ndim == 1 and name == "weight":  # of a norm: nothing else has a weight of one axis
                torch.nn.init.uniform_(weight, 0.7, 1.3)
            elif weight.ndim == 1:
                torch.nn.init.normal_(weight, std=0.05)
            elif isinstance(part, torch.nn.Embedding) or weight.ndim == 3:  # positions and class token of ViT
                torch.nn.init.normal_(weight, std=0.25)
            elif weight.ndim == 2:
                # transformers' Conv1D, known by `nf`, keeps its matrix the other way round than Linear.
                fan_in = weight.shape[0] if hasattr(part, "nf") else weight.shape[1]
                torch.nn.init.normal_(weight, std=fan_in**-0.5)


def _settle_batch_norms(module: nn.Module, images: Tensor) -> None:
    """Set running statistics to those of `images`, then push each a little off.

    Measured ones keep the signal alive through fifty layers; the push makes sure that no statistic is one
    that a wrong fold could replace by 0 or 1 without harm.
    """
    import torch

    norms = [part for part in module.modules() if isinstance(part, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0  # the next batch replaces the running statistics
    with torch.no_grad():
        module(images)
        for norm in norms:
            norm.eval()
            norm.momentum = 0.1
            mean, variance = norm.running_mean, norm.running_var
            if mean is None or variance is None:
                continue
            mean += 0.1 * torch.randn_like(mean) * variance.sqrt()
            variance *= torch.empty_like(variance).uniform_(0.7, 1.4)


def _vision(timm_name: str) -> Callable[[], Source]:
    def make() -> Source:
        import timm
        import torch

        module = timm.create_model(timm_name, pretrained=False).eval()
        _randomise(module)
        _settle_batch_norms(module, torch.randn(4, 3, PIXELS, PIXELS))
        return Source(module, {"pixel_values": torch.randn(1, 3, PIXELS, PIXELS)}, ("logits",))

    return make


def _bert() -> Source:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        max_position_embeddings=128,
        attn_implementation="eager",  # written out in MatMul and Softmax, as most BERT files in the wild are
    )
    return _text(BertModel(config), ("last_hidden_state", "pooler_output"))


def _gpt2() -> Source:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=256,
        n_layer=4,
        n_head=4,
        n_positions=128,
        bos_token_id=0,  # the default lies beyond this vocabulary
        eos_token_id=0,
        use_cache=False,
        attn_implementation="eager",
    )
    return _text(GPT2LMHeadModel(config), ("logits",))


def _llama() -> Source:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,  # two query heads share one of these: grouped-query attention
        intermediate_size=688,
        max_position_embeddings=128,
        use_cache=False,
        attn_implementation="sdpa",
    )
    return _text(LlamaForCausalLM(config), ("logits",))


def _text(model: nn.Module, outputs: tuple[str, ...]) -> Source:
    """Wrap a transformers model so that it takes tensors by position and gives back a plain tuple.

    The mask is always an input: without one transformers looks for packed sequences with `aten::diff`, which
    the TorchScript exporter cannot write.
    """
    import torch

    class Plain(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> tuple[Tensor, ...]:
            result = self.model(input_ids=input_ids, attention_mask=attention_mask)
            return tuple(result[name] for name in outputs)

    _randomise(model)
    ids = torch.randint(VOCABULARY, (1, TOKENS))
    return Source(Plain().eval(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, outputs)


def _both(name: str, make: Callable[[], Source], *, opset: int, dynamic: bool = False) -> dict[str, Recipe]:
    recipes = {
        f"{name}_ts": Recipe(make, dynamo=False, opset=opset),
        f"{name}_dynamo": Recipe(make, dynamo=True, opset=OPSET_DYNAMO),
    }
    if dynamic:
        recipes[f"{name}_ts_dyn"] = Recipe(make, dynamo=False, opset=opset, dynamic_batch=True)
        recipes[f"{name}_dynamo_dyn"] = Recipe(make, dynamo=True, opset=OPSET_DYNAMO, dynamic_batch=True)
    return recipes


RECIPES: dict[str, Recipe] = {
    **_both("resnet50", _vision("resnet50"), opset=OPSET_TORCHSCRIPT, dynamic=True),
    **_both("mobilenetv2", _vision("mobilenetv2_100"), opset=OPSET_TORCHSCRIPT),
    **_both("efficientnet_b0", _vision("efficientnet_b0"), opset=OPSET_TORCHSCRIPT),
    **_both("vit_small", _vision("vit_small_patch16_224"), opset=OPSET_DECOMPOSED),
    **_both("bert_mini", _bert, opset=OPSET_DECOMPOSED, dynamic=True),
    **_both("gpt2_mini", _gpt2, opset=OPSET_TORCHSCRIPT),
    **_both("llama_tiny", _llama, opset=OPSET_TORCHSCRIPT),
}

_LIGHT_FOLDER = Path(next(iter(onnx.backend.test.__path__))) / "data" / "light"

LIGHT: dict[str, Path] = {file.stem: file for file in sorted(_LIGHT_FOLDER.glob("light_*.onnx"))}
"""Models of the `onnx` wheel. Their weights are `ConstantOfShape` nodes: true structure, constant numbers."""

NAMES: tuple[str, ...] = (*LIGHT, *RECIPES)


def folder() -> Path:
    """Where built models are kept: `$GERULES_MODELS`, or `models/` in the checkout."""
    return Path(os.environ.get("GERULES_MODELS") or Path(__file__).parents[1] / "models")


def path(name: str) -> Path:
    """The file of the model `name`, built first if it is missing or of another recipe version.

    Raises:
        KeyError: There is no model of that name.
        ModelsExtraMissing: It has to be built, and torch, timm or transformers is not installed.
    """
    if name in LIGHT:
        return LIGHT[name]
    if name not in RECIPES:
        raise KeyError(f"no model is called {name!r}; there are {', '.join(NAMES)}")
    if entry(name) is None:
        _build(name, RECIPES[name])
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


def _build(name: str, recipe: Recipe) -> None:
    _prepare_torch()
    import torch

    started = time.perf_counter()
    folder().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder(), prefix=f".{name}.") as scratch:
        file, note = Path(scratch) / "model.onnx", Path(scratch) / "entry.json"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # both exporters warn about themselves and about traced constants
            torch.manual_seed(SEED)
            _export(recipe, file)
        onnx.checker.check_model(str(file))
        model = onnx.load(file)
        known = Entry(
            recipe_version=RECIPE_VERSION,
            n_nodes=len(model.graph.node),
            opset=next(opset.version for opset in model.opset_import if not opset.domain),
            size_bytes=file.stat().st_size,
            took_s=round(time.perf_counter() - started, 2),
            torch=torch.__version__,
            operators=dict(sorted(Counter(node.op_type for node in model.graph.node).items())),
        )
        note.write_text(json.dumps(asdict(known), indent=1) + "\n", encoding="utf-8")
        # The note last: a model without one counts as missing, a note without its model would not.
        file.replace(folder() / f"{name}.onnx")
        note.replace(folder() / f"{name}.json")


def _export(recipe: Recipe, file: Path) -> None:
    import torch

    source = recipe.make()
    examples = source.examples
    if recipe.dynamic_batch:  # torch.export takes a batch of 1 for a constant
        examples = {name: torch.cat([tensor, tensor]) for name, tensor in examples.items()}
    options: dict[str, Any] = {"input_names": list(examples), "output_names": list(source.outputs)}
    if recipe.dynamo:
        options |= {"external_data": False, "verbose": False}
        if recipe.dynamic_batch:
            batch = torch.export.Dim("batch")
            options["dynamic_shapes"] = tuple({0: batch} for _ in examples)
    else:
        # PRESERVE keeps BatchNormalization; EVAL, the default, folds it into the Conv before it.
        options["training"] = torch.onnx.TrainingMode.PRESERVE
        if recipe.dynamic_batch:
            options["dynamic_axes"] = {name: {0: "batch"} for name in (*examples, *source.outputs)}
    inputs = tuple(examples.values())
    with torch.no_grad():
        torch.onnx.export(
            source.module, inputs, str(file), dynamo=recipe.dynamo, opset_version=recipe.opset, **options
        )


_KEPT_LIBRARIES: list[torch.library.Library] = []
"""A declared operator lives as long as the library object that declared it."""


def _prepare_torch() -> None:
    """Make torch, timm and transformers importable, and keep them off the network.

    timm and transformers import torchvision, whose Python half insists on operators of its compiled half.
    That half does not load beside a torch of another build, for example the CPU wheel; no model here needs
    it, so declaring the operators without a body is enough.
    """
    missing = [name for name in ("torch", "timm", "transformers", "onnxscript") if find_spec(name) is None]
    if missing:
        raise ModelsExtraMissing(f"building models needs {', '.join(missing)}: pip install -e '.[models]'")
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    if _KEPT_LIBRARIES or find_spec("torchvision") is None:
        return
    try:
        import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT_LIBRARIES.append(library)


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
            state = _look_up(name) if chosen.list or name in LIGHT else _provide(name)
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
    if name in LIGHT:
        return "part of the onnx wheel"
    known = entry(name)
    if known is None:
        return "not built"
    size_mb = known.size_bytes / 1e6
    return f"{known.n_nodes} nodes, opset {known.opset}, {size_mb:.1f} MB, took {known.took_s} s"


if __name__ == "__main__":
    sys.exit(main())
