"""The backend of `torch.compile`: graphs of torch compiled by gerules, and executed by their own plans.

>>> import torch  # doctest: +SKIP
>>> fast = torch.compile(model, backend="gerules", options={"device": "ascend910b"})  # doctest: +SKIP
"""

from gerules.dynamo.options import OPTION_NAMES, BackendOptions, Hooks, read_options
from gerules.dynamo.reports import EagerWarning, GraphReport, clear_reports, reports
from gerules.dynamo.start import register, start

__all__ = [
    "OPTION_NAMES",
    "BackendOptions",
    "EagerWarning",
    "GraphReport",
    "Hooks",
    "clear_reports",
    "read_options",
    "register",
    "reports",
    "start",
]
