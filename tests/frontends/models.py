"""Small ONNX models with every construct that a reader and a writer must carry, and their inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

Feeds = dict[str, npt.NDArray[np.generic]]

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def model_of(
    text: str, *, opsets: str = '["" : 17]', ir_version: int = 8, functions: str = ""
) -> onnx.ModelProto:
    """Return the model of a graph in onnx's own notation."""
    header = f"<ir_version: {ir_version}, opset_import: {opsets}>"
    return parser.parse_model(f"{header}\n{text}\n{functions}")


def branches() -> tuple[onnx.ModelProto, Feeds]:
    """If within If; both branches read values from two graphs out, and use the same inner names."""
    model = model_of(
        """g (bool c, bool d, float[3] x) => (float[3] y) <float[3] k = {1., 2., 3.}> {
             t = Neg(x)
             y = If (c) <
               then_branch = a () => (float[3] out) {
                 inner = Add(t, k)
                 out = If (d) <
                   then_branch = aa () => (float[3] deep) { deep = Mul(inner, t) },
                   else_branch = ab () => (float[3] deep) { deep = Sub(x, k) }
                 >
               },
               else_branch = b () => (float[3] out) { inner = Abs(x)  out = Identity(inner) }
             >
           }"""
    )
    x = np.array([1.0, -2.0, 3.0], np.float32)
    return model, {"c": np.array(True), "d": np.array(False), "x": x}


def loop() -> tuple[onnx.ModelProto, Feeds]:
    """A Loop whose body reads the graph around it and has a scan output."""
    model = model_of(
        """g (int64 n, float[2] x) => (float[2] y, float[s, 2] all) <float one = {1.}> {
             keep = Constant <value = bool {1}> ()
             step = Add(x, one)
             y, all = Loop (n, keep, x) <
               body = b (int64 i, bool go, float[2] state) => (bool again, float[2] next, float[2] seen) {
                 again = Identity(go)
                 next = Add(state, step)
                 seen = Mul(next, one)
               }
             >
           }"""
    )
    return model, {"n": np.array(3, np.int64), "x": np.array([0.5, -1.0], np.float32)}


def scan() -> tuple[onnx.ModelProto, Feeds]:
    """A Scan: a running sum."""
    model = model_of(
        """g (float[2] start, float[4, 2] rows) => (float[2] last, float[4, 2] sums) {
             last, sums = Scan (start, rows) <
               num_scan_inputs = 1,
               body = b (float[2] sum, float[2] row) => (float[2] next, float[2] out) {
                 next = Add(sum, row)
                 out = Identity(next)
               }
             >
           }"""
    )
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    return model, {"start": np.zeros(2, np.float32), "rows": rows}


def functions() -> tuple[onnx.ModelProto, Feeds]:
    """A function that calls another twice, with attributes handed on, a default, and a body inside."""
    model = model_of(
        """g (float[4] x, bool c) => (float[4] y, float[4] same) {
             y = local.Outer <slope: float = 0.25> (x, c)
             same = local.Pass (x)
           }""",
        opsets='["" : 17, "local" : 1]',
        functions="""
        <domain: "local", opset_import: ["" : 17, "local" : 1]>
        Outer <slope> (x, c) => (y) {
          a = local.Inner <alpha: float = @slope> (x)
          b = local.Inner (a)
          y = If (c) <
            then_branch = t () => (out) { out = LeakyRelu <alpha: float = @slope> (b) },
            else_branch = e () => (out) { out = Identity(a) }
          >
        }
        <domain: "local", opset_import: ["" : 17]>
        Inner <alpha: float = 0.5> (x) => (y) {
          two = Constant <value = float {2.}> ()
          t = LeakyRelu <alpha: float = @alpha> (x)
          y = Mul(t, two)
        }
        <domain: "local", opset_import: ["" : 17]>
        Pass (x) => (z) { z = Identity(x) }
        """,
    )
    return model, {"x": np.array([1.0, -2.0, 3.0, -4.0], np.float32), "c": np.array(True)}


def sequences() -> tuple[onnx.ModelProto, Feeds]:
    """Sequences, and a SequenceMap-like loop over them."""
    model = model_of(
        """g (float[2] x, float[2] z) => (float[m] y, int64 n) {
             s = SequenceConstruct(x, z, x)
             n = SequenceLength(s)
             y = ConcatFromSequence <axis = 0> (s)
           }"""
    )
    return model, {"x": np.ones(2, np.float32), "z": np.zeros(2, np.float32)}


def strings() -> tuple[onnx.ModelProto, Feeds]:
    """Texts as constants, attributes and outputs, beyond ASCII."""
    label = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml",
        keys_int64s=[1, 2], values_strings=["eins", "zwölf"], default_string="?",
    )  # fmt: skip
    const = numpy_helper.from_array(np.array(["ä", "b"], object), "t")
    graph = helper.make_graph(
        [label, helper.make_node("Identity", ["t"], ["u"])], "texts",
        [helper.make_tensor_value_info("x", I64, [3])],
        [helper.make_tensor_value_info("y", TensorProto.STRING, [3]),
         helper.make_tensor_value_info("u", TensorProto.STRING, [2])],
        [const],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), {"x": np.array([1, 2, 3], np.int64)}


def small_types() -> tuple[onnx.ModelProto, Feeds]:
    """Weights of four bits (in raw_data and in int32_data), sixteen and eight, dequantized or cast."""
    values = [-8, 7, 3, -1, 5]
    i4 = helper.make_tensor("i4", TensorProto.INT4, [5], values)
    u4 = helper.make_tensor("u4", TensorProto.UINT4, [5], bytes([0x21, 0xF3, 0x09]), raw=True)
    bf16 = helper.make_tensor("bf16", TensorProto.BFLOAT16, [2], [1.5, -3.0])
    f8 = helper.make_tensor("f8", TensorProto.FLOAT8E4M3FN, [2], [0.5, 448.0])
    nodes = [helper.make_node("Cast", [name], [f"{name}_out"], to=F32) for name in ("i4", "u4", "bf16", "f8")]
    sizes = {"i4": 5, "u4": 5, "bf16": 2, "f8": 2}
    outputs = [helper.make_tensor_value_info(f"{name}_out", F32, [size]) for name, size in sizes.items()]
    graph = helper.make_graph(nodes, "small", [], outputs, [i4, u4, bf16, f8])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), {}


def defaults() -> tuple[onnx.ModelProto, Feeds]:
    """An input that has a default, which the caller leaves alone; and a graph output that is a constant."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "b"], ["y"])], "defaults",
        [helper.make_tensor_value_info("x", F32, ["n"]), helper.make_tensor_value_info("b", F32, [1])],
        [helper.make_tensor_value_info("y", F32, ["n"]), helper.make_tensor_value_info("k", F32, [2])],
        [numpy_helper.from_array(np.array([2], np.float32), "b"),
         numpy_helper.from_array(np.array([3, 4], np.float32), "k")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": np.array([1, 2, 3], np.float32)}


MODELS: dict[str, Callable[[], tuple[onnx.ModelProto, Feeds]]] = {
    maker.__name__: maker
    for maker in (branches, loop, scan, functions, sequences, strings, small_types, defaults)
}
