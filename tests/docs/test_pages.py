"""All pages: links lead somewhere, generated parts are up to date, what is listed is what exists."""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path

import pytest

import gerules
from gerules.backend.om.header import PartitionType
from gerules.ir import Format
from gerules.passes.precision import MODES
from gerules.target.device import DEFAULT_NUMBERS
from tests.docs.pages import DOCS, PAGES, generator

ROOT = DOCS.parent
TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "README.md"]


@pytest.mark.parametrize("page", ["language.md", "devices.md", "rules.md", "operators.md", "migrating.md"])
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
        found |= set(re.findall(r"[\"'](_gerules_[a-z0-9_]+)", path.read_text(encoding="utf-8")))
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


def files_named_in(text: str) -> list[str]:
    """The files of a table; a bare name lies in the folder of the one before it."""
    found: list[str] = []
    for row in re.findall(r"^\|[^|]+\| (`.+`) \|$", text, re.M):
        folder = ""
        for name in re.findall(r"`([^`]+)`", row):
            folder = name.rpartition("/")[0] if "/" in name else folder
            found.append(name if "/" in name else f"{folder}/{name}")
    return found


def test_contributors_are_led_to_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## Where things are")[1]
    named = files_named_in(text)
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_floors_are_those_of_the_linter() -> None:
    text = " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    assert " > ".join(layers) in text


def first_column(page: str, heading: str) -> set[str]:
    table = (DOCS / page).read_text(encoding="utf-8").split(heading)[1].split("\n\n")[0]
    cells = re.findall(r"^\| (`[^|]+) \|", table, re.M)
    return {name.partition("(")[0] for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_parameters_and_attributes_of_the_library_are_listed() -> None:
    parameters = set(inspect.signature(gerules.compile).parameters) - {"model"}
    assert first_column("python.md", "| parameter | meaning |") == parameters
    attributes = {name for name in dir(gerules.CompiledModel) if not name.startswith("_")}
    assert first_column("python.md", "| attribute | what it is |") == attributes - {"compilation"}


def test_precision_modes_are_listed() -> None:
    assert first_column("language.md", "| precision | element types |") == set(MODES)


def test_numbers_that_no_stage_computes_with_are_said_to_be_so() -> None:
    text = " ".join((DOCS / "devices.md").read_text(encoding="utf-8").split())
    assert "Buffer sizes, the rate of L2 and `max_events` are described here" in text
    sources = [path for path in (ROOT / "gerules").rglob("*.py") if path.name != "device_list.py"]
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    read = set(re.findall(r"number\(\"(\w+)\"\)", code))
    assert read.isdisjoint({"ub_bytes", "l1_bytes", "l2_bytes", "l2_bytes_per_clock", "max_events"})
    assert {"launch_us", "memory_bytes", "align_bytes", "n_streams", "max_streams"} <= read
