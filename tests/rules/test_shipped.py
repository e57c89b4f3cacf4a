"""The shipped rules: they load, every test in them holds, every guard has one, names of GE are real."""

from __future__ import annotations

import functools

import pytest

from gerules.cli.rules import DEFAULT_GENERATED
from gerules.dsl.book import RuleBook
from gerules.dsl.load import load_rules
from gerules.dsl.shipped import rules_folder
from gerules.dsl.syntax import Rule
from gerules.ops import Schemas
from gerules.report.rule_tests import test_rules as run_rule_tests


@functools.cache
def book() -> RuleBook:
    return load_rules([rules_folder()], schemas=Schemas())


def sets() -> list[str]:
    return [name for name in book().set_names if book().rules_of(name)]


def test_the_book_loads_without_warnings():
    assert book().rules
    assert [str(item.message) for item in book().warnings] == []


@pytest.mark.parametrize("name", sets())
def test_rules_of_a_set_keep_their_promises(name: str):
    """All that `gerules rules test` asks of them, so that CI does not run it again."""
    report = run_rule_tests(book(), book().rules_of(name), generated=DEFAULT_GENERATED)
    assert report.untested == []
    assert report.n_instances >= report.n_tests
    assert report.n_generated == report.n_rules * DEFAULT_GENERATED
    assert [str(failure) for failure in report.failures] == []
    assert [f"{item.rule}: {item.reason}\n{item.block}" for item in report.counterexamples] == []
    # Each guard is seen to hold by one test, and to refuse by another.
    assert [f"{guard.span}: {guard.text}: none lets it {guard.lacks}" for guard in report.unseen] == []


def test_every_set_is_declared_and_run_by_a_phase():
    run = {name.name for phase in book().phases.values() for name in (*phase.run, *phase.then)}
    assert set(sets()) == set(book().rulesets)
    assert set(sets()) <= run
    # A compile for a device needs legalization, so that no ALL:off of a switch file may reach it.
    without_kind = {name for name, ruleset in book().rulesets.items() if ruleset.kind is None}
    assert without_kind == {"legalize.decompose", "legalize.lower"}
    assert {phase.name for phase in book().pipelines["default"].phases} <= set(book().phases)


def rules_with_guards() -> list[Rule]:
    return [rule for rule in book().rules if any(True for _ in rule.guards)]


def test_guards_have_reasons_in_words():
    bare = [rule.name.name for rule in rules_with_guards() for guard in rule.guards if not guard.reason]
    # `ordered` picks one match of several alike; it refuses nothing that a user could want.
    assert bare == ["transdata_shared"]


def test_files_keep_the_house_style():
    for path in rules_folder().rglob("*.ger"):
        text = path.read_text("utf-8")
        assert text.startswith("# "), f"{path.name} does not say its subject"
        assert "\ngerules 1\n" in text, f"{path.name} does not name the language version"
        wide = [line for line in text.splitlines() if len(line) > 110]
        assert wide == [], f"{path.name} has wide lines"


@pytest.mark.parametrize("device", ["host", "ascend310", "ascend310p", "ascend910a", "ascend910b"])
def test_devices_place_every_operator_that_rules_build(device: str):
    """Each `ge::` operator with a definition has an engine on every device that does not lack it."""
    from gerules.passes.devices import find_device

    found = find_device(book(), device, schemas=Schemas())
    homeless = [op for op in book().defines if not found.engines_of(op) and not found.lacks(op)]
    assert homeless == []
