"""Random graphs with static and dynamic values, formats, fused bodies and branches, and inputs for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from gerules.ir import Body, DType, Format, Graph, GraphEditor, Origin, TensorType, Value, empty_graph
from gerules.ops import Schemas, infer_graph

SCHEMAS = Schemas()
OPSET = 18
_UNARY = ("Relu", "Neg", "Tanh", "Sigmoid", "Abs", "HardSwish")
_BINARY = ("Add", "Sub", "Mul", "Max")
_FORMATS = (Format.NC1HWC0, Format.NHWC, Format.FRACTAL_NZ, Format.NCHW, Format.HWCN)
_NAMES = ("x", "größe/relu", "層 1", "a:b", "Data", "", "same", "same")

Feeds = dict[str, np.ndarray]


@st.composite
def graphs(draw: st.DrawFn, *, has_formats: bool = True, max_nodes: int = 14) -> tuple[Graph, Feeds]:
    """Draw a graph of f32 and f16 values of rank 4, with several outputs, and its inputs."""
    editor = GraphEditor(empty_graph("graph ü", {"": OPSET}))
    dtype = draw(st.sampled_from([DType.F32, DType.F32, DType.F16]))
    shape = (
        draw(st.integers(1, 2)),
        draw(st.integers(1, 18)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3)),
    )
    is_dynamic = draw(st.integers(0, 4)) == 0
    declared = ("N", *shape[1:]) if is_dynamic else shape
    live = [
        editor.add_input(TensorType(dtype, declared), name)
        for name in ("in", "größe")[: draw(st.integers(1, 2))]
    ]
    inputs = list(live)
    rng = np.random.default_rng(draw(st.integers(0, 100)))
    for _ in range(draw(st.integers(1, max_nodes))):
        live.append(_add_node(draw, editor, live, dtype, shape, rng))
    n_outputs = draw(st.integers(1, 3))
    found = [live[-1 - draw(st.integers(0, min(3, len(live) - 1)))] for _ in range(n_outputs)]
    editor.set_outputs(list(dict.fromkeys([live[-1], *found])))
    graph = infer_graph(editor.commit(), SCHEMAS)
    if has_formats:
        graph = _with_formats(draw, graph)
    feeds = {graph.values[v].name: rng.standard_normal(shape).astype(dtype.numpy) for v in inputs}
    return graph, feeds


def _add_node(draw, editor, live, dtype, shape, rng) -> int:
    pick = st.sampled_from(live[-4:])
    kind = draw(
        st.sampled_from(["unary", "binary", "binary", "const", "view", "move", "split", "body", "if", "conv"])
    )
    name = draw(st.sampled_from(_NAMES))
    origin = Origin((f"src {len(editor.nodes)}",), ("rule",), "fusion")
    x = draw(pick)

    def add(op: str, args, n_outputs: int = 1, bodies=None, **attrs):
        node = editor.add_node(
            op, args, attrs=attrs, n_outputs=n_outputs, name=name, origin=origin, bodies=bodies or {}
        )
        for value in node.outputs:
            editor.values[value] = Value(value, draw(st.sampled_from(_NAMES)), editor.values[value].type)
        return node.outputs

    match kind:
        case "unary":
            return add(draw(st.sampled_from(_UNARY)), [x])[0]
        case "binary":
            return add(draw(st.sampled_from(_BINARY)), [x, draw(pick)])[0]
        case "const":
            value = rng.standard_normal((shape[1], 1, 1)).astype(dtype.numpy)
            return add("Add", [x, editor.add_const(value, "bias")])[0]
        case "view":
            flat = add("Flatten", [x], axis=1)[0]
            back = editor.add_const(np.asarray([-1, *shape[1:]], np.int64), "shape")
            return add("Reshape", [flat, back])[0]
        case "move":
            one = add("Transpose", [x], perm=(0, 2, 3, 1))[0]
            return add("Transpose", [one], perm=(0, 3, 1, 2))[0]
        case "split":
            both = add("Concat", [x, draw(pick)], axis=0)[0]
            return add("Split", [both], n_outputs=2, axis=0, num_outputs=2)[draw(st.integers(0, 1))]
        case "body":
            return add("ge::Fused", [x, draw(pick)], bodies={"body": _fused(draw, dtype)})[0]
        case "if":
            if draw(st.booleans()):
                return add("Relu", [x])[0]
            cond = editor.add_const(np.asarray(draw(st.booleans())), "cond")
            yes, no = _branch("Neg", x), _branch("Tanh", x)
            return add("If", [cond], bodies={"then_branch": yes, "else_branch": no})[0]
        case _:
            weight = rng.standard_normal((shape[1], shape[1], 1, 1)).astype(dtype.numpy)
            return add("Conv", [x, editor.add_const(weight / shape[1], "W")], kernel_shape=(1, 1))[0]


def _fused(draw, dtype) -> Body:
    inner = GraphEditor(empty_graph("fused", {"": OPSET}))
    live = [inner.add_input(TensorType(dtype), "p"), inner.add_input(TensorType(dtype), "q")]
    for _ in range(draw(st.integers(1, 4))):
        op = draw(st.sampled_from([*_UNARY, *_BINARY]))
        args = [draw(st.sampled_from(live)) for _ in range(2 if op in _BINARY else 1)]
        live.append(inner.add_node(op, args).outputs[0])
    inner.set_outputs([live[-1]])
    return Body(inner.commit())


def _branch(op: str, outer: int) -> Body:
    inner = GraphEditor(empty_graph("branch", {"": OPSET}))
    value = inner.add_value(name="captured")
    node = inner.add_node(op, [value])
    inner.set_outputs([node.outputs[0]])
    return Body(inner.commit(), ((outer, value),))


def _with_formats(draw, graph: Graph) -> Graph:
    """Give some values of rank 4 a storage format; what they mean stays."""
    values = dict(graph.values)
    for value in (*graph.consts, *graph.inputs, *(v for node in graph.nodes.values() for v in node.writes())):
        type = values[value].type
        if isinstance(type, TensorType) and type.rank == 4 and draw(st.integers(0, 2)) == 0:
            format = Format.FRACTAL_Z if value in graph.consts else draw(st.sampled_from(_FORMATS))
            values[value] = replace(values[value], type=type.with_format(format))
    return replace(graph, values=values)
