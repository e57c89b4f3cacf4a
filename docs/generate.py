"""Keep the generated parts of the pages: functions, devices, rules, operators, headings of errors.

    python docs/generate.py            write what is missing or has changed
    python docs/generate.py --check    only say whether anything would change

Text written by hand is kept. Generated tables stand between `<!-- name: ... -->` and `<!-- end of name -->`;
an error code without a heading gets one at its place, with message, cause and remedy from the table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

from gerules.compat.torchair.fields import FIELDS
from gerules.dsl import RuleBook, load_rules, rules_folder
from gerules.dsl.declarations import Phase
from gerules.dsl.functions import documented
from gerules.dsl.syntax import MatchLine, Rule
from gerules.errors import TABLE, ErrorCode
from gerules.frontends.mindir.elementwise import ELEMENTWISE
from gerules.frontends.mindir.reductions import REDUCTIONS
from gerules.frontends.mindir.shaping import SHAPING
from gerules.frontends.mindir.windows import WINDOWS
from gerules.ops import Schemas
from gerules.passes.devices import device_names, find_device
from gerules.target import Device
from gerules.target.device import DEFAULT_NUMBERS

DOCS: Final = Path(__file__).resolve().parent

FAMILIES: Final = {
    "E1": "Files and options",
    "E2": "Switches and inputs at run time",
    "E3": "Types, shapes and formats",
    "E4": "Texts, rules and graphs",
    "E5": "Operators and engines",
    "E6": "Memory and schedule",
    "E7": "Running",
    "E8": "Offline models",
    "E9": "gerules itself",
}


# ---------------------------------------------------------------- tables
def function_table() -> str:
    """One table for each subject, from the registry."""
    lines: list[str] = []
    for subject, group in groupby(documented(), key=lambda item: item.subject):
        if subject == "extern":
            continue
        lines += [f"**{subject}**", "", "| call | what it gives |", "|---|---|"]
        lines += [f"| `{item.signature}` | {_cell(item.doc)} |" for item in group]
        lines.append("")
    return "\n".join(lines)


def engine_table() -> str:
    """The engines of each device, in the order in which they are asked."""
    lines = ["| device | engine | priority | operators |", "|---|---|---:|---:|"]
    for device in _devices():
        for engine in sorted(device.engines, key=lambda item: (item.priority, item.name)):
            lines.append(f"| {device.name} | {engine.name} | {engine.priority} | {len(engine.ops)} |")
    return "\n".join(lines) + "\n"


def number_table() -> str:
    """The numbers of each device; those that its text does not say are defaults, in brackets."""
    devices = _devices()
    names = list(dict.fromkeys([*DEFAULT_NUMBERS, *(name for item in devices for name in item.numbers)]))
    lines = ["| number | " + " | ".join(item.name for item in devices) + " |"]
    lines.append("|---|" + "---:|" * len(devices))
    for name in names:
        cells = [_number(device, name) for device in devices]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def feature_table() -> str:
    """What each device has, and how many operators it is declared to lack."""
    lines = ["| device | description | has | lacks |", "|---|---|---|---|"]
    for device in _devices():
        has = ", ".join(sorted(device.features)) or "nothing beyond its operators"
        lacks = ", ".join(f"`{op}`" for op in sorted(device.lacks_ops)) or "nothing"
        lines.append(f"| {device.name} | {_cell(device.doc)} | {has} | {lacks} |")
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- catalogues
def rule_catalogue() -> str:
    """Every shipped rule by set: what it does, what is inexact in it, the names that switches know."""
    book = _shipped()
    lines: list[str] = []
    for name in sorted(book.set_names):
        ruleset = book.rulesets.get(name)
        about = [ruleset.doc] if ruleset is not None and ruleset.doc else []
        about += [f"a {ruleset.kind}"] if ruleset is not None and ruleset.kind else []
        about += ["off unless enabled"] if ruleset is not None and not ruleset.is_on else []
        phases = [phase.name.name for phase in book.phases.values() if _runs(phase, name)]
        about += [f"run in {', '.join(f'`{phase}`' for phase in phases)}"] if phases else []
        lines += [f"## {name}", "", _sentence("; ".join(about)), ""]
        lines += ["| rule | what it does | inexact | aliases |", "|---|---|---|---|"]
        lines += [_rule_row(rule) for rule in book.rules_of(name)]
        lines.append("")
    return "\n".join(lines)


def _runs(phase: Phase, ruleset: str) -> bool:
    return any(
        ruleset == item.name or ruleset.startswith(f"{item.name}.") for item in (*phase.run, *phase.then)
    )


def _rule_row(rule: Rule) -> str:
    doc = rule.doc or _one_line(rule)
    inexact = (rule.inexact_reason or "yes") if rule.is_inexact else ""
    aliases = ", ".join(f"`{alias}`" for alias in rule.aliases)
    return f"| `{rule.name.name}` | {_cell(doc)} | {_cell(inexact)} | {aliases} |"


def _one_line(rule: Rule) -> str:
    """The pattern and what replaces it, for rules whose text is all that there is to say."""
    first = rule.match[0]
    pattern = first.pattern.span.text if isinstance(first, MatchLine) else "a group"
    build = f" becomes `{' '.join(rule.rewrite[0].build.span.text.split())}`" if rule.rewrite else ""
    return f"`{' '.join(pattern.split())}`{build}"


def operator_catalogue() -> str:
    """Every operator that the shipped rules define: how it is called, and what it computes."""
    book = _shipped()
    lines: list[str] = []
    by_file = groupby(book.defines.values(), key=lambda item: item.span.source.name)
    for file, defines in by_file:
        lines += [f"## {Path(file).stem}", "", "```ger shipped"]
        for define in sorted(defines, key=lambda item: item.name.name):
            lines += [define.span.text.strip("\n"), ""]
        lines[-1:] = ["```", ""]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


@cache
def _devices() -> list[Device]:
    book, schemas = _shipped(), Schemas()
    return [find_device(book, name, schemas=schemas) for name in device_names(book) if name != "ascend"]


@cache
def _shipped() -> RuleBook:
    return load_rules([rules_folder() / "pipeline.ger"], schemas=None)


def _number(device: Device, name: str) -> str:
    value = device.numbers.get(name)
    if value is None:
        default = DEFAULT_NUMBERS.get(name)
        return "" if default is None else f"({_plain(default)})"
    return _plain(value)


def _plain(value: float | int | str | bool) -> str:
    if isinstance(value, bool | str):
        return str(value)
    whole = int(value)
    if whole != value:
        return str(value)
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if whole >= 16 * 1024 and whole % size == 0:
            return f"{whole // size} {unit}"
    return str(whole)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def mindir_operators() -> str:
    """MindSpore's operators that are read, by kind."""
    kinds = {
        "element by element": ELEMENTWISE,
        "reductions and normalizations": REDUCTIONS,
        "products, windows, recurrence": WINDOWS,
        "moving and making elements": SHAPING,
    }
    lines = ["| kind | operators |", "|---|---|"]
    return "\n".join([*lines, *(f"| {kind} | {', '.join(sorted(found))} |" for kind, found in kinds.items())])


