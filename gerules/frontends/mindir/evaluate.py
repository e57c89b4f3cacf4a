"""MindIR's function graphs worked out: names become items, calls are expanded, tensors become nodes of ONNX.

Only what the results need is looked at, from the results backwards; that leaves out the chains of tokens that
order side effects. A graph that changes its parameters is refused, since then the order would matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from gerules.errors import table
from gerules.frontends.mindir.control import Control
from gerules.frontends.mindir.elementwise import ELEMENTWISE
from gerules.frontends.mindir.items import (
    Again,
    Array,
    Build,
    Choice,
    Closure,
    Frame,
    Item,
    Items,
    Known,
    Monad,
    NodeFault,
    Tensor,
    tensors_in,
)
from gerules.frontends.mindir.operands import Call, Given
from gerules.frontends.mindir.records import GraphRecord, NodeRecord, PrimitiveRecord
from gerules.frontends.mindir.reductions import REDUCTIONS
from gerules.frontends.mindir.shaping import SHAPING
from gerules.frontends.mindir.translate import Translate
from gerules.frontends.mindir.values import constant_of, declared_types, parameters_of
from gerules.frontends.mindir.windows import WINDOWS
from gerules.frontends.onnx.external import DataFiles
from gerules.frontends.onnx.findings import Findings
from gerules.ir import Origin, TensorType

OPERATORS: Final[Mapping[str, Translate]] = {**ELEMENTWISE, **REDUCTIONS, **SHAPING, **WINDOWS}
"""What is read, by MindSpore's name."""

REFERENCE: Final = "REF::"

_DEEPEST_CALL: Final = 40
"""Calls within calls; each takes some frames of Python's stack."""

_MOST_NODES: Final = 1_000_000

_CHANGING: Final = ("Assign", "AssignAdd", "AssignSub", "ScatterUpdate", "ScatterAdd", "ScatterNdUpdate")


