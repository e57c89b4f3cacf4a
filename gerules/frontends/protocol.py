"""What reads the models of another system: the shape of front ends that other packages bring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from gerules.ir import Graph


@runtime_checkable
class Frontend(Protocol):
    """Reads model files of one kind, known by their endings."""

    @property
    def suffixes(self) -> Sequence[str]:
        """Endings of file names, in small letters, with their dot: `(".tflite",)`."""
        ...

    def read(self, path: Path, /) -> Graph:
        """Read a file. What it raises besides `GerulesError` becomes a fault that names its package."""
        ...
