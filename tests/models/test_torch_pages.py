"""The Python on the pages about torch runs, as that of all other pages does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, WITH_TORCH
from tests.docs.test_python import run_page
from tests.models.torch_nets import torch

PAGES = sorted(name for name in WITH_TORCH if (DOCS / name).exists())


@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs(page: str, tmp_path: Path) -> None:
    assert torch.__version__
    run_page(DOCS / page, tmp_path)
