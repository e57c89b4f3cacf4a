"""Models of torch: modules, exported programs and TorchScript, through torch's own ONNX exporters."""

from gerules.frontends.torch.files import looks_like_torch, read_torch_file
from gerules.frontends.torch.kinds import TorchModel, kind_of
from gerules.frontends.torch.model import read_torch

__all__ = ["TorchModel", "kind_of", "looks_like_torch", "read_torch", "read_torch_file"]
