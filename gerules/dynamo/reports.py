"""What became of each graph that torch handed over: compiled or not, why not, and the compiled models."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal

from gerules.errors import Diagnostic
from gerules.errors.diagnostic import render
from gerules.pipeline import CompiledModel

State = Literal["waiting", "compiled", "eager"]

_MOST_REPORTS: Final = 256


class EagerWarning(UserWarning):
    """A graph is run by torch instead of gerules; the text has the code and the reason."""


@dataclass(slots=True, eq=False)
class GraphReport:
    """One graph of torch: what it is, and what became of it.

    Attributes:
        number: Counts the graphs of the process, from 0.
        n_nodes: Operators of the graph, in aten.
        state: `waiting` until it first runs; `eager` when torch runs it.
        reason: Why torch runs it.
        models: What executes it, one for each set of shapes that is kept.
        device_models: The same compiled for `device`, where that is not this CPU.
        device: The device that was asked for.
        n_compiles: Compiles so far.
        n_runs: Runs so far, by compiled models and by torch.
        took_us: Time spent on compiling.
    """

    number: int
    n_nodes: int
    device: str
    state: State = "waiting"
    reason: str = ""
    models: dict[str, CompiledModel] = field(default_factory=dict[str, CompiledModel])
    device_models: dict[str, CompiledModel] = field(default_factory=dict[str, CompiledModel])
    n_compiles: int = 0
    n_runs: int = 0
    took_us: float = 0.0

    def __str__(self) -> str:
        head = f"graph {self.number}: {self.n_nodes} operators, {self.state}"
        lines = [head + (f": {self.reason}" if self.reason else "")]
        for models in (self.models, self.device_models):
            for shapes, model in models.items():
                lines.append(f"  {shapes or 'no inputs'}: {str(model.summary()).splitlines()[0]}")
        return "\n".join(lines)


_REPORTS: Final[deque[GraphReport]] = deque(maxlen=_MOST_REPORTS)
_LOCK: Final = threading.Lock()
_COUNT: Final = [0]


def new_report(n_nodes: int, device: str) -> GraphReport:
    """Return the report of a new graph; it is kept, with the latest 256."""
    with _LOCK:
        report = GraphReport(_COUNT[0], n_nodes, device)
        _COUNT[0] += 1
        _REPORTS.append(report)
    return report


def reports() -> tuple[GraphReport, ...]:
    """Return what became of the graphs of this process, oldest first, at most the latest 256."""
    with _LOCK:
        return tuple(_REPORTS)


def clear_reports() -> None:
    """Forget all reports, and the models that only they hold."""
    with _LOCK:
        _REPORTS.clear()


def warn_eager(diagnostic: Diagnostic) -> None:
    """Tell a user once why torch runs a graph."""
    warnings.warn(render([diagnostic]), EagerWarning, stacklevel=2)
