"""Compile a network by TorchAir: `python torchair_compile.py`.

On a device two lines differ: `import torchair`, and DEVICE is "npu".
"""

import torch

from gerules.compat import torchair

DEVICE = "cpu"


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, image):
        features = torch.relu(self.norm(self.conv(image)))
        return self.head(features.mean(dim=(2, 3)))


config = torchair.CompilerConfig()
config.experimental_config.frozen_parameter = True
config.ge_config.enable_single_stream = True
config.debug.graph_dump.type = "py"

torch.manual_seed(0)
network = Network().eval().to(DEVICE)
image = torch.randn(1, 3, 16, 16, device=DEVICE)
with torch.no_grad():
    compiled = torch.compile(network, backend=torchair.get_npu_backend(compiler_config=config))
    difference = (compiled(image) - network(image)).abs().max()
    print("largest difference", "below" if difference < 1e-4 else "above", 1e-4)
