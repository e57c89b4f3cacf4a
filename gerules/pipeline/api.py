"""The library's face: compile, load, save, rewrite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import onnx

from gerules.backend.definitions import graphs_in
from gerules.dsl import Function, RuleBook
from gerules.dsl.values import Value
from gerules.engine.trace import Trace
from gerules.errors import Faults, table
from gerules.errors.arguments import checked
from gerules.frontends import (
    FUSED_DOMAIN,
    NO_EXAMPLES,
    Examples,
    ModelError,
    TorchModel,
    kind_of,
    load_onnx,
    read_torch,
    recognize,
    refuse_examples,
    save_graph_text,
    save_onnx,
)
from gerules.frontends import load as load_file
from gerules.ir import Dim, Graph, Node, ValueType
from gerules.ir.collector import paused_collector
from gerules.ops import infer_graph
from gerules.ops.size_names import own_names, without_names
from gerules.passes.bind import bind_shapes, parse_shapes
from gerules.passes.gear_options import gear_text
from gerules.passes.growth import prepare_within
from gerules.pipeline.cache import cache_settings, compile_cached
from gerules.pipeline.compiler import compile_graph
from gerules.pipeline.errors import PipelineError
from gerules.pipeline.fusion_switch import read_fusion_switch
from gerules.pipeline.model import CompiledModel
from gerules.pipeline.options import CompileOptions
from gerules.pipeline.phases import phase_names, run_phases
from gerules.pipeline.plugins import find_frontends
from gerules.pipeline.stages import Observe
from gerules.pipeline.toolchain import (
    HOST,
    RuleInput,
    Toolchain,
    evaluate_node,
    make_toolchain,
    shipped_rules,
)

Model = str | Path | Graph | onnx.ModelProto | TorchModel
"""What a compile starts from: a file, a graph, an ONNX model in memory, or a model of torch."""

Names = str | Sequence[str]
"""One name, or several."""

Rows = str | Sequence[int | Sequence[int]]
"""Gears: a text as ATC takes it, or numbers."""

Rules = RuleInput | Sequence[RuleInput]
"""One rule file, folder or text, or several."""

FUSION: str = "fusion"
"""The pipeline that `rewrite` runs: everything that is independent of a device's formats."""


