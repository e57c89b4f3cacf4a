"""`gerules export-pass`: rules become custom passes of the Graph Engine, in Python or C++."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gerules.cli.errors import CliError
from gerules.cli.guard import fail, guarded, warn
from gerules.cli.options import DebugOption, JsonOption, check_writable, choose
from gerules.cli.output import show_json, show_text, tell
from gerules.errors import table


@guarded
def export_pass_command(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PATH]...", help="Rule files, or folders of them; default: the shipped rules."
        ),
    ] = None,
    lang: Annotated[str, typer.Option("--lang", metavar="LANG", help="python or cpp.")] = "python",
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", metavar="NAME", help="Only this rule; may be repeated."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The folder to write into; default: stdout."),
    ] = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Write rules as custom fusion passes of the Graph Engine.

    What a pass cannot say is told with the place in the rule. Ends with exit
    code 1 when none of the rules can be a pass.

    \b
    Examples:
      gerules export-pass my_rules/ --lang cpp -o passes/
      gerules export-pass --rule swish --lang python
    """
    from gerules.cli.compiling import make_folder
    from gerules.errors.counts import count_text
    from gerules.exporting.export import SUFFIXES, choose_rules, export_rules
    from gerules.pipeline.toolchain import own_rules, shipped_rules
    from gerules.text.files import write_files

    language = "cpp" if choose("--lang", lang, ("python", "cpp")) == "cpp" else "python"
    base, book = own_rules(), shipped_rules(paths or ())
    given = book.rules[len(base.rules) :] if paths else book.rules
    source = ", ".join(path.name for path in paths) if paths else "the rules of gerules"
    if not given and not rule:
        raise CliError(table.NO_RULE_TO_EXPORT, source=source)
    found = export_rules(book, choose_rules(book, rule or (), given), language, source=source)
    if not found.passes:
        fail(found.refused, is_json=json)
    stem = paths[0].stem if paths else "gerules"
    target = None if output is None else output / f"{stem}_passes{SUFFIXES[language]}"
    if target is not None:
        make_folder(target.parent)
        check_writable([target], sources=paths or ())
        try:
            write_files([(target, lambda file: file.write(found.text.encode("utf-8")))])
        except OSError as error:
            reason = error.strerror or str(error)
            raise CliError(table.CANNOT_WRITE, path=target, reason=reason) from None
    if json:
        show_json(
            {
                "language": language,
                "passes": {name: list(passes) for name, passes in found.passes.items()},
                "refused": [item.as_json() for item in found.refused],
                "counts": found.counts(),
                "output": None if target is None else str(target),
            }
        )
        return
    warn(found.refused)
    if target is None:
        show_text(found.text)
    n_passes = sum(len(passes) for passes in found.passes.values())
    where = f" in {target}" if target is not None else ""
    tell(
        f"{count_text(n_passes, 'pass')} of {count_text(len(found.passes), 'rule')}{where}; "
        f"{count_text(len(found.refused), 'rule')} not written"
    )
