"""`gerules rules`: what rules there are, whether their texts are sound, and whether their tests hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gerules.cli.guard import DIFFERENT, FAULT, guarded, warn
from gerules.cli.options import (
    DebugOption,
    DeviceOption,
    DisableOption,
    EnableOption,
    JsonOption,
    ProfileOption,
    RulesOption,
    choose,
    lend_names,
)
from gerules.cli.output import show, show_json, show_lines

if TYPE_CHECKING:
    from gerules.analysis.analyse import Analysis
    from gerules.dsl import RuleBook
    from gerules.dsl.syntax import Rule
    from gerules.errors import Diagnostic, Faults

rules_app = typer.Typer(
    help="List, check and test rules.", no_args_is_help=True, rich_markup_mode="rich", add_completion=False
)

DEFAULT_GENERATED: Final = 24
"""Graphs made up for one rule: enough for each kind of variation once or twice."""

PathsArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[PATH]...",
        callback=lend_names,
        help="Rule files, or folders of them; default: the shipped rules.",
    ),
]


@rules_app.command("list")
@guarded
def list_command(
    set_name: Annotated[
        str | None,
        typer.Option("--set", metavar="NAME", help="Only this rule set; `fuse` holds `fuse.conv`."),
    ] = None,
    device: DeviceOption = "host",
    profile: ProfileOption = None,
    rules: RulesOption = None,
    enable: EnableOption = None,
    disable: DisableOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List rules: what each does, which phase runs it, and whether it is on.

    For a rule that is off, the list says why.

    \b
    Examples:
      gerules rules list --set fuse.conv
      gerules rules list --device ascend310p --profile strict
    """
    from gerules.dsl import Environment, TextDevice, select_rules
    from gerules.ops import Schemas
    from gerules.passes.devices import find_device
    from gerules.report.rule_list import list_rules, rule_grid

    book = load_book(rules)
    find_device(book, device, schemas=Schemas())
    environment = Environment(
        profile=profile,
        device=TextDevice(book, book.devices[device]),
        enable=enable or (),
        disable=disable or (),
    )
    selection = select_rules(book, environment)
    if set_name is not None:
        known = {".".join(name.split(".")[:n]) for name in book.set_names for n in range(1, 5)}
        choose("--set", set_name, sorted(known))
    rows = list_rules(book, selection, set_name or "")
    if json:
        show_json({"device": device, "profile": profile, "rules": [row.as_json() for row in rows]})
        return
    where = device if profile is None else f"{device}, profile {profile}"
    show(rule_grid(rows, f"Rules for {where}"))


@rules_app.command("check")
@guarded
def check_command(
    paths: PathsArgument = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="ANALYSIS", help="Only this analysis, or `names` for none; may be repeated."
        ),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Check rule texts: names, operators and attributes, and what the rules come to together.

    Does each phase end? Which rules apply at one place? Can every guard fail,
    and is every change of a rounding admitted? Ends with exit code 1 when
    there are errors; warnings alone are no fault.

    \b
    Examples:
      gerules rules check
      gerules rules check my_rules/ extra.ger
      gerules rules check my.ger --only termination
    """
    from gerules.analysis.analyse import ANALYSES, analyse_rules
    from gerules.cli.progress import Steps
    from gerules.dsl.syntax import Rule
    from gerules.errors import Faults

    wanted = {choose("--only", name, (*ANALYSES, "names")) for name in only or ANALYSES}
    faults = Faults()
    with Steps("checking rules") as steps:
        steps.begin("reading")
        book = load_book(paths, check_tests=True, faults=faults)
        names = files_meant(book, paths)
        chosen = [rule for rule in book.rules if rule.span.source.name in names]
        analysis = analyse_rules(book, chosen, only=wanted, on_step=steps.begin)
    own = [item for item in book.warnings if item.span is None or item.span.source.name in names]
    own += [*faults.diagnostics, *analysis.diagnostics]
    n_rules = sum(
        isinstance(item, Rule) for file in book.files if file.source.name in names for item in file.items
    )
    _tell_checked(own, sorted(names), n_rules, analysis, is_json=json)


def _tell_checked(
    found: Sequence[Diagnostic],
    files: Sequence[str],
    n_rules: int,
    analysis: Analysis,
    *,
    is_json: bool,
) -> None:
    """Write what a check found, warnings first. Ends with FAULT where there are errors."""
    warnings = [item for item in found if item.severity == "warning"]
    errors = [item for item in found if item.severity == "error"]
    if is_json:
        about = {"files": files, "n_rules": n_rules, "stops": analysis.stops, "overlaps_cut": analysis.is_cut}
        told = {"errors": errors, "warnings": warnings}
        show_json({**about, **{key: [item.as_json() for item in items] for key, items in told.items()}})
    else:
        warn([*warnings, *errors])
        counts = [(len(errors), "error"), (len(warnings), "warning")]
        verdict = ", ".join(_counted(count, what) for count, what in counts if count) or "no faults"
        more = "; not all pairs of rules were looked at for overlaps" if analysis.is_cut else ""
        show(f"{_counted(len(files), 'file')}, {_counted(n_rules, 'rule')}: {verdict}{more}")
    if errors:
        raise typer.Exit(FAULT)


@rules_app.command("test")
@guarded
def test_command(
    paths: PathsArgument = None,
    rule: Annotated[
        list[str] | None, typer.Option("--rule", metavar="NAME", help="Only this rule; may be repeated.")
    ] = None,
    generated: Annotated[
        int | None,
        typer.Option(
            "--generated",
            metavar="N",
            min=0,
            help=f"Graphs made up for each rule; default {DEFAULT_GENERATED}, 0 for none.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Another seed makes up other graphs.")
    ] = 0,
    coverage: Annotated[
        bool,
        typer.Option("--coverage", help="List guards that no test sees hold or refuse; exit code 3 if any."),
    ] = False,
    mutate: Annotated[
        bool,
        typer.Option(
            "--mutate",
            help="Edit rules in small wrong ways and see whether tests notice; with --generated N also look "
            "for a test that would.",
        ),
    ] = False,
    least: Annotated[
        float,
        typer.Option(
            "--least-score",
            metavar="X",
            min=0.0,
            max=1.0,
            help="With --mutate: exit code 3 below it; so it is where a rule has no tests that hold.",
        ),
    ] = 0.0,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Run the tests that stand in rules, and look for what they miss.

    Each test runs on every variant of the pattern: a rule must fire where the
    test says so, and the graphs before and after it must compute the same.
    Then other shapes, element types, attributes and numbers are made up; what
    breaks a rule is shrunk and shown as a test to paste. Ends with exit code
    3 when a test does not hold or a rule is broken.

    \b
    Examples:
      gerules rules test
      gerules rules test my_rules/ --rule conv_bias --coverage
      gerules rules test --generated 1000 --seed 7
      gerules rules test --mutate --rule conv_bias --generated 40
    """
    from gerules.cli.progress import Steps
    from gerules.report.rule_report import counterexample_text, coverage_grid, failure_grid, outcome_line
    from gerules.report.rule_tests import test_rules

    book = load_book(paths, check_tests=True)
    chosen = _rules_meant(book, paths, rule)
    if mutate:
        _mutate(book, chosen, generated or 0, seed, least, json=json)
        return
    n_generated = DEFAULT_GENERATED if generated is None else generated
    with Steps("testing rules", len(chosen)) as steps:
        report = test_rules(book, chosen, generated=n_generated, seed=seed, on_test=steps.begin)
    if json:
        show_json(report.as_json())
    else:
        if report.failures:
            show(failure_grid(report))
        if report.counterexamples:
            show_lines([*counterexample_text(report).split("\n"), ""])
        if coverage and report.unseen:
            show(coverage_grid(report))
        show(outcome_line(report))
    if not report.is_good or (coverage and report.unseen):
        raise typer.Exit(DIFFERENT)


