"""Write a module for offline use by TorchAir: `python torchair_export.py`, into the folder export_file.

On a device the one line that differs is the import: `import torchair`.
"""

import torch

from gerules.compat import torchair


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x, y):
        return torch.softmax(self.linear(x) + y, dim=-1)


torch.manual_seed(0)
x, y = torch.randn(2, 8), torch.randn(2, 8)
torchair.dynamo_export(x, y, model=Layer().eval(), export_path="export_file", export_name="export")
