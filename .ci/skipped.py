"""A plugin of pytest: notes every test that a run skips, so that CI runs it when more packages are there.

It appends to the file `$GERULES_SKIPPED`. Each process of pytest-xdist notes for itself: the one that gathers
reports hears of only one of the modules that are skipped for the same reason.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def _note(report: pytest.CollectReport | pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        with Path(os.environ["GERULES_SKIPPED"]).open("a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\n")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)