@checked("model")
def compile(
    model: Model,
    *,
    device: str = HOST,
    precision: str | None = None,
    profile: str | None = None,
    rules: RuleBook | Rules = (),
    enable: Names = (),
    disable: Names = (),
    input_shapes: Mapping[str, Sequence[Dim]] | str | None = None,
    dims: Mapping[str, int] | None = None,
    dynamic_batch_size: Rows | None = None,
    dynamic_image_size: Rows | None = None,
    dynamic_dims: Rows | None = None,
    compile_hybrid_mode: bool | int = False,
    keep_dtype: Names = (),
    params: Mapping[str, Value] | None = None,
    fusion_switch_file: str | Path | None = None,
    pipeline: str = "default",
    n_streams: int | None = None,
    memory_limit_bytes: int | None = None,
    stop_after: str | None = None,
    observe: Observe | None = None,
    cache: bool | str | Path = False,
    example_inputs: object | None = None,
    dynamic_shapes: object | None = None,
) -> CompiledModel:
    """Compile a model for a device.

    Where several names or rule files may be given, one may stand alone.

    Args:
        model: A file (`.onnx`, `.graph`, `.pt`, `.pt2`), a graph, an ONNX model in memory, a
            `torch.nn.Module`, a TorchScript module, or a `torch.export.ExportedProgram`.
        device: A device of the rules: `host`, `ascend310`, `ascend310p`, `ascend910a`, `ascend910b`, or
            one that your rule files declare.
        precision: `fp32`, `fp16`, `mixed_float16`. Without it, what the profile or the device says.
        profile: A profile of the rules, such as `blocks` or `strict`.
        rules: More rule files, folders or texts, or a book from `load_rules`; the rules that come with
            gerules are always there.
        enable: Rules, rule sets or aliases to switch on.
        disable: And off.
        input_shapes: Shape by input name, where the model leaves it open; or a text of them like
            `data:1,3,224,224;mask:1,128`. -1 is a size that stays open.
        dims: Size by name of a symbolic dimension.
        dynamic_batch_size: Gears: sizes of the first dimension of the inputs, `"1,2,4,8"` or `[1, 2, 4, 8]`.
            The one `.om` has a plan for each, and they share weights and arena.
        dynamic_image_size: Gears of height and width, `"224,224;448,448"`.
        dynamic_dims: Gears of all open dimensions, input by input, `"1,128;8,64"`.
        compile_hybrid_mode: Add to the gears a plan that runs any other shape.
        keep_dtype: Nodes that keep their element type: names of the model, or `OpType::Conv`.
        params: Values for `param`s of the rules.
        fusion_switch_file: A fusion switch file of the Graph Engine, in either form. It weighs more than the
            profile, and less than `enable` and `disable`.
        pipeline: The pipeline of phases to run.
        n_streams: Most streams for one engine.
        memory_limit_bytes: Largest arena; without it the device's memory.
        stop_after: Name of the last stage to run.
        observe: Told of each stage as it ends; of nothing when the result comes from the cache.
        cache: Whether an equal compile of before may be taken, and this one is kept: True for the folder that
            the environment says, or a folder. The model's `cache` tells what came of it. What an entry does
            not hold, such as `graph` and `trace`, is compiled again by the first who asks.
        example_inputs: What a module of torch is traced with: a tensor, several by position, or a mapping
            by name. For a TorchScript file whose inputs are all float32, `input_shapes` are enough.
        dynamic_shapes: Which sizes of a traced module stay open, as `torch.export.export` takes them; a
            size may be named by a text.

    Raises:
        GerulesError: with every fault of the stage that fails: E1 files and options, E2 switch files,
            E3 types, E4 rules, E5 operators and engines, E6 memory, E8 the offline model.
    """
    _check_numbers(compile_hybrid_mode, n_streams, memory_limit_bytes)
    shapes = parse_shapes(input_shapes) if isinstance(input_shapes, str) else input_shapes
    options = CompileOptions(
        device=device,
        precision=precision,
        profile=profile,
        enable=_listed(enable),
        disable=_listed(disable),
        params=dict(params or {}),
        fusion_switch=None if fusion_switch_file is None else read_fusion_switch(fusion_switch_file),
        pipeline=pipeline,
        input_shapes=shapes,
        dims=dims,
        dynamic_batch_size=gear_text(dynamic_batch_size),
        dynamic_image_size=gear_text(dynamic_image_size),
        dynamic_dims=gear_text(dynamic_dims),
        compile_hybrid_mode=bool(compile_hybrid_mode),
        keep_dtype=_listed(keep_dtype),
        n_streams=n_streams,
        memory_limit_bytes=memory_limit_bytes,
        stop_after=stop_after,
    )
    book = book_of(rules)
    graph = graph_of(model, book, Examples(example_inputs, dynamic_shapes, shapes))
    if cache is False:
        return CompiledModel(compile_graph(graph, book, options, observe))
    settings = cache_settings(None if cache is True else cache)
    return compile_cached(graph, book, options, settings, observe)


@checked("path")
def load(
    path: str | Path | TorchModel,
    *,
    rules: RuleBook | Rules | None = None,
    example_inputs: object | None = None,
    dynamic_shapes: object | None = None,
    input_shapes: Mapping[str, Sequence[Dim]] | str | None = None,
) -> Graph:
    """Read a model file: `.onnx`, graph text, TorchScript, an exported program, or what a plugin reads.

    Fused operators that `save` wrote as functions of an ONNX model are fused operators again. A function
    that says something else than the rules do for an operator of its name is expanded.

    Args:
        path: A file, or a model of torch in memory.
        rules: What defines operators, as `rewrite` takes it; without it the rules that come with gerules.
        example_inputs: What a module of torch is traced with, as `compile` takes it.
        dynamic_shapes: Which of its sizes stay open.
        input_shapes: Shapes of inputs that the model leaves open, as `compile` takes them. For a TorchScript
            model whose inputs are all float32, they are enough to trace it with.

    Raises:
        ModelError: E10001 when it cannot be read, E10002 when it is no known kind of file, E10080 to E10087
            for models of torch, and every fault of the file.
    """
    shapes = parse_shapes(input_shapes) if isinstance(input_shapes, str) else input_shapes
    examples = Examples(example_inputs, dynamic_shapes, shapes)
    is_file = isinstance(path, str | Path)
    graph = _load(path, rules, examples) if is_file else _read_object(path, examples)
    return bind_shapes(graph, shapes, None) if shapes else graph


