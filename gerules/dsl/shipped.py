"""Where the rules that come with gerules are."""

from __future__ import annotations

from pathlib import Path


def rules_folder() -> Path:
    """Return the folder of the shipped rules: inside the installed package, or beside it in a checkout.

    The folder may be missing in a broken installation; reading from it then fails with E10001.
    """
    package = Path(__file__).resolve().parent.parent
    installed = package / "rules"
    return installed if installed.is_dir() else package.parent / "rules"
