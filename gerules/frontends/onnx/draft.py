"""Nodes being written for another version of ONNX: parameters by name, wherever that version has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from gerules.errors import GerulesError
from gerules.ir import NO_BODIES, Attr, Body, Const, DType, GraphEditor, Node, TensorType, ValueType
from gerules.ops import OpSchema, ParamKind, Schemas, infer

_FIRST_WITH_NEGATIVE_AXES: Final = 11
"""Before it axes count from the front. Source: onnx Changelog.md, version 11."""

_NEUTRAL: Final[Mapping[tuple[str, str], int]] = {
    ("Slice", "steps"): 1,
    ("Dropout", "training_mode"): 0,
}
"""Inputs that mean nothing while all their elements are this, so that versions without them need nothing."""

_FORMER_NAMES: Final[Mapping[tuple[str, str], str]] = {("TopK", "K"): "k", ("Pad", "constant_value"): "value"}
"""Inputs that were attributes under another name. Source: onnx Changelog.md."""

_ONE_ELEMENT_LISTS: Final = frozenset([("TopK", "K")])
"""Inputs that hold one number in a list; any other number became an input of rank 0."""


class ImpossibleError(Exception):
    """An operator cannot be said at a version. Whoever knows the model's node makes a ModelError of it."""

    def __init__(self, op: str, opset: int, reason: str) -> None:
        super().__init__(f"{op} at opset {opset}: {reason}")
        self.op = op
        self.opset = opset
        self.reason = reason


