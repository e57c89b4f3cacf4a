"""The inputs that a torch model is traced with: positional, by name, or made from shapes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from gerules.dsl.book import suggest
from gerules.errors import Faults, table
from gerules.frontends.examples import Examples
from gerules.frontends.fault import ModelError
from gerules.frontends.torch.kinds import Kind
from gerules.ir import Dim


@dataclass(frozen=True, slots=True)
class Arguments:
    """What `forward` is called with, and which of its dimensions stay open.

    `dim_names` has the structure of `dynamic_shapes`, with names where dimensions of torch stand there.
    """

    positional: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict[str, Any])
    dynamic_shapes: Any = None
    dim_names: Any = None


def choose_arguments(torch: Any, model: Any, kind: Kind | None, examples: Examples, called: str) -> Arguments:
    """Return the arguments to trace a model with.

    Raises:
        ModelError: E10081 when a model that has to be traced comes without, E10082 when they are of a kind
            that torch cannot take.
    """
    if kind == "program":
        if examples.is_given:
            reason = "it has been traced already, with inputs and open dimensions of its own"
            raise ModelError(table.BAD_EXAMPLE, model=called, reason=reason, remedy="leave them out")
        return Arguments()
    given = examples.inputs
    if given is None and examples.shapes:
        given = _made_from(torch, model, kind, examples.shapes, called)
    if given is None:
        raise ModelError(table.NO_EXAMPLE, model=called)
    dims = _with_dims(torch, examples.dynamic_shapes)
    found = _as_arguments(torch, given, dims, called)
    if kind == "module":
        bound = _check_call(model, found, called)
        _check_dims(torch, bound, examples.dynamic_shapes, called)
    return found


def _check_dims(torch: Any, arguments: Mapping[str, Any], shapes: object, called: str) -> None:
    """Raise E10082 for open dimensions that are none of an input."""
    if shapes is None:
        return
    if not isinstance(shapes, Mapping | tuple | list):
        reason = f"dynamic_shapes is {shapes!r}"
        remedy = 'give open sizes by input, such as {"x": {0: "batch"}}'
        raise ModelError(table.BAD_EXAMPLE, model=called, reason=reason, remedy=remedy)
    known = ", ".join(arguments)
    faults = Faults()
    if isinstance(shapes, Mapping):
        by_name = cast("dict[str, object]", shapes)
    else:
        listed = cast("Sequence[object]", shapes)
        if len(listed) != len(arguments):
            reason = f"dynamic_shapes has {len(listed)} parts, and there are {len(arguments)} inputs: {known}"
            faults.add(table.BAD_EXAMPLE, model=called, reason=reason, remedy="give one for each, or None")
        by_name = dict(zip(arguments, listed, strict=False))
    for name, dims in by_name.items():
        if name not in arguments:
            reason = f"dynamic_shapes names {name}, which is none of its inputs {known}"
            remedy = f"use one of {known}"
            notes = suggest(str(name), list(arguments))
            faults.add(table.BAD_EXAMPLE, model=called, reason=reason, remedy=remedy, notes=notes)
        elif isinstance(arguments[name], torch.Tensor) and isinstance(dims, Mapping):
            rank = int(arguments[name].dim())
            for axis in cast("Mapping[object, object]", dims):
                if not (isinstance(axis, int) and 0 <= axis < rank):
                    reason = f"dynamic_shapes opens dimension {axis!r} of {name}, which has {rank}"
                    remedy = f"give whole numbers from 0 to {rank - 1}" if rank else "leave it out"
                    faults.add(table.BAD_EXAMPLE, model=called, reason=reason, remedy=remedy)
    faults.raise_if_any(ModelError)


def _as_arguments(torch: Any, given: object, dims: Any, called: str) -> Arguments:
    if isinstance(given, Mapping):
        items = cast("Mapping[str, object]", given)
        named = {str(name): _tensors(torch, item, called) for name, item in items.items()}
        return Arguments((), named, dims, _names_of(dims))
    if isinstance(given, tuple | list):
        found = tuple(_tensors(torch, item, called) for item in cast("Sequence[object]", given))
        return Arguments(found, {}, dims, _names_of(dims))
    return Arguments((_tensors(torch, given, called),), {}, dims, _names_of(dims))


def _check_call(model: Any, arguments: Arguments, called: str) -> Mapping[str, Any]:
    """Return the inputs by the names of `forward`'s parameters; E10082 when it does not take them."""
    try:
        bound = inspect.signature(model.forward).bind(*arguments.positional, **arguments.named)
    except TypeError as fault:
        signature = inspect.signature(model.forward)
        raise ModelError(
            table.BAD_EXAMPLE, model=called, reason=fault, remedy=f"give what forward{signature} takes"
        ) from None  # fmt: skip
    return bound.arguments


