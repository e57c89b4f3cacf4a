"""Running a script unchanged: `python -m gerules.compat script.py arguments`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from gerules.compat.aliases import use_names


def main() -> int:
    """Run the script that the arguments name, as Python itself would."""
    if len(sys.argv) < 2:
        print("usage: python -m gerules.compat SCRIPT [ARGUMENTS]", file=sys.stderr)
        return 2
    script = Path(sys.argv[1])
    if not script.is_file():
        print(f"{script} cannot be read: there is no such file", file=sys.stderr)
        return 2
    use_names()
    sys.argv = sys.argv[1:]
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
