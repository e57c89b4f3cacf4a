"""Options of the backend: what `torch.compile(options=...)` may say, checked all at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast, runtime_checkable

from gerules.dsl import RuleBook
from gerules.dsl.book import suggest
from gerules.errors import Faults, Source, table
from gerules.pipeline import CompiledModel, CompileOptions, PipelineError, read_fusion_switch
from gerules.pipeline.api import Rules
from gerules.pipeline.toolchain import HOST

Fallback = Literal["eager", "error"]

FxPass = Callable[[Any], object]
"""Changes a `torch.fx.GraphModule` of aten operators in place; what it returns is not looked at."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a face such as TorchAir's does on the way, around the compile of a graph.

    Attributes:
        passes: Applied to the graph of aten operators before it is compiled, in order.
        on_graph: Told each graph after these, with its number.
        on_compiled: Told each compiled model, with the number of its graph.
        around: Runs a graph (its module, its arguments, its number) in the place of a compiled model.
        run_model: Runs a compiled model with its feeds, with the number of its graph; None is `model.run`.
        translations: What makes ONNX of an operator, by `torch._ops.OpOverload`; before those of torch.
        zips_gears: Whether the gears of several dimensions go together one by one; else all combinations do.
    """

    passes: tuple[FxPass, ...] = ()
    on_graph: Callable[[Any, int], object] | None = None
    on_compiled: Callable[[Any, int], object] | None = None
    around: Callable[[Any, Sequence[Any], int], Sequence[Any]] | None = None
    run_model: Callable[[CompiledModel, Mapping[str, Any], int], Mapping[str, Any]] | None = None
    translations: Callable[[], Mapping[Any, Callable[..., Any]]] | None = None
    zips_gears: bool = True


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """What a `torch.compile` is asked for.

    Attributes:
        compile: Options of the compile, for the device that they name.
        rules: More rules, as `gerules.compile` takes them.
        fallback: What happens to a graph that cannot be compiled: `eager` runs it by torch, with a warning.
        cache_size: Most compiled models that one graph keeps, one for each set of shapes.
        freeze: Whether parameters are constants. They are compiled anew when torch counts a change.
        verify_rtol: Largest relative error against torch on the first run of each model; None checks none.
        cache: Whether equal compiles of earlier processes are taken, as `gerules.compile` takes it.
        hooks: What another face does on the way.
    """

    compile: CompileOptions = field(default_factory=CompileOptions)
    rules: Rules = ()
    fallback: Fallback = "eager"
    cache_size: int = 16
    freeze: bool = True
    verify_rtol: float | None = None
    cache: bool | str | Path = False
    hooks: Hooks = Hooks()


@runtime_checkable
class HasBackendOptions(Protocol):
    """A configuration of another face, which knows what it comes to here."""

    def as_backend_options(self) -> BackendOptions:
        """Return the options of the backend. Raises what its face raises."""
        ...


_COMPILE: Final = (
    "device", "precision", "profile", "enable", "disable", "params", "pipeline", "keep_dtype", "folds",
    "n_streams", "memory_limit_bytes",
)  # fmt: skip
_OWN: Final = ("rules", "fusion_switch_file", "fallback", "cache_size", "freeze", "verify_rtol", "cache")
OPTION_NAMES: Final = (*_COMPILE, *_OWN)
"""What a dictionary of options may hold."""

_ELSEWHERE: Final = {
    "input_shapes": "shapes come from torch",
    "dims": "sizes come from torch",
    "dynamic": "it is an argument of torch.compile itself",
    "stop_after": "what stops early cannot run",
    "observe": "gerules.dynamo.reports() tells of each graph",
    "example_inputs": "torch gives the inputs",
    "dynamic_shapes": "torch.compile(dynamic=...) says which sizes stay open",
    "mode": "it names presets of another backend",
}

_KINDS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "device": ((str,), "a name"),
    "precision": ((str, type(None)), "a name"),
    "profile": ((str, type(None)), "a name"),
    "pipeline": ((str,), "a name"),
    "enable": ((str, tuple, list), "a name or several"),
    "disable": ((str, tuple, list), "a name or several"),
    "keep_dtype": ((str, tuple, list), "a name or several"),
    "params": ((Mapping,), "values by name"),
    "folds": ((bool,), "True or False"),
    "freeze": ((bool,), "True or False"),
    "n_streams": ((int, type(None)), "a whole number from 1"),
    "memory_limit_bytes": ((int, type(None)), "a whole number from 0"),
    "cache_size": ((int,), "a whole number from 1"),
    "verify_rtol": ((int, float, type(None)), "a number from 0"),
    "rules": ((str, Path, Source, RuleBook, tuple, list), "a file of rules, a folder, or several"),
    "fusion_switch_file": ((str, Path), "a path"),
    "cache": ((bool, str, Path), "True, False or a folder"),
}


def read_options(given: object, mode: object = None) -> BackendOptions:
    """Return the options that a user gave: none, a dictionary by name, or the configuration of a face.

    Raises:
        PipelineError: E10090 for each name that is no option, with what is near; E10003 for each value of
            another kind than its option's.
    """
    if isinstance(given, BackendOptions):
        return given
    if isinstance(given, HasBackendOptions):
        return given.as_backend_options()
    items: dict[str, object] = dict(cast("Mapping[str, object]", given)) if isinstance(given, Mapping) else {}
    faults = Faults()
    if given is not None and not isinstance(given, Mapping):
        _bad(faults, "options", type(given).__name__, "it is no dictionary", "give options by name")
    if mode not in (None, "default"):
        items["mode"] = mode
    for name, value in items.items():
        if name not in OPTION_NAMES:
            notes = [_ELSEWHERE[name]] if name in _ELSEWHERE else suggest(str(name), OPTION_NAMES)
            faults.add(table.UNKNOWN_BACKEND_OPTION, name=name, known=", ".join(OPTION_NAMES), notes=notes)
        else:
            _check_kind(faults, name, value)
    faults.raise_if_any(PipelineError)
    return _made_of(items)


def _check_kind(faults: Faults, name: str, value: object) -> None:
    if name == "fallback":
        if value not in ("eager", "error"):
            _bad(faults, name, value, "it is neither", 'give "eager" or "error"')
    elif name in _KINDS:
        kinds, words = _KINDS[name]
        is_flag = isinstance(value, bool) and bool not in kinds
        if is_flag or not isinstance(value, kinds) or _is_outside(name, cast(object, value)):
            _bad(faults, name, cast(object, value), f"it has to be {words}", f"give {words}")


_LEAST: Final = {"cache_size": 1, "n_streams": 1, "memory_limit_bytes": 0, "verify_rtol": 0}


def _is_outside(name: str, value: object) -> bool:
    """Whether a number is below what makes sense, or none; or a list of rules holds something else."""
    if name == "rules" and isinstance(value, tuple | list):
        return not all(isinstance(item, str | Path | Source) for item in cast("Sequence[object]", value))
    least = _LEAST.get(name)
    return least is not None and value is not None and not least <= cast(float, value) < math.inf


def _bad(faults: Faults, option: str, value: object, reason: str, remedy: str) -> None:
    faults.add(table.BAD_OPTION, option=option, value=value, reason=reason, remedy=remedy)


def _made_of(items: Mapping[str, Any]) -> BackendOptions:
    chosen: dict[str, Any] = {name: items[name] for name in _COMPILE if name in items}
    for name in ("enable", "disable", "keep_dtype"):
        if name in chosen:
            chosen[name] = (chosen[name],) if isinstance(chosen[name], str) else tuple(chosen[name])
    chosen.setdefault("device", HOST)
    if "fusion_switch_file" in items:
        chosen["fusion_switch"] = read_fusion_switch(items["fusion_switch_file"])
    own = {name: items[name] for name in _OWN if name in items and name != "fusion_switch_file"}
    return BackendOptions(CompileOptions(**chosen), **own)
