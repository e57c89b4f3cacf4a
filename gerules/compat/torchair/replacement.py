"""register_replacement: patterns on graphs of aten operators, found by torch's own matcher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final

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
    """
    matcher: Any = import_module("torch._inductor.pattern_matcher")
    if not _PASSES:
        _PASSES.append(matcher.PatternMatcherPass(pass_name="gerules"))
    options: dict[str, Any] = {} if extra_check is None else {"extra_check": extra_check}
    matcher.register_replacement(
        search_fn,
        replace_fn,
        list(example_inputs),
        trace_fn or _traced_without_decompositions,
        _PASSES[0],
        search_fn_pattern=search_fn_pattern,
        scalar_workaround=scalar_workaround,
        skip_duplicates=skip_duplicates,
        **options,
    )


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
