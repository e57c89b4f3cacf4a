"""Build a graph as for the Graph Engine, and write its offline model: `python ge_build.py net`.

On a device the imports differ: `import ge`, `from ge.es.all import ...`.
"""

import sys

import numpy as np

from gerules.compat import ge
from gerules.compat.ge.es.all import BiasAdd, Conv2D, GlobalAveragePool, MatMulV2, Relu, Reshape, SoftmaxV2


def build_graph():
    rng = np.random.default_rng(0)
    builder = ge.GraphBuilder("net")
    x = builder.create_input(
        0, name="x", data_type=ge.DataType.DT_FLOAT, format=ge.Format.FORMAT_NCHW, shape=[1, 3, 32, 32]
    )
    filters = builder.create_const_float(rng.normal(size=(8, 3, 3, 3)))
    conv = Conv2D(x, filters, strides=[1, 1, 2, 2], pads=[1, 1, 1, 1], name="conv")
    hidden = Relu(BiasAdd(conv, builder.create_const_float(rng.normal(size=8))), name="relu")
    flat = Reshape(GlobalAveragePool(hidden), [1, 8])
    weights = builder.create_const_float(rng.normal(size=(8, 10)))
    builder.set_graph_output(SoftmaxV2(MatMulV2(flat, weights, name="classes"), name="probabilities"), 0)
    return builder.build_and_reset()


def main(output):
    ge.build_initialize({"ge.socVersion": "Ascend910B1"})
    try:
        model = ge.offline_compile(
            build_graph(), output, {"ge.exec.precision_mode": "must_keep_origin_dtype"}
        )
        print(f"{output}.om: {model.length} bytes")
        for row in ge.GetMemoryInfo():
            print(f"{row.offset:8} {row.size:8} bytes, steps {row.life_start} to {row.life_end}: {row.name}")
    finally:
        ge.build_finalize()


if __name__ == "__main__":
    main(sys.argv[1])
