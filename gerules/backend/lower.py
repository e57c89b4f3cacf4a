"""Lowering: from a graph on engines to tasks, bytes of values, views without copies, in-place wishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from gerules.backend.memory import ALIGN_BYTES, InPlace
from gerules.backend.nested import FUSED_BODY, NestedPlan, arena_bytes, is_fused, plan_nested
from gerules.backend.schedule import Task
from gerules.ir import DType, Format, Graph, Node, TensorType

HOST_ENGINE: Final = "DNN_VM_HOST_CPU"
"""Where nodes run that no engine was chosen for. Source: the Graph Engine's name of its host engine."""

VIEW_OPS: Final = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "FlattenV2"})
"""Operators that only rename bytes where the layout is plain; with or without `ge::`."""

IN_PLACE_OPS: Final = frozenset({
    "Abs", "Neg", "Exp", "Log", "Sqrt", "Reciprocal", "Erf", "Sin", "Cos", "Floor", "Ceil", "Round", "Sign",
    "Relu", "LeakyRelu", "Sigmoid", "Tanh", "HardSwish", "HardSigmoid", "Clip", "ClipByValue", "Elu",
    "Softplus", "Gelu", "GeluV2", "Swish", "Mish", "QuickGelu", "Selu", "Celu", "ThresholdedRelu", "Softsign",
    "Add", "Sub", "Mul", "Div", "RealDiv", "Max", "Min", "Maximum", "Minimum", "Pow", "PRelu", "Not",
    "And", "Or", "Xor", "LogicalAnd", "LogicalOr", "LogicalNot", "Where", "Select",
})  # fmt: skip
"""Operators whose result may lie where an input of the same type lay: element by element."""

PLAIN: Final = frozenset({Format.ND, Format.NCHW, Format.NCDHW})
"""Formats whose bytes are in the order of the logical axes."""

CostOf = Callable[[Node], float]
"""How long a node runs on its engine, in microseconds."""


@dataclass(frozen=True, slots=True)
class Lowering:
    """What a graph is for the planners.

    Attributes:
        tasks: One for each node that is launched, its id the node's, in the graph's order.
        sizes: Bytes in storage form of the values that lie in the arena: static tensors of elements
            of a fixed size. Anything else is on the host's heap when the model runs.
        outputs: Values that must survive the run.
        root_of: For each output of a view the value whose bytes it is.
        views: The nodes without a task.
        wishes: Outputs that may take over the bytes of an input.
        nested: Where the values inside a fused operator lie in its workspace, by node.
    """

    tasks: tuple[Task, ...]
    sizes: Mapping[int, int]
    outputs: frozenset[int]
    root_of: Mapping[int, int]
    views: frozenset[int]
    wishes: tuple[InPlace, ...]
    nested: Mapping[int, NestedPlan]

    def root(self, value: int) -> int:
        """The value whose bytes a value lies in: its own, unless it is a view."""
        return self.root_of.get(value, value)


def lower_tasks(
    graph: Graph,
    engines: Mapping[int, str],
    *,
    cost_us: CostOf | None = None,
    labels: Mapping[int, str] | None = None,
    align_bytes: int = ALIGN_BYTES,
) -> Lowering:
    """Turn the nodes of a graph into tasks.

    Args:
        engines: The engine of each node, by id; `HOST_ENGINE` where none is named.
        cost_us: How long a node runs; one microsecond each where absent.
        labels: Stream labels that users gave to nodes.

    Cost: linear in nodes, and the planning of bodies.
    """
    sizes = {value: size for value in graph.inputs if (size := arena_bytes(graph.type_of(value))) is not None}
    root_of: dict[int, int] = {}
    views: set[int] = set()
    tasks: list[Task] = []
    wishes: list[InPlace] = []
    nested: dict[int, NestedPlan] = {}
    ready = set(graph.inputs) | set(graph.consts)
    for node in graph.nodes.values():
        source = _viewed(graph, node, ready)
        if source is not None and root_of.get(source, source) in sizes:
            view = next(node.writes())
            root_of[view] = root_of.get(source, source)
            views.add(node.id)
            continue
        workspace_bytes = 0
        if is_fused(node):
            plan = nested[node.id] = plan_nested(graph, node, node.bodies[FUSED_BODY], align_bytes)
            workspace_bytes = plan.size_bytes
        for value in node.writes():
            if (size := arena_bytes(graph.type_of(value))) is not None:
                sizes[value] = size
        reads = tuple(dict.fromkeys(root_of.get(v, v) for v in node.reads() if v not in graph.consts))
        tasks.append(
            Task(
                node.id,
                reads,
                tuple(node.writes()),
                engines.get(node.id, HOST_ENGINE),
                cost_us(node) if cost_us is not None else 1.0,
                workspace_bytes,
                label=labels.get(node.id, "") if labels is not None else "",
            )
        )
        wishes.extend(_wishes(graph, node, root_of, sizes))
    outputs = frozenset(root_of.get(v, v) for v in graph.outputs if v not in graph.consts)
    return Lowering(tuple(tasks), sizes, outputs, root_of, frozenset(views), tuple(wishes), nested)


def base_op(op: str) -> str:
    """Return an operator's name without the domain of the device."""
    return op.removeprefix("ge::")


def _viewed(graph: Graph, node: Node, ready: set[int]) -> int | None:
    """The input whose bytes are those of the node's only output, or None when the node must copy."""
    if base_op(node.op) not in VIEW_OPS or node.bodies or len(node.outputs) != 1:
        return None
    source, made = (node.inputs or (None,))[0], node.outputs[0]
    if source is None or made is None or source in graph.consts:
        return None
    # A shape that is computed is waited for by a task, not by a change of names.
    if any(value is not None and value not in ready for value in node.inputs[1:]):
        return None
    one, two = graph.type_of(source), graph.type_of(made)
    if not isinstance(one, TensorType) or not isinstance(two, TensorType):
        return None
    if one.dtype is not two.dtype or not one.is_static or not two.is_static or one.dtype is DType.UNKNOWN:
        return None
    if one == two:
        return source
    is_plain = one.format in PLAIN and two.format in PLAIN
    return source if is_plain and one.n_elements == two.n_elements else None


def _wishes(graph: Graph, node: Node, root_of: Mapping[int, int], sizes: Mapping[int, int]) -> list[InPlace]:
    made = node.outputs[0] if node.outputs else None
    if made is None or made not in sizes or node.bodies or base_op(node.op) not in IN_PLACE_OPS:
        return []
    type = graph.type_of(made)
    same = [v for v in node.inputs if v is not None and v not in graph.consts and graph.type_of(v) == type]
    roots = dict.fromkeys(root_of.get(v, v) for v in same)
    return [InPlace(made, root) for root in roots if root in sizes]