def _mutate(
    book: RuleBook, rules: list[Rule], generated: int, seed: int, least: float, *, json: bool
) -> None:
    """Show what became of the mutants of rules. Ends with DIFFERENT where the tests do not do."""
    from gerules.cli.progress import Steps
    from gerules.report.rule_mutation import mutate_rules
    from gerules.report.rule_report import mutant_grid, mutation_line, survivor_text

    with Steps("editing rules", len(rules)) as steps:
        report = mutate_rules(book, rules, generated=generated, seed=seed, on_rule=steps.begin)
    if json:
        show_json(report.as_json())
    else:
        if report.survivors:
            show_lines([*survivor_text(report).split("\n"), ""])
        show(mutant_grid(report), "", mutation_line(report))
    if not report.reaches(least):
        raise typer.Exit(DIFFERENT)


def _rules_meant(book: RuleBook, paths: list[Path] | None, names: list[str] | None) -> list[Rule]:
    """Return the rules that are named, else those of the files given. Raises CliError for a name of none."""
    if names:
        wanted = {choose("--rule", name, list(book.rule_by_name)) for name in names}
        return [item for item in book.rules if item.name.name in wanted]
    files = files_meant(book, paths)
    return [item for item in book.rules if item.span.source.name in files]


def load_book(
    paths: list[Path] | None, *, check_tests: bool = False, faults: Faults | None = None
) -> RuleBook:
    """Return the shipped rules, and those of more files. Raises TextError or RuleError with all faults.

    With `check_tests` the tests of shipped rules are checked at once, if these are what is meant. With
    `faults` rules at fault in more files are left out, and not raised.
    """
    from gerules.dsl.shipped import rules_folder
    from gerules.pipeline.toolchain import shipped_rules

    own = rules_folder().resolve()
    meant = not paths or any(_is_inside(str(path), own) or _is_inside(str(own), path) for path in paths)
    return shipped_rules(paths or (), check_tests=check_tests and meant, faults=faults)


def files_meant(book: RuleBook, paths: list[Path] | None) -> set[str]:
    """Return the names of the files that a command is about.

    These are the files given, those of folders given, and what they include: what stands in shipped rules
    is not the business of whoever checks rules of their own, unless they give it.
    """
    names = {file.source.name for file in book.files}
    if not paths:
        return names
    others = {file.source.name for file in load_book(None).files}
    given = [path.resolve() for path in paths]
    return {name for name in names if name not in others or any(_is_inside(name, path) for path in given)}


def _is_inside(name: str, folder: Path) -> bool:
    try:
        return Path(name).resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        return False


def _counted(count: int, what: str) -> str:
    from gerules.errors.counts import count_text

    return count_text(count, what)
