"""Beginning and end of the Graph Engine in a process."""

from __future__ import annotations

from gerules.compat.ge.compiling import PROCESS
from gerules.compat.ge.options import InitializeOptions, Options, merged, read_options
from gerules.compat.ge.passes.discovery import load_passes


def ge_initialize(config: Options | InitializeOptions | None = None) -> None:
    """Set the options of all compiles of this process, and load the passes of ASCEND_GE_PY_PASS_PATH.

    Raises:
        GeError: E10003 for options, E41005 for passes that cannot be loaded.
    """
    options = merged(config)
    read_options(options)
    load_passes()
    PROCESS.options = options


def ge_finalize() -> None:
    """Forget the options."""
    PROCESS.options = {}
    PROCESS.last = None


class GeApi:
    """The same as methods."""

    def ge_initialize(self, config: Options | InitializeOptions | None = None) -> None:
        """See `ge_initialize`."""
        ge_initialize(config)

    def ge_finalize(self) -> None:
        """See `ge_finalize`."""
        ge_finalize()


Initialize = ge_initialize
Finalize = ge_finalize