def torchair_fields() -> str:
    """Every field of TorchAir's CompilerConfig: what it does, or why no other value is taken."""
    lines = ["| field | values | what it does |", "|---|---|---|"]
    for field in FIELDS:
        kinds = {"flag": "True, False", "number": "a whole number", "decimal": "a number", "names": "names",
                 "steps": "runs"}  # fmt: skip
        if isinstance(field.allowed, tuple):
            values = ", ".join(f"`{value}`" for value in field.allowed)
        else:
            values = kinds.get(field.allowed, f"a {field.allowed}")
        words = field.effect or f"`{field.default}` alone: {field.refused}"
        lines.append(f"| `{field.path}` | {values} | {_cell(words)} |")
    return "\n".join(lines)


TABLES: Final[dict[str, dict[str, Callable[[], str]]]] = {
    "language.md": {"functions": function_table},
    "rules.md": {"catalogue": rule_catalogue},
    "operators.md": {"catalogue": operator_catalogue},
    "mindir.md": {"operators": mindir_operators},
    "migrating.md": {"torchair-fields": torchair_fields},
    "devices.md": {"engines": engine_table, "numbers": number_table, "features": feature_table},
}
"""Which page has which tables."""


def fill_tables(page: str, text: str) -> str:
    """Return a page with its generated tables as they are now."""
    for name, make in TABLES.get(page, {}).items():
        pattern = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        if pattern.search(text) is None:
            raise SystemExit(f"{page} has no place for the table {name}")
        table = make().rstrip("\n")
        text = pattern.sub(lambda found, table=table: f"{found[1]}\n{table}\n\n{found[2]}", text)
    return text