def tensor_names(model: Any) -> list[str] | None:
    """Return the names of a scripted `forward`'s parameters; None unless all of them are tensors."""
    arguments: Any = model.forward.schema.arguments[1:]
    if all(str(argument.type) == "Tensor" for argument in arguments):
        return [str(argument.name) for argument in arguments]
    return None


def _made_from(
    torch: Any, model: Any, kind: Kind | None, shapes: Mapping[str, Sequence[Dim]], called: str
) -> tuple[Any, ...]:
    """Inputs of float32 for a TorchScript module, whose file says names but neither types nor shapes."""
    names = tensor_names(model) if kind == "script" else None
    if names is None:
        raise ModelError(table.NO_EXAMPLE, model=called)
    faults = Faults()
    for name in shapes:
        if name not in names:
            faults.add(table.UNKNOWN_INPUT, input=name, known=", ".join(names))
    for name in names:
        shape = shapes.get(name)
        if shape is None:
            faults.add(table.NO_EXAMPLE, model=f"input {name} of {called}")
        elif not all(isinstance(dim, int) for dim in shape):
            reason = f"the shape of {name} leaves a size open"
            faults.add(table.BAD_EXAMPLE, model=called, reason=reason, remedy="give numbers for all of them")
    faults.raise_if_any(ModelError)
    return tuple(torch.zeros(tuple(shapes[name])) for name in names)


def _tensors(torch: Any, item: object, called: str) -> Any:
    """The same structure with arrays as tensors."""
    if isinstance(item, np.ndarray | np.generic):
        try:
            return torch.from_numpy(np.array(cast(Any, item)))
        except TypeError as fault:
            remedy = "give arrays of numbers"
            raise ModelError(table.BAD_EXAMPLE, model=called, reason=str(fault), remedy=remedy) from None
    if isinstance(item, tuple | list):
        found = [_tensors(torch, inner, called) for inner in cast("Sequence[object]", item)]
        return tuple(found) if isinstance(item, tuple) else found
    if isinstance(item, Mapping):
        pairs = cast("Mapping[str, object]", item).items()
        return {name: _tensors(torch, inner, called) for name, inner in pairs}
    return item


def _with_dims(torch: Any, shapes: object) -> Any:
    """Open dimensions with names turned into those of torch: equal names are one dimension."""
    known: dict[str, Any] = {}

    def convert(item: object) -> Any:
        if isinstance(item, str):
            return known.setdefault(item, torch.export.Dim(item))
        if isinstance(item, Mapping):
            return {key: convert(inner) for key, inner in cast("Mapping[object, object]", item).items()}
        if isinstance(item, tuple | list):
            return tuple(convert(inner) for inner in cast("Sequence[object]", item))
        return item

    try:
        return convert(shapes)
    except (AssertionError, ValueError) as fault:
        raise ModelError(
            table.BAD_EXAMPLE, model="the model", reason=f"dynamic_shapes: {fault}",
            remedy="name a dimension as Python names a variable",
        ) from None  # fmt: skip


def _names_of(shapes: object) -> Any:
    if isinstance(shapes, Mapping):
        return {key: _names_of(inner) for key, inner in cast("Mapping[object, object]", shapes).items()}
    if isinstance(shapes, tuple | list):
        return tuple(_names_of(inner) for inner in cast("Sequence[object]", shapes))
    # Hints such as Dim.AUTO have no name of their own.
    return getattr(shapes, "__name__", shapes)
