"""Progress on stderr: only on a terminal, and only for what takes longer than a second."""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

_PATIENCE_S: Final = 1.0


class Steps:
    """Shows which step of how many is under way. Silent where stderr is no terminal."""

    def __init__(self, title: str, n_steps: int | None = None, *, is_quiet: bool = False) -> None:
        self._progress: Progress | None = None
        if sys.stderr.isatty() and not is_quiet:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=Console(file=sys.stderr),
                transient=True,
            )
            self._task = self._progress.add_task(title, total=n_steps)
        self._title = title
        self._n_done = 0
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Steps:
        if self._progress is not None:
            self._timer = threading.Timer(_PATIENCE_S, self._progress.start)
            self._timer.daemon = True
            self._timer.start()
        return self

    def begin(self, name: str) -> None:
        """Say that a step begins; all before it are done."""
        if self._progress is not None:
            self._progress.update(self._task, description=f"{self._title}: {name}", completed=self._n_done)
        self._n_done += 1

    def end(self, name: str) -> None:
        """Say that a step has ended."""
        self._n_done += 1
        if self._progress is not None:
            self._progress.update(
                self._task, description=f"{self._title}: {name} done", completed=self._n_done
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None and self._progress is not None:
            self._timer.cancel()
            self._timer.join()
            self._progress.stop()
