"""All pages: links lead somewhere, generated parts are up to date, what is listed is what exists."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pages import DOCS, PAGES

from gerules.backend.om.header import PartitionType
from gerules.ir import Format
from gerules.target.device import DEFAULT_NUMBERS

ROOT = DOCS.parent
TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "README.md"]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_generate"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["language.md", "devices.md", "rules.md", "operators.md"])
def test_generated_tables_are_up_to_date(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert generator().fill_tables(page, text) == text, "run python docs/generate.py"


# ---------------------------------------------------------------- links
def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    plain = re.sub(r"[^\w\- ]", "", heading.replace("`", "")).strip().lower()
    return plain.replace(" ", "-")


def anchors(path: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)}


def links() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for path in TEXTS:
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        found += [(str(path.relative_to(ROOT)), link) for link in re.findall(r"\]\(([^)\s]+)\)", text)]
    return [(page, link) for page, link in dict.fromkeys(found) if not link.startswith("http")]


@pytest.mark.parametrize(("page", "link"), links())
def test_a_link_leads_somewhere(page: str, link: str) -> None:
    target, _, place = link.partition("#")
    path = ((ROOT / page).parent / target).resolve() if target else ROOT / page
    assert path.exists()
    if place:
        assert place in anchors(path)


def test_every_page_stands_in_the_index() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    pages = {path.name for path in PAGES} - {"README.md"}
    assert {name for name in pages if f"({name})" not in index} == set()


# ---------------------------------------------------------------- what is listed exists
def private_attributes() -> set[str]:
    """Every `_gerules_` attribute that some source of the back end or the runtime names."""
    found: set[str] = set()
    for path in sorted((ROOT / "gerules").rglob("*.py")):
        found |= set(re.findall(r"[\"'](_gerules_[a-z_]+)", path.read_text(encoding="utf-8")))
    return found - {"_gerules_"}


def test_private_attributes_of_om_files_are_listed() -> None:
    listed = set(re.findall(r"^\| `(_gerules_\w+)`", (DOCS / "om.md").read_text(encoding="utf-8"), re.M))
    assert listed == private_attributes()


def test_partitions_are_named_as_the_code_names_them() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \|", (DOCS / "om.md").read_text(encoding="utf-8"), re.M)
    assert len(rows) == 4 and all(name in PartitionType.__members__ for name in rows)


def test_numbers_and_formats_of_devices_are_explained() -> None:
    text = (DOCS / "devices.md").read_text(encoding="utf-8")
    units = text.split("| number | what it is | unit |")[1].split("\n\n")[0]
    assert {name for name in DEFAULT_NUMBERS if f"`{name}`" not in units} == set()
    formats = text.split("| format | what lies in memory |")[1].split("\n\n")[0]
    assert {name for name in Format.__members__ if f"`{name}`" not in formats} == set()
