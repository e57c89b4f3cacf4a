"""Replace a pattern of torch operators before a compile by TorchAir: `python torchair_replacement.py`.

On a device two lines differ: `import torchair`, and DEVICE is "npu".
"""

import torch

from gerules.compat import torchair

DEVICE = "cpu"


def search(x, y):
    return torch.relu(torch.relu(x + y))


def replace(x, y):
    return torch.relu(x + y)


torchair.register_replacement(search, replace, [torch.randn(2, 2), torch.randn(2, 2)])


def function(x, y):
    return torch.relu(torch.relu(x + y)) * 2


seen = []
config = torchair.CompilerConfig()
config.post_grad_custom_post_pass = lambda gm: seen.extend(
    str(node.target) for node in gm.graph.nodes if node.op == "call_function"
)
x, y = torch.randn(3, 4, device=DEVICE), torch.randn(3, 4, device=DEVICE)
compiled = torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config))
torch.testing.assert_close(compiled(x, y), function(x, y))
print(" ".join(seen))
