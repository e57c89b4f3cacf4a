"""Where the program begins: an interrupt counts from the first moment on, also while modules are read."""

from __future__ import annotations

from gerules.cli.interrupts import end_interrupted, interrupted_code, leave_at_interrupts


def main() -> int:
    """Run the program and return its exit code; the entry point of the `gerules` script."""
    leave_at_interrupts()
    from gerules.cli.app import main as run

    code = run()
    if code == interrupted_code():
        end_interrupted()
    return code
