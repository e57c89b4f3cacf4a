"""The fusion result: the Graph Engine's keys, counts as texts, and where and why in the longer form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gerules.engine.trace import Trace
from gerules.errors import GerulesError, Source
from gerules.ir import parse_graph
from gerules.pipeline import compile, fusion_result, load_rules, save_fusion_result

OWN = """\
gerules 1
ruleset own.graph "graph":
    kind GraphFusion
ruleset own.ub "buffer":
    kind UBFusion
rule neg_neg in own.graph "two negations of one that has a second axis":
    alias "NegNegPass", "OtherName"
    match: y = Neg(Neg(x))
    where: x.shape[0] == 2                          else "the first axis is not 2"
    rewrite: y = Identity(x)
rule abs_abs in own.ub "two absolute values":
    match: y = Abs(Abs(x))
    rewrite: y = Abs(x)
"""

GRAPH = """\
graph g:
    opset 17
    input x: f32[2, 3]
    input z: f32[3, 3]
    a = Neg(x)
    b = Neg(a)
    c = Neg(z)
    d = Neg(c)
    e = Abs(b)
    f = Abs(e)
    return f, d
"""


def made() -> Any:
    return compile(
        parse_graph(GRAPH), rules=[Source("own.ger", OWN)], disable=["cleanup", "canonical", "fuse.eltwise"]
    )


def test_counts_are_texts_under_the_keys_of_the_graph_engine(tmp_path: Path) -> None:
    path = tmp_path / "fusion_result.json"
    save_fusion_result(made(), path)
    assert json.loads(path.read_text(encoding="utf-8")) == [
        {
            "session_and_graph_id_0_0": {
                # Two matches, one of them refused by its condition.
                "graph_fusion": {"NegNegPass": {"match_times": "2", "effect_times": "1"}},
                "ub_fusion": {
                    "abs_abs": {"match_times": "1", "effect_times": "1", "repository_hit_times": "0"}
                },
            }
        }
    ]


def test_the_long_form_holds_the_short_one_and_says_where_and_why(tmp_path: Path) -> None:
    model = made()
    save_fusion_result(model, tmp_path / "sites.json", with_sites=True)
    (whole,) = json.loads((tmp_path / "sites.json").read_text(encoding="utf-8"))
    inner = whole["session_and_graph_id_0_0"]
    (rule,) = inner["graph_fusion"]["NegNegPass"].pop("rules")
    inner["ub_fusion"]["abs_abs"].pop("rules")
    assert "cleanup" in inner.pop("off")["drop_cast"]
    assert [whole] == fusion_result(model.trace, model.compilation.tools.book)
    assert rule["rule"] == "neg_neg"
    (site,) = rule["applied"]
    assert site["sources"] and site["phase"] == "custom" and site["replaced"] == ["b"]
    assert rule["not_taken"] == [{"reason": "the first axis is not 2", "times": "1"}]


def test_rules_of_one_pass_are_counted_together() -> None:
    book = load_rules(Source("own.ger", OWN.replace("in own.ub", "in own.graph")))
    trace = Trace()
    for name, matches, applications in (("neg_neg", 2, 1), ("abs_abs", 0, 0)):
        count = trace.count(name)
        count.matches, count.applications = matches, applications
    ((key, inner),) = fusion_result(trace, book, session=3, graph=4)[0].items()
    assert key == "session_and_graph_id_3_4"
    assert inner == {
        "graph_fusion": {"NegNegPass": {"match_times": "2", "effect_times": "1"}}, "ub_fusion": {}
    }  # fmt: skip


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(GerulesError, match="E10004"):
        save_fusion_result(made(), tmp_path)
