"""Keep compiled methods of a module on disk by TorchAir: `python torchair_cache.py`, with the folder cache.

On a device two lines differ: `import torchair`, and DEVICE is "npu".
"""

import torch

from gerules.compat import torchair

DEVICE = "cpu"


class Generator(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.cached_prompt = torchair.inference.cache_compile(self.prompt, dynamic=False, cache_dir="cache")
        self.cached_decode = torchair.inference.cache_compile(self.decode, dynamic=False, cache_dir="cache")

    def forward(self, x):
        return self.cached_prompt(x) if x.shape[0] > 1 else self.cached_decode(x)

    def prompt(self, x):
        return torch.relu(self.layer(x))

    def decode(self, x):
        return self.layer(x) * 2


torch.manual_seed(0)
generator = Generator().eval().to(DEVICE)
with torch.no_grad():
    for rows in (3, 1):
        print(list(generator(torch.randn(rows, 8, device=DEVICE)).shape))
print(torchair.inference.readable_cache("cache", print_output=False).count("model.om"), "models in the cache")
