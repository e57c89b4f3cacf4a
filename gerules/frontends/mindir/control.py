"""Control flow of MindIR: calls are expanded, `Switch` becomes If, a function that calls itself a Loop.

A loop of the source is a function, its head, whose result is a call of one of two functions by a condition:
one does the body and calls the head again, the other goes on behind the loop.

```
head(a, b):  return Switch(a < b, Partial(body, a, b), Partial(after, b))()
body(a, b):  return head(a + 1, b * 2)            ->      a, b = Loop(a < b, a, b), then after(b)
after(b):    return b
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from gerules.errors import table
from gerules.frontends.mindir.items import (
    Again,
    Build,
    Choice,
    Closure,
    Frame,
    Item,
    Items,
    NodeFault,
    Tensor,
    capture,
    new_build,
    rebuilt,
    tensors_in,
)
from gerules.frontends.mindir.operands import Call
from gerules.frontends.mindir.records import GraphRecord, NodeRecord
from gerules.frontends.mindir.tensors import TensorFault, type_of
from gerules.frontends.onnx.findings import Findings
from gerules.ir import DType, Origin, TensorType

_DEEPEST: Final = 32
"""Calls, branches and loops within each other; each takes some frames of Python's stack."""


class Graphs(Protocol):
    """What works out single graphs."""

    findings: Findings
    functions: Mapping[str, GraphRecord]

    def frame(self, graph: GraphRecord, args: Sequence[Item], build: Build) -> Frame:
        """Return a graph ready to be worked out."""
        ...

    def run(self, frame: Frame) -> Item:
        """Return what a graph gives."""
        ...

    def call(self, callee: Item, args: tuple[Item, ...], build: Build) -> Item:
        """Return what a function gives for arguments."""
        ...

    def item(self, frame: Frame, name: str) -> Item:
        """Return what a name of a graph stands for."""
        ...

    def op_of(self, node: NodeRecord) -> str:
        """The operator of a node; empty for a call."""
        ...

    def callee_of(self, node: NodeRecord) -> str | None:
        """The name that a node calls, or None for an operator."""
        ...