class Evaluator:
    """Works out the graphs of one model."""

    def __init__(
        self,
        functions: Mapping[str, GraphRecord],
        primitives: Mapping[str, PrimitiveRecord],
        files: DataFiles,
        findings: Findings,
    ) -> None:
        self.functions = functions
        self.primitives = primitives
        self.files = files
        self.findings = findings
        self._control = Control(self)
        self._frames: list[Frame] = []
        self._n_nodes = 0
        self._constants = {
            node.outputs[0]: node
            for graph in functions.values()
            for node in graph.nodes
            if node.op == "Constant" and node.outputs
        }
        """Constants stand in the first graph that reads them, and are known in all."""
        self._attrs: dict[str, dict[str, Given]] = {}
        self._producers: dict[int, dict[str, NodeRecord]] = {}

    # ------------------------------------------------------------ graphs
    def frame(self, graph: GraphRecord, args: Sequence[Item], build: Build) -> Frame:
        """Return a graph ready to be worked out. Raises NodeFault for arguments that do not fit it."""
        if len(args) != len(graph.inputs):
            raise NodeFault(f"function {graph.name} takes {len(graph.inputs)} arguments, not {len(args)}")
        frame = Frame(graph, build, self._producers_of(graph))
        for port, item in zip(graph.inputs, args, strict=True):
            frame.names[port.name] = item
        return frame

    def call(self, callee: Item, args: tuple[Item, ...], build: Build) -> Item:
        """Return what a function gives for arguments. Raises NodeFault."""
        if isinstance(callee, Closure):
            return self._control.call_graph(callee.graph, (*callee.args, *args), build)
        if isinstance(callee, Choice):
            return self._control.branch(callee, args, build)
        raise NodeFault("what it calls is no function")

    def run(self, frame: Frame) -> Item:
        """Return what a graph gives: a tuple when it has several outputs. Raises NodeFault."""
        names = [port.name for port in frame.graph.outputs]
        if not names:
            raise NodeFault(f"function {frame.graph.name} gives nothing")
        found = [self.item(frame, name) for name in names]
        return found[0] if len(found) == 1 else Items(tuple(found))

    def _producers_of(self, graph: GraphRecord) -> Mapping[str, NodeRecord]:
        known = self._producers.get(id(graph))
        if known is not None:
            return known
        found: dict[str, NodeRecord] = {}
        inputs = {port.name for port in graph.inputs}
        for node in graph.nodes:
            for name in node.outputs:
                if name in found or name in inputs:
                    self.findings.add(table.DUPLICATE_TENSOR, place=graph.name, name=name)
                found[name] = node
            op = self.op_of(node)
            primitive = self.primitives.get(node.op.removeprefix(REFERENCE))
            changes = primitive is not None and any(
                attr.name == "side_effect_mem" and attr.i for attr in primitive.attrs
            )
            if op in _CHANGING or (changes and op not in _PLUMBING):
                self._fault(node, "it changes a parameter of the model while it runs")
        self._producers[id(graph)] = found
        return found

    # ------------------------------------------------------------ names
    def item(self, frame: Frame, name: str) -> Item:
        """Return what a name of a graph stands for; everything it needs is worked out before it."""
        stack, open_names = [name], dict[str, None]()
        self._frames.append(frame)
        try:
            while stack:
                top = stack[-1]
                if top in frame.names:
                    stack.pop()
                    continue
                node = frame.producers.get(top)
                if node is None:
                    frame.names[top] = self._from_outside(frame, top)
                    stack.pop()
                    continue
                needed = [item for item in self._needs(frame, node) if item not in frame.names]
                if needed and top not in open_names:
                    open_names[top] = None
                    stack += reversed(needed)
                    if circle := [item for item in needed if item in open_names]:
                        path = list(open_names)
                        names = " <- ".join(path[path.index(circle[0]) :][:8])
                        self.findings.add(table.MODEL_CYCLE, place=frame.graph.name, cycle=names)
                        self.findings.close()
                    continue
                open_names.pop(top, None)
                stack.pop()
                self._work_out(frame, node)
            return frame.names[name]
        finally:
            self._frames.pop()

    def _needs(self, frame: Frame, node: NodeRecord) -> list[str]:
        """The names that a node's results follow from."""
        op = self.op_of(node)
        if op in ("Depend", "Load"):
            return node.inputs[:1]
        if op == "UpdateState" or op == "Constant":
            return []
        target = self.callee_of(node)
        return node.inputs if target is None or target in self.functions else [target, *node.inputs]

    def op_of(self, node: NodeRecord) -> str:
        """The operator of a node; empty for a call."""
        if not node.op.startswith(REFERENCE):
            return node.op
        primitive = self.primitives.get(node.op[len(REFERENCE) :])
        return "" if primitive is None else primitive.op

    def callee_of(self, node: NodeRecord) -> str | None:
        """The name that a node calls, or None for an operator."""
        if not node.op.startswith(REFERENCE) or node.op[len(REFERENCE) :] in self.primitives:
            return None
        return node.op[len(REFERENCE) :]

    def _from_outside(self, frame: Frame, name: str) -> Item:
        """A name that no node of a graph makes: a function, or a name of a graph that is being worked out."""
        function = self.functions.get(name)
        if function is not None:
            return Closure(function)
        constant = self._constants.get(name)
        if constant is not None:
            return self._constant(constant)
        for outer in reversed(self._frames):
            if outer is not frame and name in outer.names:
                return outer.names[name]
        self.findings.add(table.UNDEFINED_TENSOR, place=frame.graph.name, name=name)
        return Tensor(frame.build, frame.build.editor.add_value())

    # ------------------------------------------------------------ nodes
    def _work_out(self, frame: Frame, node: NodeRecord) -> None:
        self._n_nodes += 1
        if self._n_nodes > _MOST_NODES:
            self.findings.add(table.TOO_MANY_NODES, limit=f"{_MOST_NODES} nodes")
            self.findings.close()
        declared = declared_types(node.attrs)
        try:
            found = self._result(frame, node, declared)
        except NodeFault as fault:
            self._fault(node, str(fault))
            found = _stand_in(frame.build, declared)
        # What a node of several scalars declares is one list of them.
        declared = [] if self.op_of(node) in _SCALARS else declared
        declare(found, declared, _short(node.outputs[0], frame.graph.name) if node.outputs else "")
        for name in node.outputs[:1]:
            frame.names[name] = found
        for place, name in enumerate(node.outputs[1:], 1):
            if isinstance(found, Items) and place < len(found.items):
                frame.names[name] = found.items[place]
            else:
                frame.names[name] = _stand_in(frame.build, [])

    def _result(self, frame: Frame, node: NodeRecord, declared: Sequence[TensorType]) -> Item:
        op = self.op_of(node)
        if op == "Constant":
            return self._constant(node)
        if op == "UpdateState":
            return Monad()
        if op in ("Depend", "Load"):
            return frame.names[node.inputs[0]] if node.inputs else Monad()
        items = [frame.names[name] for name in node.inputs]
        target = self.callee_of(node)
        if target is not None:
            function = self.functions.get(target)
            callee = frame.names[target] if function is None else Closure(function)
            return self.call(callee, tuple(items), frame.build)
        plumbing = _PLUMBING.get(op)
        if plumbing is not None:
            return plumbing(items, frame.build)
        translate = OPERATORS.get(op)
        if translate is None:
            self.findings.add(table.MINDIR_OPERATOR, place=_place(node), op=op or node.op)
            return _stand_in(frame.build, declared)
        live = [item for item in items if not isinstance(item, Monad)]
        origin = Origin((node.scope or node.name,))
        call = Call(frame.build, op, live, self._parameters(node), declared, origin)
        found = translate(call)
        return Tensor(frame.build, found) if isinstance(found, int) else found

    def _constant(self, node: NodeRecord) -> Item:
        try:
            return constant_of(node, self.files)
        except NodeFault as fault:
            self._fault(node, str(fault))
            return Known(None)

    def _parameters(self, node: NodeRecord) -> Mapping[str, Given]:
        if not node.op.startswith(REFERENCE):
            return parameters_of(node.attrs, self.files)
        name = node.op[len(REFERENCE) :]
        known = self._attrs.get(name)
        if known is None:
            known = self._attrs[name] = parameters_of(self.primitives[name].attrs, self.files)
        return known

    def _fault(self, node: NodeRecord, reason: str) -> None:
        op = self.op_of(node) or "call"
        self.findings.add(table.MINDIR_NODE, place=_place(node), op=op, reason=reason)