def _load(path: str | Path, rules: RuleBook | Rules | None, examples: Examples) -> Graph:
    return _recognized(load_file(path, examples=examples, others=lambda: find_frontends().frontends), rules)


def _read_object(model: object, examples: Examples) -> Graph:
    if kind_of(model) is None:
        raise ModelError(table.NO_MODEL, kind=type(model).__name__)
    return read_torch(model, examples)


@checked()
def load_rules(paths: Rules = (), *, functions: Mapping[str, Function] | None = None) -> RuleBook:
    """Read rule files, folders or texts, on top of the rules that come with gerules; all are checked.

    Args:
        functions: What Python gives to `extern` lines, such as a `FunctionTable` of your own. Then nothing
            that is registered in this process takes part: no functions, no patterns, no plugins.

    Raises:
        TextError, RuleError: every fault of every file.
    """
    return shipped_rules([paths] if isinstance(paths, RuleInput) else list(paths), functions)


@checked("graph")
def rewrite(
    graph: Model,
    rules: RuleBook | Rules | None = None,
    *,
    device: str = HOST,
    precision: str | None = None,
    profile: str | None = None,
    enable: Names = (),
    disable: Names = (),
    pipeline: str = FUSION,
    fold: bool = True,
    max_growth: float | None = 1.05,
    onnx_only: bool = False,
    example_inputs: object | None = None,
    dynamic_shapes: object | None = None,
) -> tuple[Graph, Trace]:
    """Rewrite a graph by rules: its types are inferred, constants folded, then the phases of a pipeline run.

    All of it is repeated until nothing changes, so that a second call changes nothing. Rules of your own
    files that no phase names run right before the pipeline fuses operators, to a fixed point.

    Args:
        graph: A graph, or a model as `compile` takes it.
        rules: A rule book from `load_rules`, or files, folders or texts as it takes; without them the rules
            that come with gerules.
        pipeline: A phase or a pipeline of the rule book.
        fold: Compute what does not depend on the inputs, merge equal nodes and constants, and delete what
            nobody reads, before the rules and wherever they leave more of it.
        max_growth: Bytes of all constants after folding over those before; beyond it large results stay
            computed. None is no limit.
        onnx_only: Make no fused operators, but those of ONNX. `enable` still has the last word.
        example_inputs: What a module of torch is traced with, as `compile` takes it.
        dynamic_shapes: Which of its sizes stay open.

    Returns:
        The new graph, and everything that happened.

    Raises:
        GerulesError: E3 types that contradict, E40030 rules that do not stop, E40050 unknown pipeline.
    """
    book = book_of(rules)
    read = graph_of(graph, book, Examples(example_inputs, dynamic_shapes))
    own = own_names(read)
    tools = make_toolchain(
        book,
        read.opsets,
        device=device,
        precision=precision,
        profile=profile,
        enable=_listed(enable),
        disable=_listed(disable),
        params={} if max_growth is None or _COPIES not in book.params else {_COPIES: False},
        onnx_only=onnx_only,
    )
    phases = phase_names(tools.book, pipeline)
    trace = Trace()
    with paused_collector():
        for _ in range(_MOST_PASSES):
            n_before = len(trace.applications)
            if fold:
                read, _ = prepare_within(
                    read, evaluate_node, schemas=tools.schemas, max_growth=max_growth, extra=tools.extra
                )
            else:
                read = infer_graph(read, tools.schemas, extra=tools.extra, names_sizes=True)
            read, found = run_phases(tools, read, phases)
            trace.extend(found)
            if len(trace.applications) == n_before:
                break
    return without_names(read, own), trace


_MOST_PASSES: Final = 8
"""Two are usual, of which the second finds nothing to do."""

_COPIES: Final = "COPY_SHARED_WEIGHTS"


