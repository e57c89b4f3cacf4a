"""Known networks of torchvision, timm and transformers with random weights, as small as their kind allows."""

# The packages leave most types open.
# pyright: basic

from __future__ import annotations

from collections.abc import Callable

from tests.models.torch_nets import torch

Net = tuple[torch.nn.Module, dict[str, torch.Tensor]]

PIXELS = 64


def _image() -> torch.Tensor:
    return torch.randn(1, 3, PIXELS, PIXELS)


def _torchvision(name: str) -> Callable[[], Net]:
    def make() -> Net:
        import torchvision

        return torchvision.models.get_model(name, weights=None), {"x": _image()}

    return make


def _timm(name: str, **options: object) -> Callable[[], Net]:
    def make() -> Net:
        import timm

        return timm.create_model(name, pretrained=False, **options), {"x": _image()}

    return make


def _text(kind: str, *, is_decoder: bool = False, **options: object) -> Callable[[], Net]:
    def make() -> Net:
        import transformers

        config = getattr(transformers, f"{kind.removesuffix('Encoder')}Config")(vocab_size=96, **options)
        name = f"{kind}Model" if not is_decoder else f"{kind}ForCausalLM"
        name = {"GPT2ForCausalLM": "GPT2LMHeadModel"}.get(name, name)
        net = getattr(transformers, name)(config)
        ids = torch.randint(1, 96, (2, 12))
        mask = torch.ones(2, 12, dtype=torch.int64)
        mask[1, 9:] = 0
        return net, {"input_ids": ids, "attention_mask": mask}

    return make


def _vit() -> Net:
    from transformers import ViTConfig, ViTModel

    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}
    return ViTModel(ViTConfig(image_size=PIXELS, patch_size=16, **sizes)), {"pixel_values": _image()}


_SMALL = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96}

CATALOGUE: dict[str, Callable[[], Net]] = {
    "resnet18": _torchvision("resnet18"),
    "mobilenet_v3_small": _torchvision("mobilenet_v3_small"),
    "efficientnet_b0": _torchvision("efficientnet_b0"),
    "regnet_y_400mf": _torchvision("regnet_y_400mf"),
    "densenet121": _torchvision("densenet121"),
    "shufflenet_v2_x0_5": _torchvision("shufflenet_v2_x0_5"),
    "squeezenet1_1": _torchvision("squeezenet1_1"),
    "mnasnet0_5": _torchvision("mnasnet0_5"),
    "inception_next": _timm("inception_next_atto"),
    "vit_tiny": _timm("vit_tiny_patch16_224", img_size=PIXELS, depth=2),
    "deit_tiny": _timm("deit_tiny_distilled_patch16_224", img_size=PIXELS, depth=2),
    "swin_tiny": _timm(
        "swin_tiny_patch4_window7_224", img_size=PIXELS, window_size=4, depths=(2, 1), num_heads=(3, 6)
    ),
    "convnext_atto": _timm("convnext_atto"),
    "mixer": _timm("mixer_s32_224", img_size=PIXELS),
    "bert": _text("Bert", **_SMALL),
    "distilbert": _text("DistilBert", dim=48, n_layers=2, n_heads=4, hidden_dim=96),
    "gpt2": _text("GPT2", is_decoder=True, n_embd=48, n_layer=2, n_head=4),
    "llama": _text("Llama", is_decoder=True, num_key_value_heads=2, **_SMALL),
    "qwen2": _text("Qwen2", is_decoder=True, num_key_value_heads=2, **_SMALL),
    "t5_encoder": _text("T5Encoder", d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4),
    "vit": _vit,
}
