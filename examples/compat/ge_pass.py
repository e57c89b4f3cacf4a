"""A fusion pass in Python: a product of matrices and a sum are one GEMM.

`python ge_pass.py` compiles a graph that has such a place. As a file of rules the pass works everywhere:
`gerules explain model.onnx --rules ge_pass.py --rule product_and_sum_pass_sum`.
"""

import numpy as np

from gerules.compat import ge
from gerules.compat.ge.es.all import GEMM, MatMul, Relu
from gerules.compat.ge.passes import PassStage, PatternFusionPass, pattern, register_fusion_pass


@register_fusion_pass(name="ProductAndSumPass", stage=PassStage.AFTER_INFER_SHAPE)
class ProductAndSumPass(PatternFusionPass):
    """MatMul(a, b) + c is GEMM(a, b, c)."""

    @pattern
    def sum(self, inputs):
        a, b, c = inputs[:3]
        return MatMul(a, b) + c

    def meet_requirements(self, match_result):
        product = match_result.get_matched_nodes()[0].get_output_desc(0)
        return len(product.shape) == 2 and product.data_type == ge.DataType.DT_FLOAT

    def replacement(self, inputs):
        a, b, c = inputs[:3]
        return GEMM(a, b, c, 1.0, 1.0)


def main():
    builder = ge.GraphBuilder("layer")
    x = builder.create_input(0, name="x", shape=[2, 3])
    w = builder.create_const(ge.Tensor(np.arange(12, dtype=np.float32).reshape(3, 4)))
    product = MatMul(x, w)
    session = ge.Session()
    session.add_graph(1, builder.build_and_reset([Relu(product + ge.Tensor(np.ones(4, np.float32)))]))
    model = session.compile_graph(1)
    for step in model.trace.applications:
        print(f"{step.rule}: {', '.join(step.removed)}")
    (found,) = session.run_graph(1, [ge.Tensor([[1, 0, 0], [0, 1, -1]])])
    print(found.data)


if __name__ == "__main__":
    main()