class Draft:
    """What stands for one node at another version.

    `node` is written at version `source`; the nodes added here are of version `target`. New values get
    types, so that forms may ask for ranks and element types.
    """

    def __init__(
        self,
        editor: GraphEditor,
        node: Node,
        source: int,
        target: int,
        schemas: Schemas,
        carry: Callable[[Draft], None],
    ) -> None:
        self.editor = editor
        self.node = node
        self.source = source
        self.target = target
        self.schemas = schemas
        self.nodes: list[Node] = []
        self._carry = carry

    # ------------------------------------------------------------ reading
    def type(self, index: int) -> TensorType:
        """Return what is known of an input; nothing when it is absent or no tensor."""
        value = self.input(index)
        found = self.editor.values[value].type if value is not None else None
        return found if isinstance(found, TensorType) else TensorType()

    def input(self, index: int) -> int | None:
        """Return an input, None when it is absent."""
        return self.node.inputs[index] if index < len(self.node.inputs) else None

    def const(self, index: int) -> Const | None:
        """Return the array of an input that is known."""
        value = self.input(index)
        return None if value is None else self.editor.consts.get(value)

    def attr(self, name: str) -> Attr | None:
        """Return an attribute, or its default at the version the node is written for."""
        found = self.node.attrs.get(name)
        schema = self.schemas.get(self.node.op, self.source)
        if found is not None or schema is None or name not in schema.attrs:
            return found
        return schema.attrs[name].default

    def fail(self, reason: str) -> ImpossibleError:
        """Return the fault that the node cannot be said at the target version."""
        return ImpossibleError(self.node.op, self.target, reason)

    # ------------------------------------------------------------ writing
    def ints(self, entries: Sequence[int]) -> int:
        """Add a list of integers and return its value."""
        return self.editor.add_const(np.array(entries, np.int64))

    def scalar(self, number: float, dtype: DType) -> int:
        """Add one number and return its value. Raises ImpossibleError when its type is not known."""
        if dtype is DType.UNKNOWN:
            raise self.fail("the element type of its input is not known")
        return self.editor.add_const(np.array(number).astype(dtype.numpy))

    def call(
        self,
        op: str,
        inputs: Sequence[int | None],
        attrs: Mapping[str, Attr] | None = None,
        *,
        outputs: Sequence[int | None] | None = None,
        version: int | None = None,
        bodies: Mapping[str, Body] = NO_BODIES,
    ) -> int:
        """Add an operator as `version` (the newest) writes it, in the target's form; return its first output.

        `outputs` are the values it gives; without them a new one is made.
        """
        version = self.schemas.latest_opset if version is None else version
        editor = self.editor
        made = tuple(outputs) if outputs is not None else (editor.add_value(),)
        kept = list(inputs)
        while kept and kept[-1] is None:
            kept.pop()
        node = Node(editor.fresh_id(), op, tuple(kept), made, attrs or {}, "", self.node.origin, bodies)
        if outputs is None:
            self._set_types(node, version)
        inner = Draft(editor, node, version, self.target, self.schemas, self._carry)
        self._carry(inner)
        self.nodes += inner.nodes
        first = made[0]
        return -1 if first is None else first

    def write(self, op: str, inputs: Sequence[int | None], attrs: Mapping[str, Attr]) -> None:
        """Add the node itself, in the form that the target version has for it.

        Raises ImpossibleError when an element type is not accepted there.
        """
        node, kept = self.node, list(inputs)
        while kept and kept[-1] is None:
            kept.pop()
        self.check_types(op, kept)
        made = replace(node, id=self.editor.fresh_id(), op=op, inputs=tuple(kept), attrs=attrs)
        self.nodes.append(made)

    def translate(self) -> None:
        """Add the node with each parameter where the target version has it.

        Raises:
            ImpossibleError: When a parameter that matters has no place there.
        """
        node = self.node
        old = self.schemas.get(node.op, self.source)
        new = self.schemas.get(node.op, self.target)
        if old is None or new is None:
            raise self.fail("it does not exist there")
        n_outputs = max(
            (place for place, value in enumerate(node.outputs, 1) if value is not None), default=0
        )
        is_open = bool(new.outputs) and new.outputs[-1].kind is ParamKind.VARIADIC
        if n_outputs > len(new.outputs) and not is_open:
            raise self.fail(f"it has no output {_output_name(old, n_outputs - 1)} there")
        inputs: list[int | None] = [None] * len(new.inputs)
        attrs: dict[str, Attr] = {}
        self._place_inputs(old, new, inputs, attrs)
        self._place_attrs(old, new, inputs, attrs)
        for place, param in enumerate(new.inputs):
            if param.kind is ParamKind.REQUIRED and inputs[place] is None:
                raise self.fail(f"{param.name} must be given there")
        for name, spec in new.attrs.items():
            if spec.is_required and name not in attrs and not spec.kind.startswith("graph"):
                raise self.fail(f"{name} must be given there")
        self.write(node.op, inputs, attrs)

    # ------------------------------------------------------------ inside
    def _place_inputs(
        self, old: OpSchema, new: OpSchema, inputs: list[int | None], attrs: dict[str, Attr]
    ) -> None:
        for place, value in enumerate(self.node.inputs):
            param = old.inputs[min(place, len(old.inputs) - 1)]
            if param.kind is ParamKind.VARIADIC:
                if not new.inputs or new.inputs[-1].kind is not ParamKind.VARIADIC:
                    raise self.fail(f"it takes no list of {param.name} there")
                inputs[len(new.inputs) - 1 :] = self.node.inputs[place:]
                return
            if value is None:
                continue
            found = self.schemas.attr_or_input(old.op, param.name, self.target)
            if found is None and (old.op, param.name) in _FORMER_NAMES:
                found = self.schemas.attr_or_input(old.op, _FORMER_NAMES[old.op, param.name], self.target)
            const = self.editor.consts.get(value)
            # Renamed inputs keep their place.
            if found is None and place < len(new.inputs) and place < new.min_inputs:
                inputs[place] = value
            elif found is None:
                neutral = _NEUTRAL.get((old.op, param.name))
                if const is None or neutral is None or not np.all(const.array == neutral):
                    raise self.fail(f"it has no {param.name} there")
            elif found.input_index is not None:
                inputs[found.input_index] = value
            elif const is None:
                raise self.fail(f"{param.name} must be known when compiling")
            else:
                value = _attr_of(const, new.attrs[found.name].kind)
                attrs[found.name] = self._axes_from_front(found.name, value)

    def _place_attrs(
        self, old: OpSchema, new: OpSchema, inputs: list[int | None], attrs: dict[str, Attr]
    ) -> None:
        given = dict(self.node.attrs)
        for name, spec in old.attrs.items():
            # A default that is another one there has to be said.
            default = new.attrs[name].default if name in new.attrs else spec.default
            if name not in given and spec.default is not None and default != spec.default:
                given[name] = spec.default
        for name, value in given.items():
            found = self.schemas.attr_or_input(old.op, name, self.target)
            if found is None:
                if name not in old.attrs or value != old.attrs[name].default:
                    raise self.fail(f"it has no {name} there")
            elif found.input_index is None:
                attrs[found.name] = self._axes_from_front(name, value)
            else:
                inputs[found.input_index] = self._const_of(new, found.input_index, value)

    def _axes_from_front(self, name: str, value: Attr) -> Attr:
        if self.target >= _FIRST_WITH_NEGATIVE_AXES or name not in ("axis", "axes"):
            return value
        rank = self.type(0).rank
        if rank is None:
            return value
        if self.node.op == "Unsqueeze":
            rank += len(value) if isinstance(value, tuple) else 1
        if isinstance(value, int):
            return value + rank if value < 0 else value
        if isinstance(value, tuple):
            entries = [entry for entry in value if isinstance(entry, int)]
            return tuple(entry + rank if entry < 0 else entry for entry in entries)
        return value

    def _const_of(self, new: OpSchema, place: int, value: Attr) -> int:
        param, first = new.inputs[place], new.inputs[0]
        accepted = param.dtypes or frozenset()
        if param.type_var and param.type_var == first.type_var:
            dtype = self.type(0).dtype
            if dtype is DType.UNKNOWN:
                raise self.fail("the element type of its input is not known")
        else:
            dtype = DType.I64 if DType.I64 in accepted else DType.F32
        array = np.array(value).astype(dtype.numpy)
        if (new.op, param.name) in _ONE_ELEMENT_LISTS:
            array = array.reshape(-1)
        return self.editor.add_const(array)

    def check_types(self, op: str, inputs: Sequence[int | None]) -> None:
        """Raise ImpossibleError when the target version does not take the element types of the inputs."""
        schema = self.schemas.get(op, self.target)
        if schema is None:
            return
        for place, value in enumerate(inputs):
            if value is None or not schema.inputs:
                continue
            param = schema.inputs[min(place, len(schema.inputs) - 1)]
            type_ = self.editor.values[value].type
            if param.dtypes is None or not isinstance(type_, TensorType) or type_.dtype is DType.UNKNOWN:
                continue
            if type_.dtype not in param.dtypes:
                raise ImpossibleError(op, self.target, f"it takes no {type_.dtype} there")

    def _set_types(self, node: Node, version: int) -> None:
        values, consts = self.editor.values, self.editor.consts
        types: list[ValueType | None] = [None if v is None else values[v].type for v in node.inputs]
        known = [None if v is None else consts.get(v) for v in node.inputs]
        try:
            found = infer(node, types, known, self.schemas, version)
        except GerulesError:
            # The form is not worse for it: types are for those who ask.
            return
        for value, type_ in zip(node.outputs, found, strict=False):
            if value is not None:
                self.editor.set_type(value, type_)


def _output_name(schema: OpSchema, place: int) -> str:
    """Return the name of an output, the last one again for variadic ones."""
    return schema.outputs[min(place, len(schema.outputs) - 1)].name


def _attr_of(const: Const, kind: str) -> Attr:
    entries = const.array.reshape(-1).tolist()
    match kind:
        case "ints":
            return tuple(int(entry) for entry in entries)
        case "floats":
            return tuple(float(entry) for entry in entries)
        case "int":
            return int(entries[0])
        case "float":
            return float(entries[0])
        case _:
            return const
