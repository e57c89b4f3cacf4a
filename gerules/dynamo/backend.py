"""From a captured graph to what runs in its place: functional by AOTAutograd, compiled when it first runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from gerules.dynamo.attention import decompositions
from gerules.dynamo.compiled import GraphRunner
from gerules.dynamo.options import BackendOptions
from gerules.dynamo.reports import new_report, warn_eager
from gerules.errors import Diagnostic, table
from gerules.pipeline import PipelineError


def compile_graph_module(
    gm: Any, example_inputs: Sequence[Any], options: BackendOptions
) -> Callable[..., Any]:
    """Return a function that computes what a captured graph does, mutation and aliasing included.

    Graphs that need gradients are returned as they are, with a warning.

    Raises:
        PipelineError: E10092 for a graph that needs gradients, where `fallback` is `error`.
    """
    torch: Any = import_module("torch")
    if torch.is_grad_enabled() and any(getattr(item, "requires_grad", False) for item in example_inputs):
        report = new_report(_n_operators(gm), options.compile.device)
        if options.fallback == "error":
            raise PipelineError(table.NEEDS_GRADIENTS)
        report.state, report.reason = "eager", "it needs gradients"
        warn_eager(Diagnostic(table.NEEDS_GRADIENTS, {}, severity="warning"))
        return gm.forward
    return _functional(torch, gm, example_inputs, options)


def _functional(
    torch: Any, gm: Any, example_inputs: Sequence[Any], options: BackendOptions
) -> Callable[..., Any]:
    names = _argument_names(gm)

    def compile_functional(graph: Any, _: Sequence[Any]) -> Callable[..., Any]:
        for fx_pass in options.hooks.passes:
            fx_pass(graph)
        graph.recompile()
        report = new_report(_n_operators(graph), options.compile.device)
        if options.hooks.on_graph is not None:
            options.hooks.on_graph(graph, report.number)
        runner = GraphRunner(torch, graph, options, report, names)

        def run(args: list[Any]) -> Sequence[Any]:
            given = list(args)
            # A boxed call hands its arguments over, so that they can be freed on the way.
            args.clear()
            return runner(given)

        run._boxed_call = True  # pyright: ignore[reportFunctionMemberAccess] (torch asks for it)
        return run

    aot: Any = import_module("torch._functorch.aot_autograd")
    return aot.aot_module_simplified(
        gm,
        example_inputs,
        fw_compiler=compile_functional,
        inference_compiler=compile_functional,
        decompositions=decompositions(torch),
        # Mutated inputs come out as results, and are copied back by torch.
        keep_inference_input_mutations=False,
    )


def _argument_names(gm: Any) -> list[str]:
    """What the user calls the inputs of a captured graph: TorchDynamo makes `L_x_` of x."""
    found: list[str] = []
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            inner = re.fullmatch(r"[Ll]_(.+?)_*", str(node.target))
            found.append(inner[1] if inner else str(node.target))
    return found


def _n_operators(graph: Any) -> int:
    return sum(node.op in ("call_function", "call_module", "call_method") for node in graph.graph.nodes)
