"""Packages that are installed, as Python sees it, for the length of a test: modules and their dist-info."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]


def install(
    site: Path, name: str, files: Mapping[str, str], entry_points: Mapping[str, Mapping[str, str]]
) -> None:
    """Write files of a package below a folder, and what an installer writes about it."""
    for path, text in files.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    about = site / f"{name.replace('-', '_')}-1.2.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n", encoding="utf-8")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
        for group, points in entry_points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


def run_python(site: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the packages of a folder installed."""
    path = os.pathsep.join([str(site), str(ROOT)])
    return subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONPATH": path} | more,
        capture_output=True,
        text=True,
        check=False,
    )
