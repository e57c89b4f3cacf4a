"""Graphs for the tests of the engine: a small builder, and evaluation by onnx.reference, node by node."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from gerules.dsl.book import RuleBook
from gerules.dsl.load import load_rules
from gerules.dsl.selection import Environment, TextDevice, resolve_params, select_rules
from gerules.engine.define import define_extra, expand_define, make_infer
from gerules.engine.define_schema import register_defines
from gerules.engine.evaluation import RuleContext
from gerules.engine.rewrite import rewrite
from gerules.engine.trace import Trace
from gerules.errors import Source
from gerules.ir import Const, DType, Graph, GraphEditor, Node, TensorType, empty_graph
from gerules.ops import Schemas

OPSET = 20
SCHEMAS = Schemas()


class Maker:
    """Builds graphs by calls; values are ids. `graph` keeps what its outputs need and drops the rest."""

    def __init__(self, opset: int = OPSET, schemas: Schemas = SCHEMAS, extra=None) -> None:
        self.editor = GraphEditor(empty_graph("g", {"": opset}))
        self._infer = make_infer(schemas, {"": opset}, extra)

    def input(self, name: str, *shape, dtype=DType.F32, default=None) -> int:
        const = None if default is None else Const(np.asarray(default))
        return self.editor.add_input(TensorType(dtype, tuple(shape)), name, const)

    def const(self, array, name: str = "", dtype=np.float32) -> int:
        return self.editor.add_const(np.asarray(array, dtype), name)

    def op(self, op: str, *inputs: int | None, n: int = 1, name: str = "", **attrs):
        e = self.editor
        node = e.add_node(op, inputs, attrs=attrs, n_outputs=n, name=name or f"n{e._next_id}")
        types = [None if v is None else e.values[v].type for v in node.inputs]
        consts = [None if v is None else e.consts.get(v) for v in node.inputs]
        try:
            found = self._infer(node, types, consts)
        except Exception:
            if "::" not in op:
                raise
            found = []
        for place, (value, type) in enumerate(zip(node.outputs, found, strict=False)):
            e.values[value] = type_value(value, f"{node.name}_{place}" if place else f"{node.name}_y", type)
        return node.outputs[0] if n == 1 else node.outputs

    def graph(self, *outputs: int) -> Graph:
        self.editor.set_outputs(outputs)
        self.editor.prune()
        return self.editor.commit()


def type_value(value, name, type):
    from gerules.ir import Value

    return Value(value, name, type)


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes.values()]


@functools.lru_cache(maxsize=256)
def book_of(text: str) -> RuleBook:
    return load_rules([Source("test.ger", "gerules 1\n" + text)], schemas=None)


def context_of(book: RuleBook, device: str | None = None, profile: str | None = None, **more) -> RuleContext:
    text_device = TextDevice(book, book.devices[device]) if device else None
    selection = select_rules(book, Environment(profile=profile, device=text_device))
    return RuleContext(selection.scope, book.patterns, **more)


def run(
    text: str | RuleBook, graph: Graph, *, device=None, cost=None, context=None, **options
) -> tuple[Graph, Trace]:
    book = text if isinstance(text, RuleBook) else book_of(text)
    context = context or context_of(book, device)
    extra = define_extra(book.defines, schemas=schemas_of(book), context=context)
    infer = make_infer(schemas_of(book), graph.opsets, extra)
    return rewrite(
        graph,
        options.pop("rules", book.rules),
        schemas=schemas_of(book),
        infer=infer,
        cost=cost,
        context=context,
        **options,
    )


_BY_BOOK: dict[int, tuple[RuleBook, Schemas]] = {}


def schemas_of(book: RuleBook) -> Schemas:
    """Schemas with an entry for each `define`."""
    found = _BY_BOOK.get(id(book))
    if found is not None:
        return found[1]
    schemas = Schemas()
    register_defines(book.defines.values(), schemas)
    _BY_BOOK[id(book)] = (book, schemas)
    return schemas


# ---------------------------------------------------------------- evaluation
_ONNX = {
    DType.F32: TensorProto.FLOAT, DType.F64: TensorProto.DOUBLE, DType.F16: TensorProto.FLOAT16,
    DType.I64: TensorProto.INT64, DType.I32: TensorProto.INT32, DType.I8: TensorProto.INT8,
    DType.U8: TensorProto.UINT8, DType.BOOL: TensorProto.BOOL,
}  # fmt: skip


def evaluate(graph: Graph, feeds: Mapping[str, np.ndarray], book: RuleBook | None = None) -> list[np.ndarray]:
    """Compute the outputs of a graph, in order; nodes with a body or a `define` through what they compute."""
    values = {v: const.array for v, const in graph.consts.items()}
    values |= {v: const.array for v, const in graph.defaults.items()}
    for value in graph.inputs:
        name = graph.values[value].name
        if name in feeds:
            values[value] = feeds[name]
    for node in graph.nodes.values():
        args = [None if v is None else values[v] for v in node.inputs]
        for value, result in zip(node.outputs, _compute(node, args, graph, book), strict=False):
            if value is not None:
                values[value] = result
    return [values[v] for v in graph.outputs]


def _compute(
    node: Node, args: Sequence[np.ndarray | None], graph: Graph, book: RuleBook | None
) -> list[np.ndarray]:
    if "body" in node.bodies:
        return _inner(node.bodies["body"].graph, args, book)
    if book is not None and node.op in book.defines:
        types = [None if a is None else TensorType(Const(a).dtype, a.shape) for a in args]
        schemas, context = schemas_of(book), context_of(book)
        inner = expand_define(
            book.defines[node.op], node, types, schemas=schemas, infer=make_infer(schemas, {}),
            context=context,
        )  # fmt: skip
        return _inner(inner, args, book)
    return _reference(node, args, graph.opset)


def _inner(body: Graph, args: Sequence[np.ndarray | None], book: RuleBook | None) -> list[np.ndarray]:
    renamed = {v: a for v, a in zip(body.inputs, args, strict=False) if a is not None}
    values = {v: const.array for v, const in body.consts.items()} | renamed
    for node in body.nodes.values():
        inner_args = [None if v is None else values[v] for v in node.inputs]
        for value, result in zip(node.outputs, _compute(node, inner_args, body, book), strict=False):
            if value is not None:
                values[value] = result
    return [values[v] for v in body.outputs]


def _reference(node: Node, args: Sequence[np.ndarray | None], opset: int) -> list[np.ndarray]:
    if node.op in ("Softmax", "LogSoftmax", "Hardmax") and opset < 13:
        # onnx.reference has the newer ones only; the older ones see two axes, and normalize the second.
        (x,), axis = args, node.attrs.get("axis", 1)
        flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
        (found,) = _reference(replace(node, attrs={"axis": 1}), [flat], 13)
        return [found.reshape(x.shape)]
    if node.op == "RMSNormalization" and args[0] is not None and args[0].dtype == np.float16:
        # onnx.reference squares in float16; by the operator's text it is done in its `stash_type`, float32.
        wide = [None if a is None else a.astype(np.float32) for a in args]
        return [found.astype(np.float16) for found in _reference(node, wide, opset)]
    attrs = {
        k: _ONNX[v] if isinstance(v, DType) else list(v) if isinstance(v, tuple) else v
        for k, v in node.attrs.items()
    }
    names = ["" if a is None else f"i{i}" for i, a in enumerate(args)]
    outputs = [f"o{i}" for i in range(len(node.outputs))]
    proto = helper.make_node(node.op, names, outputs, **attrs)
    made = helper.make_graph(
        [proto],
        "one",
        [onnx.ValueInfoProto(name=n) for n in names if n],
        [onnx.ValueInfoProto(name=n) for n in outputs],
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)])
    feeds = {n: a for n, a in zip(names, args, strict=True) if n}
    return [np.asarray(r) for r in ReferenceEvaluator(model).run(None, feeds)]


__all__ = [
    "OPSET", "SCHEMAS", "Maker", "book_of", "context_of", "evaluate", "numpy_helper", "ops",
    "resolve_params", "run", "schemas_of",
]  # fmt: skip