@checked()
def save(graph: Graph, path: str | Path, *, rules: RuleBook | Rules | None = None) -> None:
    """Write a graph as `.onnx` or as graph text (`.graph`), whole or not at all.

    Fused operators become functions of the ONNX model, written in the operators of the model's own opset, so
    that any ONNX runtime executes it.

    Args:
        rules: What defines the graph's operators, as `rewrite` takes it; needed where rules of your own made
            operators of your own.

    Raises:
        PipelineError: E10031 for operators that rules made and `rules` do not define.
        ModelError: E10004 when the disk refuses, E10002 for another ending, E10031 for what ONNX cannot hold
            at the model's opset, with the operator and the opset in it.
    """
    path = Path(path)
    if path.suffix == ".graph":
        save_graph_text(graph, path)
    elif path.suffix == ".onnx":
        tools = make_toolchain(book_of(rules), graph.opsets)
        _check_defined(graph, tools)
        save_onnx(graph, path, schemas=tools.schemas, define_body=_define_body(tools))
    else:
        raise PipelineError(
            table.UNKNOWN_FILE_KIND, path=path, verb="written",
            remedy="end the name in .onnx or .graph; a compiled model writes its .om itself",
        )  # fmt: skip


def _check_numbers(hybrid: bool | int, n_streams: int | None, memory_limit_bytes: int | None) -> None:
    """Refuse numbers that mean nothing. Raises PipelineError E10003 with all of them."""
    faults = Faults()
    wanted = (
        ("compile_hybrid_mode", hybrid, hybrid in (0, 1), "it is neither on nor off", "give True or False"),
        ("n_streams", n_streams, (n_streams or 1) > 0 and n_streams != 0, "a plan has a stream at least",
         "give a whole number above zero"),
        ("memory_limit_bytes", memory_limit_bytes, (memory_limit_bytes or 0) >= 0, "it is no size",
         "give a number of bytes"),
    )  # fmt: skip
    for name, value, is_good, reason, remedy in wanted:
        if not is_good:
            faults.add(table.BAD_OPTION, option=name, value=value, reason=reason, remedy=remedy)
    faults.raise_if_any(PipelineError)


def _listed(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def book_of(rules: RuleBook | Rules | None) -> RuleBook:
    """Return the book that `rules` is, or that it names. Raises what `load_rules` raises."""
    if isinstance(rules, RuleBook):
        return rules
    return shipped_rules() if rules is None else load_rules(rules)


def _check_defined(graph: Graph, tools: Toolchain) -> None:
    """Raise when an operator that a rule made would be written without saying what it computes."""
    unknown = {
        node.op
        for inner in graphs_in(graph)
        for node in inner.nodes.values()
        if node.origin.rules and "::" in node.op and not node.bodies and tools.schemas.get(node.op) is None
    }
    faults = Faults()
    for op in sorted(unknown):
        faults.add(
            table.CANNOT_EXPORT,
            what=op,
            reason="a rule made it, and nothing here defines it",
            remedy="give the rules that define it: gerules.save(graph, path, rules=...)",
        )
    faults.raise_if_any(PipelineError)


def _define_body(tools: Toolchain):
    def body(node: Node, inputs: list[ValueType]) -> Graph | None:
        return tools.body_of(node, inputs)

    return body


def graph_of(model: Model, book: RuleBook, examples: Examples = NO_EXAMPLES) -> Graph:
    """Return the graph of a model in whatever form it comes. Raises what its reader raises."""
    if isinstance(model, str | Path):
        return _load(model, book, examples)
    if isinstance(model, Graph):
        refuse_examples(examples, f"the graph {model.name}")
        return model
    if isinstance(model, onnx.ModelProto):
        refuse_examples(examples, "an ONNX model")
        return _recognized(load_onnx(model, kept_domains=(FUSED_DOMAIN,)), book)
    return _read_object(model, examples)


def _recognized(graph: Graph, rules: RuleBook | Rules | None) -> Graph:
    # Most models have no such functions, and need no rules to be read.
    if not any("body" in node.bodies for inner in graphs_in(graph) for node in inner.nodes.values()):
        return graph
    tools = make_toolchain(book_of(rules), graph.opsets)
    return recognize(graph, schemas=tools.schemas, define_body=_define_body(tools))
