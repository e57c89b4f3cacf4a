"""The options that say what to compile for, once for all commands that compile."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from gerules.cli.options import (
    DeviceOption,
    DimOption,
    DisableOption,
    EnableOption,
    KeepOption,
    PrecisionOption,
    ProfileOption,
    RulesOption,
    SetOption,
    ShapesOption,
    read_dims,
    read_params,
    read_shapes,
)

if TYPE_CHECKING:  # commands start fast: what compiles is imported by those that compile
    from gerules.pipeline.asking import Target

_NAME: Final = "target"


def targeted(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a target in place of its parameter `target`, which gets what they say."""
    own = inspect.signature(command)
    options = inspect.signature(_read)
    hints: dict[str, Any] = {}
    for function in (command, _read):
        hints |= get_type_hints(function, localns={"Target": object}, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.parameters.items():
        group = options.parameters.values() if name == _NAME else [parameter]
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters += [item.replace(kind=kind, annotation=hints[item.name]) for item in group]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        target = _read(**{name: given.pop(name) for name in options.parameters})
        command(**given, **{_NAME: target})

    run.__signature__ = own.replace(parameters=parameters)  # pyright: ignore[reportAttributeAccessIssue] (typer reads it)
    run.__annotations__ = {item.name: item.annotation for item in parameters}
    return run


def _read(
    device: DeviceOption = "host",
    precision: PrecisionOption = None,
    profile: ProfileOption = None,
    input_shape: ShapesOption = None,
    dim: DimOption = None,
    keep_dtype: KeepOption = None,
    rules: RulesOption = None,
    enable: EnableOption = None,
    disable: DisableOption = None,
    param: SetOption = None,
) -> Target:
    return {
        "device": device,
        "precision": precision,
        "profile": profile,
        "rules": rules or (),
        "enable": enable or (),
        "disable": disable or (),
        "input_shapes": read_shapes(input_shape) or None,
        "dims": read_dims(dim) or None,
        "keep_dtype": keep_dtype or (),
        "params": read_params(param),
    }


def rule_files(target: Target) -> tuple[Path, ...]:
    """Return the files of rules that a target names."""
    return tuple(Path(item) for item in target.get("rules", ()) if isinstance(item, str | Path))
