"""The fusion result: how often each pass matched and took effect, in the Graph Engine's words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from gerules.dsl import RuleBook
from gerules.engine.trace import Application, RuleCount, Trace
from gerules.errors import table
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.switching import pass_name, section_of
from gerules.text.files import write_files

_SECTIONS: Final = {"GraphFusion": "graph_fusion", "UBFusion": "ub_fusion"}
_INDENT: Final = 4


def fusion_result(
    trace: Trace, book: RuleBook, *, session: int = 0, graph: int = 0, with_sites: bool = False
) -> list[dict[str, object]]:
    """Return what rules did, by pass, as plain values.

    A pass is the first alias of a rule, or the rule's own name; rules of one pass are counted together.
    Passes that matched nowhere are left out. Counts are texts, as in the report this follows. Rule sets
    of `kind UBFusion` stand under `ub_fusion`, all others under `graph_fusion`.

    Args:
        with_sites: Add to each pass its rules: where each was applied, with the names of the model as it
            was read, and why matches were not taken; and to the whole why rules were off.
    """
    sections: dict[str, dict[str, list[RuleCount]]] = {name: {} for name in _SECTIONS.values()}
    for name, count in trace.rules.items():
        rule = book.rule_by_name.get(name)
        if rule is None or not count.matches:
            continue
        section = _SECTIONS[section_of(book, rule) or "GraphFusion"]
        sections[section].setdefault(pass_name(rule), []).append(count)
    applied: dict[str, list[Application]] = {}
    for item in trace.applications:
        applied.setdefault(item.rule, []).append(item)
    found: dict[str, object] = {}
    for section, passes in sections.items():
        found[section] = {
            name: _counts(counts, section) | (_sites(counts, applied) if with_sites else {})
            for name, counts in sorted(passes.items())
        }
    if with_sites:
        found["off"] = dict(sorted(trace.off.items()))
    return [{f"session_and_graph_id_{session}_{graph}": found}]


class Reporting(Protocol):
    """A compile that can say what its rules did."""

    def fusion_result(self, *, with_sites: bool = False) -> list[dict[str, object]]:
        """Return what rules did, by pass."""
        ...


def save_fusion_result(model: Reporting, path: str | Path, *, with_sites: bool = False) -> None:
    """Write the fusion result of a compile as JSON, whole or not at all; see `fusion_result`.

    Raises:
        PipelineError: E10004 when the disk refuses.
    """
    value = model.fusion_result(with_sites=with_sites)
    text = json.dumps(value, indent=_INDENT, ensure_ascii=False) + "\n"
    raw = text.encode("utf-8", "backslashreplace")
    try:
        write_files([(Path(path), lambda file: file.write(raw))])
    except OSError as error:
        reason = error.strerror or str(error)
        raise PipelineError(table.CANNOT_WRITE, path=path, reason=reason) from None


def _counts(counts: list[RuleCount], section: str) -> dict[str, object]:
    found: dict[str, object] = {
        "match_times": str(sum(count.matches for count in counts)),
        "effect_times": str(sum(count.applications for count in counts)),
    }
    if section == "ub_fusion":
        # There is no repository of tuned kernels to find a fusion in.
        found["repository_hit_times"] = "0"
    return found


def _sites(counts: list[RuleCount], applied: Mapping[str, list[Application]]) -> dict[str, object]:
    return {
        "rules": [
            {
                "rule": count.rule,
                "match_times": str(count.matches),
                "effect_times": str(count.applications),
                "applied": [item.as_json() for item in applied.get(count.rule, ())],
                "not_taken": [
                    {"reason": reason, "times": str(times)} for reason, times in count.refusals.items()
                ],
            }
            for count in sorted(counts, key=lambda count: count.rule)
        ]
    }