class Control:
    """Expands calls for an evaluator."""

    def __init__(self, evaluator: Graphs) -> None:
        self._evaluator = evaluator
        self._heads: list[str] = []
        """Names of the loops whose bodies are being worked out, outermost first."""
        self._depth = 0
        self._reached: dict[tuple[str, frozenset[str]], frozenset[str]] = {}
        self._references: dict[str, frozenset[str]] = {}

    def call_graph(self, graph: GraphRecord, args: tuple[Item, ...], build: Build) -> Item:
        """Return what a graph gives for arguments; a call of an open loop's head is its next round.

        Raises:
            NodeFault: for arguments that do not fit, and loops of a form that is not read.
        """
        if graph.name in self._heads:
            return Again(graph, args)
        if self._depth >= _DEEPEST:
            self._evaluator.findings.add(table.MODEL_TOO_DEEP, limit=_DEEPEST)
            self._evaluator.findings.close()
        self._depth += 1
        try:
            if graph.name in self._reach(graph.name):
                return self._loop(graph, args, build)
            return self._evaluator.run(self._evaluator.frame(graph, args, build))
        finally:
            self._depth -= 1

    # ------------------------------------------------------------ branches
    def branch(self, choice: Choice, args: tuple[Item, ...], build: Build) -> Item:
        """Return the results of an If. Raises NodeFault for branches that give different things."""
        bodies: list[Build] = []
        results: list[Item] = []
        for side in (choice.yes, choice.no):
            inner = new_build(f"{build.editor.name}_branch", build.opset, build)
            results.append(self._evaluator.call(side, args, inner))
            bodies.append(inner)
        again = [isinstance(result, Again) for result in results]
        if any(again) and not all(again):
            raise NodeFault(
                "a loop is left from inside of its body, as by break or return, which is not read"
            )
        forms = [Items(result.args) if isinstance(result, Again) else result for result in results]
        leaves = [tensors_in(form) for form in forms]
        if len(leaves[0]) != len(leaves[1]):
            raise NodeFault(f"its branches give {len(leaves[0])} and {len(leaves[1])} tensors")
        made = self._if(choice, bodies, leaves, build)
        found = rebuilt(forms[0], [Tensor(build, value) for value in made])
        first = results[0]
        if isinstance(first, Again) and isinstance(found, Items):
            return Again(first.graph, found.items)
        return found

    def _if(
        self, choice: Choice, bodies: Sequence[Build], leaves: Sequence[list[Item]], build: Build
    ) -> list[int]:
        if not leaves[0]:
            return []
        for inner, found in zip(bodies, leaves, strict=True):
            call = _writer(inner)
            outputs = [call.value_of(leaf) for leaf in found]
            inner.editor.set_outputs(_made_here(call, outputs))
        then, other = bodies
        node = build.editor.add_node(
            "If",
            [capture(build, choice.condition)],
            bodies={"then_branch": then.as_body(), "else_branch": other.as_body()},
            n_outputs=len(leaves[0]),
        )
        return [value for value in node.outputs if value is not None]

    # ------------------------------------------------------------ loops
    def _loop(self, head: GraphRecord, args: tuple[Item, ...], build: Build) -> Item:
        evaluator = self._evaluator
        entry = self._head_choice(head, args, build)
        first = self._condition(entry, head, build)
        self._heads.append(head.name)
        try:
            body, fixed, carried = self._loop_body(head, args, build)
        finally:
            self._heads.pop()
        writer = _writer(build)
        leaves = tensors_in(Items(args))
        starts = [writer.value_of(leaf) for leaf in leaves]
        for place in fixed:
            # What no round changes is read from outside; the value inside was an input until now.
            body.captured[starts[place]] = body.editor.inputs[2:][place]
        inputs = body.editor.inputs
        body.editor.inputs = (*inputs[:2], *(inputs[2 + place] for place in carried))
        node = build.editor.add_node(
            "Loop",
            [None, first, *(starts[place] for place in carried)],
            bodies={"body": body.as_body()},
            n_outputs=max(len(carried), 1),
            origin=Origin((head.name,)),
        )
        ends = list(starts)
        for place, value in zip(carried, node.outputs, strict=False):
            if value is not None:
                ends[place] = value
                build.editor.set_type(
                    value, _port_type(head, args, place, build.editor.values[starts[place]].type)
                )
        final = rebuilt(Items(args), [Tensor(build, value) for value in ends])
        if not isinstance(final, Items):
            raise AssertionError("a tuple stays one")
        leave = self._head_choice(head, final.items, build)
        return evaluator.call(leave.no if self._goes_on(leave.yes, head) else leave.yes, (), build)

    def _loop_body(
        self, head: GraphRecord, args: tuple[Item, ...], build: Build
    ) -> tuple[Build, list[int], list[int]]:
        """Fill the body: inputs are round, condition, and every tensor of the head's arguments.

        Returns:
            The body; the places of arguments that no round changes, and of those that are carried.
        """
        body = new_build(f"{build.editor.name}_loop", build.opset, build)
        body.editor.add_input(TensorType(DType.I64, ()), "round")
        body.editor.add_input(TensorType(DType.BOOL, ()), "goes_on")
        leaves = tensors_in(Items(args))
        given = [
            body.editor.add_input(_port_type(head, args, place, _type_in(build, leaf)), f"carried_{place}")
            for place, leaf in enumerate(leaves)
        ]
        inside = rebuilt(Items(args), [Tensor(body, value) for value in given])
        if not isinstance(inside, Items):
            raise AssertionError("a tuple stays one")
        choice = self._head_choice(head, inside.items, body)
        side = choice.yes if self._goes_on(choice.yes, head) else choice.no
        result = self._evaluator.call(side, (), body)
        if not isinstance(result, Again) or result.graph.name != head.name:
            raise NodeFault(f"the body of loop {head.name} does not end in its next round")
        after = tensors_in(Items(result.args))
        if len(after) != len(leaves):
            raise NodeFault(f"a round of loop {head.name} is given other arguments than the first")
        again = self._condition(self._head_choice(head, result.args, body), head, body)
        writer = _writer(body)
        ends = [writer.value_of(leaf) for leaf in after]
        fixed = [place for place, end in enumerate(ends) if end == given[place]]
        carried = [place for place in range(len(ends)) if place not in set(fixed)]
        if not carried:
            raise NodeFault(f"no round of loop {head.name} changes anything, so it never ends")
        body.editor.set_outputs(_made_here(writer, [again, *(ends[place] for place in carried)]))
        return body, fixed, carried

    def _head_choice(self, head: GraphRecord, args: tuple[Item, ...], build: Build) -> Choice:
        """Work out the head up to the call at its end, and return what it calls."""
        frame = self._evaluator.frame(head, args, build)
        found = self._tail(frame)
        if not isinstance(found, Choice):
            raise NodeFault(f"function {head.name} calls itself, and is no loop with a condition")
        if self._goes_on(found.yes, head) is self._goes_on(found.no, head):
            raise NodeFault(f"it is not known which branch of loop {head.name} goes on")
        return found

    def _tail(self, frame: Frame) -> Item | None:
        """What the last call of a graph calls; None when its result is no call without arguments."""
        ports = frame.graph.outputs
        name = ports[0].name if len(ports) == 1 else ""
        for _ in range(len(frame.producers) + 1):
            node = frame.producers.get(name)
            if node is None:
                return None
            callee = self._evaluator.callee_of(node)
            if callee is not None:
                return self._evaluator.item(frame, callee) if not node.inputs else None
            if self._evaluator.op_of(node) not in ("Depend", "Return", "return") or not node.inputs:
                return None
            name = node.inputs[0]
        return None

    def _condition(self, choice: Choice, head: GraphRecord, build: Build) -> int:
        """The value that says whether a loop goes on."""
        value = capture(build, choice.condition)
        if self._goes_on(choice.yes, head):
            return value
        return build.editor.add_node("Not", [value]).outputs[0] or 0

    def _goes_on(self, side: Item, head: GraphRecord) -> bool:
        """Whether a branch leads to the head again, other than through the loops around it."""
        if not isinstance(side, Closure):
            return False
        return side.graph.name == head.name or head.name in self._reach(side.graph.name, but=head.name)

    # ------------------------------------------------------------ who calls whom
    def _reach(self, name: str, but: str = "") -> frozenset[str]:
        """The functions that a function leads to, other than through the heads of open loops (but one)."""
        closed = frozenset(self._heads) - {but}
        known = self._reached.get((name, closed))
        if known is not None:
            return known
        found: set[str] = set()
        pending = [name]
        while pending:
            for other in self._references_of(pending.pop()):
                if other not in found and other not in closed:
                    found.add(other)
                    pending.append(other)
        result = self._reached[name, closed] = frozenset(found)
        return result

    def _references_of(self, name: str) -> frozenset[str]:
        known = self._references.get(name)
        if known is not None:
            return known
        graph = self._evaluator.functions.get(name)
        found: set[str] = set()
        for node in graph.nodes if graph is not None else ():
            found |= self._functions_in(node)
        result = self._references[name] = frozenset(found)
        return result

    def _functions_in(self, node: NodeRecord) -> set[str]:
        functions = self._evaluator.functions
        found = {item for item in node.inputs if item in functions}
        callee = self._evaluator.callee_of(node)
        return found | {callee} if callee is not None and callee in functions else found


