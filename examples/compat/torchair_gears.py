"""Compile for some batch sizes and no others by TorchAir: `python torchair_gears.py`.

On a device two lines differ: `import torchair`, and DEVICE is "npu".
"""

import torch

from gerules.compat import torchair

DEVICE = "cpu"

torch.manual_seed(0)
layers = torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)
network = torch.nn.Sequential(*layers).eval().to(DEVICE)
with torch.no_grad():
    compiled = torch.compile(network, backend=torchair.get_npu_backend(), dynamic=True)
    first = torch.randn(2, 8, device=DEVICE)
    torchair.inference.set_dim_gears(first, {0: [2, 4, 8]})
    for rows in (first, torch.randn(4, 8, device=DEVICE), torch.randn(8, 8, device=DEVICE)):
        torch.testing.assert_close(compiled(rows), network(rows), rtol=1e-4, atol=1e-5)
        print(len(rows), "rows: equal")
    try:
        compiled(torch.randn(5, 8, device=DEVICE))
    except Exception as error:
        print("5 rows:", str(error).splitlines()[0])
