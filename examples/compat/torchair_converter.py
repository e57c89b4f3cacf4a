"""Translate an operator of torch by hand by TorchAir: `python torchair_converter.py`.

On a device two lines differ: `import torchair`, and DEVICE is "npu".
"""

import torch

from gerules.compat import torchair

DEVICE = "cpu"


@torchair.register_fx_node_ge_converter(torch.ops.aten.softplus.default)
def convert_softplus(self, beta=1, threshold=20, *, meta_outputs=None):
    grown = torchair.ge.custom_op("Exp", self)
    return torchair.ge.custom_op("Log", torchair.ge.custom_op("Add", grown, torchair.ge.Const(1.0)))


x = torch.randn(3, 4, device=DEVICE)
compiled = torch.compile(torch.nn.functional.softplus, backend=torchair.get_npu_backend())
torch.testing.assert_close(compiled(x), torch.nn.functional.softplus(x), rtol=1e-4, atol=1e-5)
print("equal")
