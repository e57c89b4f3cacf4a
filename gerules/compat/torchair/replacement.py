"""register_replacement: patterns on graphs of aten operators, found by torch's own matcher."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, cast

from gerules.compat.torchair.error import ConfigError
from gerules.errors import table
from gerules.frontends.torch.exclusive import alone

_PASSES: Final[list[Any]] = []
"""The pass that holds all patterns, once there is one."""


def register_replacement(
    search_fn: Callable[..., Any],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[Any],
    trace_fn: Callable[..., Any] | None = None,
    extra_check: Callable[[Any], bool] | None = None,
    search_fn_pattern: Any = None,
    scalar_workaround: dict[str, float | int] | None = None,
    skip_duplicates: bool = False,
) -> None:
    """Replace what `search_fn` computes by what `replace_fn` does, in graphs that are compiled from now on.

    Args:
        search_fn: The pattern, as a function of tensors.
        replace_fn: What computes the same, of the same tensors.
        example_inputs: Inputs to trace both with.
        trace_fn: How they are traced; without it, for inference.
        extra_check: Told each match; what it refuses stays as it is.
        search_fn_pattern: The pattern, already made.
        scalar_workaround: Numbers for parameters of the pattern that are no tensors.
        skip_duplicates: Whether a pattern that is there already is left out without a word.

    Raises:
        ConfigError: E10116 for what are no functions, or functions that do not take the inputs.
    """
    given = list(_checked(search_fn, replace_fn, example_inputs, scalar_workaround or {}))
    matcher: Any = import_module("torch._inductor.pattern_matcher")
    if not _PASSES:
        _PASSES.append(matcher.PatternMatcherPass(pass_name="gerules"))
    options: dict[str, Any] = {} if extra_check is None else {"extra_check": extra_check}
    try:
        with alone():
            matcher.register_replacement(
                search_fn,
                replace_fn,
                given,
                trace_fn or _traced_without_decompositions,
                _PASSES[0],
                search_fn_pattern=search_fn_pattern,
                scalar_workaround=scalar_workaround,
                skip_duplicates=skip_duplicates,
                **options,
            )
    except ConfigError:
        raise
    except Exception as error:  # whatever the functions and torch raise
        raise _refused(f"{type(error).__name__}: {error}".splitlines()[0]) from None


def _checked(
    search_fn: Any, replace_fn: Any, example_inputs: Any, scalars: dict[str, float | int]
) -> Sequence[Any]:
    for name, function in (("search_fn", search_fn), ("replace_fn", replace_fn)):
        if not callable(function):
            raise _refused(f"{name} is {function!r}, and no function")
    if not isinstance(example_inputs, tuple | list):
        raise _refused("example_inputs is no list of inputs")
    inputs = cast("Sequence[Any]", example_inputs)
    search, replace = (list(inspect.signature(item).parameters) for item in (search_fn, replace_fn))
    if search != replace:
        both = f"search_fn({', '.join(search)}) and replace_fn({', '.join(replace)})"
        raise _refused(f"{both} do not take the same")
    wanted = [name for name in search if name not in scalars]
    if len(wanted) != len(inputs):
        raise _refused(f"the functions take {', '.join(wanted)}, and example_inputs has {len(inputs)}")
    return inputs


def _refused(reason: str) -> ConfigError:
    return ConfigError(table.NOT_REGISTERED, what="the replacement", reason=reason)


def _traced_without_decompositions(fn: Any, args: Sequence[Any], **options: Any) -> Any:
    """Graphs come to the backend in the operators that were called, so patterns have to do so too."""
    matcher: Any = import_module("torch._inductor.pattern_matcher")
    options["get_decomp_fn"] = dict
    return matcher.fwd_only(fn, args, **options)


def apply_replacements(graph: Any) -> int:
    """Apply all patterns to a graph of aten operators, and return how often one did."""
    if not _PASSES:
        return 0
    count = int(_PASSES[0].apply(graph.graph))
    if count:
        graph.graph.lint()
        graph.recompile()
    return count
