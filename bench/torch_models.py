"""Known networks with random weights, exported from torch, timm and transformers. Nothing is downloaded.

`_ts` is the TorchScript exporter, `_dynamo` the one on torch.export; both get the very same weights, so their
outputs must agree. `_dyn` leaves the batch symbolic, `_seq` the batch and the
number of tokens. This file can be imported without torch: everything
heavy is imported where a model is built.
"""

# The signatures of torch and transformers leave argument types open.
# pyright: reportUnknownMemberType=false, reportCallIssue=false

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

OPSET_DECOMPOSED = 16
"""The last opset without LayerNormalization: TorchScript spells it out in ReduceMean, Sub, Pow, ..."""
OPSET_TORCHSCRIPT = 17
OPSET_DYNAMO = 20

VOCABULARY = 2048
TOKENS = 32
PIXELS = 224


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
    """How one file is made: from what, by which exporter, for which opset, and symbolic axes of inputs."""

    make: Callable[[], Source]
    dynamo: bool
    opset: int
    dynamic: tuple[str, ...] = ()


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
        recipes[f"{name}_ts_dyn"] = Recipe(make, dynamo=False, opset=opset, dynamic=("batch",))
        recipes[f"{name}_dynamo_dyn"] = Recipe(make, dynamo=True, opset=OPSET_DYNAMO, dynamic=("batch",))
    return recipes


RECIPES: dict[str, Recipe] = {
    **_both("resnet50", _vision("resnet50"), opset=OPSET_TORCHSCRIPT, dynamic=True),
    **_both("mobilenetv2", _vision("mobilenetv2_100"), opset=OPSET_TORCHSCRIPT),
    **_both("efficientnet_b0", _vision("efficientnet_b0"), opset=OPSET_TORCHSCRIPT),
    **_both("vit_small", _vision("vit_small_patch16_224"), opset=OPSET_DECOMPOSED),
    **_both("bert_mini", _bert, opset=OPSET_DECOMPOSED, dynamic=True),
    "bert_mini_ts_seq": Recipe(_bert, dynamo=False, opset=OPSET_DECOMPOSED, dynamic=("batch", "sequence")),
    **_both("gpt2_mini", _gpt2, opset=OPSET_TORCHSCRIPT),
    **_both("llama_tiny", _llama, opset=OPSET_TORCHSCRIPT),
}


def export(name: str, file: Path, *, seed: int) -> None:
    """Write the model `name` of `RECIPES` to `file`.

    Raises:
        ModelsExtraMissing: torch, timm, transformers or onnxscript is not installed.
    """
    prepare_torch()
    import torch

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # both exporters warn about themselves and about traced constants
        torch.manual_seed(seed)
        _export(RECIPES[name], file)


def _export(recipe: Recipe, file: Path) -> None:
    import torch

    source = recipe.make()
    examples = source.examples
    if recipe.dynamic:  # torch.export takes a batch of 1 for a constant
        examples = {name: torch.cat([tensor, tensor]) for name, tensor in examples.items()}
    options: dict[str, Any] = {"input_names": list(examples), "output_names": list(source.outputs)}
    if recipe.dynamo:
        options |= {"external_data": False, "verbose": False}
        if recipe.dynamic:
            batch = torch.export.Dim("batch")
            options["dynamic_shapes"] = tuple({0: batch} for _ in examples)
    else:
        # PRESERVE keeps BatchNormalization; EVAL, the default, folds it into the Conv before it.
        options["training"] = torch.onnx.TrainingMode.PRESERVE
        if recipe.dynamic:
            # Of outputs the first axis is the batch; the exporter finds the others by itself.
            options["dynamic_axes"] = {
                **{name: dict(enumerate(recipe.dynamic)) for name in examples},
                **{name: {0: "batch"} for name in source.outputs},
            }
    inputs = tuple(examples.values())
    options |= {"dynamo": recipe.dynamo, "opset_version": recipe.opset}
    torch.onnx.export(source.module, inputs, str(file), **options)


_KEPT_LIBRARIES: list[torch.library.Library] = []
"""A declared operator lives as long as the library object that declared it."""


def prepare_torch() -> None:
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
