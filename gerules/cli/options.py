"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final

import typer

from gerules.cli.errors import CliError
from gerules.errors import Faults, table

_TARGET: Final = "What to compile for"
_GEARS: Final = "Several shapes in one file"
_RULES: Final = "Which rules"
_INPUTS: Final = "Inputs"
_OUTPUT: Final = "Output"
_MOST_CHOICES: Final = 20
"""Names that are all told where one is wrong; of more, the nearest."""

_MOST_NEAR: Final = 5
_ENDINGS: Final = (".onnx", ".mindir", ".om", ".graph", ".ger", ".npz")


def _split(names: list[str] | None) -> list[str] | None:
    """`a,b` is `a` and `b`, as in a profile; no rule, set or alias has a comma in its name."""
    if names is None:
        return None
    return [name for text in names for part in text.split(",") if (name := part.strip())]


def lend_names(paths: list[Path] | None) -> list[Path] | None:
    """Let Python files among rules import what those written for Ascend do; return the paths."""
    if any(path.suffix == ".py" for path in paths or ()):
        from gerules.compat import aliases  # commands start fast

        aliases.lend_names()
    return paths


DeviceOption = Annotated[
    str,
    typer.Option("--device", "-d", metavar="NAME", help="See `gerules devices`.", rich_help_panel=_TARGET),
]
PrecisionOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODE", help="fp32, fp16, mixed_float16, ...; default: the profile's.",
        rich_help_panel=_TARGET,
    ),
]  # fmt: skip
ProfileOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="A named set of switches and settings.", rich_help_panel=_TARGET),
]
ShapesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input-shape", "--input_shape", metavar="NAME=1,3,224,224",
        help="The shape of an input, -1 or 1~8 for open sizes; may be repeated.",
        rich_help_panel=_TARGET,
    ),
]  # fmt: skip
DimOption = Annotated[
    list[str] | None,
    typer.Option(
        "--dim", metavar="N=2", help="The size of a symbolic dimension; may be repeated.",
        rich_help_panel=_TARGET,
    ),
]  # fmt: skip
BatchGearsOption = Annotated[
    str | None,
    typer.Option(
        "--dynamic-batch-size", "--dynamic_batch_size", metavar="1,2,4",
        help="Gears: sizes of the first dimension of inputs.", rich_help_panel=_GEARS,
    ),
]  # fmt: skip
ImageGearsOption = Annotated[
    str | None,
    typer.Option(
        "--dynamic-image-size", "--dynamic_image_size", metavar="H,W;H,W",
        help="Gears: heights and widths.", rich_help_panel=_GEARS,
    ),
]  # fmt: skip
DimsGearsOption = Annotated[
    str | None,
    typer.Option(
        "--dynamic-dims", "--dynamic_dims", metavar="1,128;8,64",
        help="Gears: a size for each -1 of --input-shape.", rich_help_panel=_GEARS,
    ),
]  # fmt: skip
HybridOption = Annotated[
    int,
    typer.Option(
        "--compile-hybrid-mode", "--compile_hybrid_mode", metavar="0|1", min=0, max=1,
        help="1 adds a plan for any other shape.", rich_help_panel=_GEARS,
    ),
]  # fmt: skip
KeepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--keep-dtype", metavar="NODE", help="A node, by its name in the model, that keeps its types.",
        rich_help_panel=_TARGET,
    ),
]  # fmt: skip
RulesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--rules",
        metavar="PATH",
        callback=lend_names,
        help="More rules: a .ger file, a folder of them, or a Python file.",
        rich_help_panel=_RULES,
    ),
]
EnableOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME,...", help="Switch on rules, rule sets, aliases, or all; may be repeated.",
        callback=_split, rich_help_panel=_RULES,
    ),
]  # fmt: skip
DisableOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME,...", help="Switch off rules, rule sets, aliases, or all; may be repeated.",
        callback=_split, rich_help_panel=_RULES,
    ),
]  # fmt: skip
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="The value of a rule parameter.", rich_help_panel=_RULES
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Write the report as JSON.", rich_help_panel=_OUTPUT)
]
DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show tracebacks of faults.", rich_help_panel=_OUTPUT)
]

InputsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME=FILE.npy",
        help="An input, or all.npz with several. What is left out is made up.",
        rich_help_panel=_INPUTS,
    ),
]
SeedOption = Annotated[
    int, typer.Option(metavar="N", min=0, help="What made-up inputs follow from.", rich_help_panel=_INPUTS)
]

Param = bool | int | float | str


def read_shapes(texts: Sequence[str] | None) -> dict[str, tuple[int | str, ...]]:
    """Read `--input-shape` values. Raises PassError E10040 and E10044."""
    from gerules.passes.bind import parse_shapes

    return dict(parse_shapes(";".join(texts or ())))