def _writer(build: Build) -> Call:
    """Writes nodes that stand for no node of the file."""
    return Call(build, "", (), {}, (), Origin())


def _made_here(call: Call, outputs: Sequence[int]) -> list[int]:
    """Outputs of a body: each made by a node of it, and none twice."""
    editor, seen = call.build.editor, set[int]()
    found: list[int] = []
    for value in outputs:
        if value in seen or editor.producer(value) is None:
            kind = editor.values[value].type
            value = call.add("Identity", [value])
            editor.set_type(value, kind)
        seen.add(value)
        found.append(value)
    return found


def _type_in(build: Build, leaf: Item) -> TensorType:
    """The type of a tensor, as far as it stays the same from round to round: its element type."""
    writer = _writer(build)
    kind = writer.type(writer.value_of(leaf))
    return TensorType(kind.dtype, None)


def _port_type(head: GraphRecord, args: Sequence[Item], place: int, otherwise: object) -> TensorType:
    """What the head declares for the tensor at a place among those of its arguments."""
    at = 0
    for port, item in zip(head.inputs, args, strict=False):
        n_leaves = len(tensors_in(item))
        if at <= place < at + n_leaves:
            if n_leaves == 1 and len(port.tensors) == 1:
                try:
                    return type_of(port.tensors[0])
                except TensorFault:
                    break
            break
        at += n_leaves
    return TensorType(otherwise.dtype, None) if isinstance(otherwise, TensorType) else TensorType()
