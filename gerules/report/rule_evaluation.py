"""Computing a small graph by meaning: kernels for ONNX operators, bodies and definitions for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from gerules.dsl.book import RuleBook
from gerules.engine.define import define_extra, expand_define, make_infer
from gerules.engine.evaluation import RuleContext
from gerules.ir import Const, Graph, Node, TensorType
from gerules.ops import Schemas
from gerules.runtime.kernels import run_kernel

Array = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What evaluating needs besides a graph. Definitions are read at the newest version of ONNX."""

    book: RuleBook
    schemas: Schemas
    context: RuleContext

    def run(self, graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the outputs of a graph, in order.

        Args:
            feeds: An array for each graph input, by name.

        Raises:
            RunError: E70001, E70002, what a kernel refuses.
            RuleError: E40038 when a definition does not go with a node.
        """
        given = [feeds.get(graph.values[value].name) for value in graph.inputs]
        return self._graph(graph, given)

    def _graph(self, graph: Graph, given: Sequence[Array | None]) -> list[Array]:
        values: dict[int, Array | None] = {value: const.array for value, const in graph.consts.items()}
        values |= dict(zip(graph.inputs, given, strict=False))
        for node in graph.nodes.values():
            args = [None if value is None else values[value] for value in node.inputs]
            results = zip(node.outputs, self._node(node, args, graph.opset), strict=False)
            values |= {value: result for value, result in results if value is not None}
        return [cast("Array", values[value]) for value in graph.outputs]

    def _node(self, node: Node, args: Sequence[Array | None], opset: int) -> list[Array]:
        body = node.bodies.get("body")
        if body is not None and "::" in node.op:
            return self._graph(body.graph, args)
        if node.op in self.book.defines:
            return self._graph(self._expand(node, args), args)
        return run_kernel(node.op, args, node.attrs, opset=opset, n_outputs=len(node.outputs))

    def _expand(self, node: Node, args: Sequence[Array | None]) -> Graph:
        consts = [None if array is None else Const(array) for array in args]
        types = [None if const is None else TensorType(const.dtype, const.array.shape) for const in consts]
        extra = define_extra(self.book.defines, schemas=self.schemas, context=self.context)
        return expand_define(
            self.book.defines[node.op],
            node,
            types,
            schemas=self.schemas,
            infer=make_infer(self.schemas, {}, extra),
            consts=consts,
            context=self.context,
        )