def read_params(texts: Sequence[str] | None) -> dict[str, Param]:
    """Read `--set` values: whole numbers, numbers, true and false, anything else as text.

    Raises:
        CliError: E10003 for each that is no NAME=VALUE or comes twice.
    """
    return {name: _value(text) for name, text in read_pairs("--set", texts).items()}


def read_pairs(option: str, texts: Sequence[str] | None) -> dict[str, str]:
    """Read NAME=VALUE texts. Raises CliError E10003, all faults together."""
    faults = Faults()
    found: dict[str, str] = {}
    for text in texts or ():
        name, mark, value = text.partition("=")
        name = name.strip().removeprefix("$")
        if not mark or not name:
            reason = "there is no `=`" if not mark else "there is no name"
        elif name in found:
            reason = f"{name} is given twice"
        else:
            found[name] = value.strip()
            continue
        faults.add(table.BAD_OPTION, option=option, value=text, reason=reason, remedy="write NAME=VALUE")
    faults.raise_if_any(CliError)
    return found


def read_dims(texts: Sequence[str] | None, *, least: int = 1) -> dict[str, int]:
    """Read `--dim N=2` values from `least` on. Raises CliError E10003, all faults together."""
    faults = Faults()
    found: dict[str, int] = {}
    for name, text in read_pairs("--dim", texts).items():
        if text.isascii() and text.isdigit() and 0 < len(text) <= 18 and int(text) >= least:
            found[name] = int(text)
        else:
            faults.add(
                table.BAD_OPTION, option="--dim", value=f"{name}={text}",
                reason=f"a size is a whole number from {least} on", remedy="write it like --dim N=2",
            )  # fmt: skip
    faults.raise_if_any(CliError)
    return found


def read_size(option: str, text: str) -> int:
    """Read a size in bytes: `4096`, `512MiB`, `1.5 GiB`. Raises CliError E10003."""
    from gerules.text.sizes import parse_size

    size = parse_size(text)
    if size is None:
        raise CliError(
            table.BAD_OPTION, option=option, value=text, reason="it is no size",
            remedy="write a number of bytes, or like 512MiB",
        )  # fmt: skip
    return size


def check_writable(paths: Iterable[Path | None], *, sources: Iterable[Path | None] = ()) -> None:
    """Find out before a long work whether its results can be written.

    Args:
        sources: Files that the work reads; a result that replaced one of them would destroy it.

    Raises:
        CliError: E10004 for each path whose folder is missing or refuses, that is a folder, a pipe or a
            device, or one of the sources.
    """
    import os

    from gerules.text.files import refusal_to_write

    faults = Faults()
    read = [path for path in sources if path is not None]
    for path in paths:
        if path is None:
            continue
        try:
            folder = path.parent
            reason = refusal_to_write(path)
            if reason is not None:
                pass
            elif not folder.is_dir():
                reason = f"there is no folder {folder}"
            elif not os.access(folder, os.W_OK):
                reason = f"the folder {folder} is read-only"
            elif any(_is_same_file(path, source) for source in read):
                reason = "it is read too"
            else:
                continue
        except (OSError, ValueError) as error:
            reason = str(error)
        faults.add(table.CANNOT_WRITE, path=path, reason=reason)
    faults.raise_if_any(CliError)


def check_ending(path: Path | None, *, wanted: Sequence[str]) -> None:
    """Refuse to write one kind of file under the ending of another: every reader goes by the ending.

    Raises:
        CliError: E10003 when the name ends as a kind of file that is not among those wanted.
    """
    if path is not None and path.suffix.lower() in {*_ENDINGS} - {*wanted}:
        raise CliError(
            table.BAD_OPTION, option="--output", value=path,
            reason=f"what is written is no {path.suffix.lower()} file",
            remedy=f"end the name in {' or '.join(wanted)}",
        )  # fmt: skip


def _is_same_file(path: Path, other: Path) -> bool:
    """Whether two names lead to one file, by whatever links."""
    try:
        return path.samefile(other)
    except (OSError, ValueError):
        return False


def _value(text: str) -> Param:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def choose(option: str, value: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """Return the value if it is one of those known. Raises CliError E10003 with the nearest."""
    from gerules.dsl.book import suggest

    if value in known:
        return value
    remedy = f"use one of {', '.join(known)}"
    if len(known) > _MOST_CHOICES:
        near = get_close_matches(value, known, n=_MOST_NEAR) or list(known)[:_MOST_NEAR]
        remedy = f"use one of {len(known)} names, such as {', '.join(near)}"
    raise CliError(
        table.BAD_OPTION, option=option, value=value, reason="there is no such choice",
        remedy=remedy, notes=suggest(value, known),
    )  # fmt: skip