# ---------------------------------------------------------------- errors
_HEADING: Final = re.compile(r"^## (E\d{5}) ([\w-]+)$", re.MULTILINE)


def fill_errors(text: str) -> str:
    """Return the page of errors with a section for every code of the table, sorted by code.

    A section that exists is kept as it is, except for its generated lines: heading, message, cause
    and remedy are those of the table. A section whose code is gone from the table is removed.
    """
    head, sections = _sections(text)
    lines = [head.rstrip("\n"), ""]
    family = ""
    for code in sorted(TABLE):
        entry = TABLE[code]
        if entry.code[:2] != family:
            family = entry.code[:2]
            lines += [f"# {family}: {FAMILIES[family]}", ""]
        lines += [_section(entry, sections.get(code, "")), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(entry: ErrorCode, by_hand: str) -> str:
    parts = [
        f"## {entry.code} {entry.slug}",
        f"**Message:** `{entry.message}`",
        f"**Cause:** {entry.cause}",
        f"**Remedy:** {_remedy(entry)}",
    ]
    if by_hand.strip():
        parts.append(by_hand.strip("\n"))
    return "\n\n".join(parts)


def _remedy(entry: ErrorCode) -> str:
    # A hint that is a fact alone (`{remedy}`) says nothing in general.
    if re.fullmatch(r"\{\w+\}", entry.hint):
        return "The message names it for the case at hand."
    return entry.hint[0].upper() + entry.hint[1:] + "."


def _sections(text: str) -> tuple[str, dict[str, str]]:
    """Split the page into what stands before the first family, and the text by hand of each code."""
    text = re.sub(r"^# E\d: [^\n]*\n+", "", text, flags=re.MULTILINE)
    starts = list(_HEADING.finditer(text))
    head = text[: starts[0].start()] if starts else text
    found: dict[str, str] = {}
    for place, start in enumerate(starts):
        end = starts[place + 1].start() if place + 1 < len(starts) else len(text)
        found[start[1]] = _by_hand(text[start.end() : end])
    return head, found


def _by_hand(section: str) -> str:
    paragraphs = section.strip("\n").split("\n\n")
    while paragraphs and paragraphs[0].lstrip("\n").startswith(("**Message:**", "**Cause:**", "**Remedy:**")):
        paragraphs.pop(0)
    return "\n\n".join(paragraphs)


# ---------------------------------------------------------------- all pages
def regenerate() -> Iterator[tuple[Path, str, str]]:
    """Yield each page that has generated parts, with its text as it is and as it should be."""
    for page in TABLES:
        path = DOCS / page
        text = path.read_text(encoding="utf-8")
        yield path, text, fill_tables(page, text)
    path = DOCS / "errors.md"
    text = path.read_text(encoding="utf-8")
    yield path, text, fill_errors(text)


def main(args: Sequence[str]) -> int:
    """Write or check; returns 1 when `--check` finds a difference."""
    changed = [(path, after) for path, before, after in regenerate() if before != after]
    for path, after in changed:
        print(f"{path.name} {'differs' if '--check' in args else 'written'}")
        if "--check" not in args:
            path.write_text(after, encoding="utf-8")
    return int(bool(changed) and "--check" in args)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