def declare(item: Item, types: Sequence[TensorType], name: str = "") -> None:
    """Record the types that a file declares for the tensors of an item, and a name for one that has none.

    What is declared already, as that of a tensor which is only handed through, stays.
    """
    leaves = tensors_in(item)
    for place, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor):
            continue
        editor = leaf.build.editor
        known = editor.values[leaf.id]
        is_open = not isinstance(known.type, TensorType) or known.type.shape is None
        if len(leaves) == len(types) and is_open and types[place] != TensorType():
            editor.set_type(leaf.id, types[place])
        if name and not known.name:
            suffix = f".{place}" if len(leaves) > 1 else ""
            editor.values[leaf.id] = replace(editor.values[leaf.id], name=name + suffix)


def _stand_in(build: Build, declared: Sequence[TensorType]) -> Item:
    """What takes the place of a result that could not be had, so that the rest can be looked at too."""
    made = [Tensor(build, build.editor.add_value(kind)) for kind in declared or [TensorType()]]
    return made[0] if len(made) == 1 else Items(tuple(made))


def _place(node: NodeRecord) -> str:
    return f"node {node.scope or node.name}"


def _short(name: str, graph: str) -> str:
    """A name without that of its graph before it, and without the number after it."""
    text = name.removeprefix(f"{graph}:")
    head, mark, tail = text.rpartition(":")
    return head if mark and tail.isdigit() else text


def _make_tuple(items: Sequence[Item], _: Build) -> Item:
    return Items(tuple(items))


def _get_item(items: Sequence[Item], _: Build) -> Item:
    match list(items):
        case [Items(inner), Known(place)] if isinstance(place, int) and -len(inner) <= place < len(inner):
            return inner[place]
        case [Again() | Closure() | Choice(), *_]:
            raise NodeFault("it takes a part of a function")
        case _:
            raise NodeFault("it takes a part that is not there, or whose place is computed")


def _partial(items: Sequence[Item], _: Build) -> Item:
    match list(items):
        case [Closure(graph, args), *more]:
            return Closure(graph, (*args, *more))
        case _:
            raise NodeFault("its first argument is no function")


def _switch(items: Sequence[Item], build: Build) -> Item:
    match list(items):
        case [Known(condition), yes, no]:
            return yes if condition else no
        case [Array(array), yes, no] if array.size == 1:
            return yes if array.item() else no
        case [Tensor() as condition, Closure() | Choice() as yes, Closure() | Choice() as no]:
            return Choice(condition, yes, no)
        case _:
            raise NodeFault("it does not choose between two by a truth value")


def _return(items: Sequence[Item], _: Build) -> Item:
    if len(items) != 1:
        raise NodeFault("it returns one value")
    return items[0]


_SCALARS: Final = ("Shape",)

_PLUMBING: Final = {
    "MakeTuple": _make_tuple,
    "MakeList": _make_tuple,
    "TupleGetItem": _get_item,
    "ListGetItem": _get_item,
    "tuple_getitem": _get_item,
    "Partial": _partial,
    "Switch": _switch,
    "Return": _return,
    "return": _return,
}
"""Operators of the language itself, beside Depend, Load and UpdateState."""
