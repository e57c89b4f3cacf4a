"""A run of a model on data sets: bytes become arrays by the model's types, and results become bytes again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import AclFault, fault
from gerules.compat.acl.datasets import BUFFER, TENSOR_DESC, DataBuffer, Dataset, TensorDesc
from gerules.compat.acl.memory import Side
from gerules.compat.acl.model_facts import PortFacts
from gerules.compat.acl.models import LoadedModel
from gerules.compat.acl.process import Process
from gerules.compat.acl.profiling import PROFILER
from gerules.errors import GerulesError, table
from gerules.errors.counts import count_text
from gerules.ir import DType, TensorType
from gerules.runtime.executor import OpTime
from gerules.runtime.feeds import Port
from gerules.runtime.kernels import Array


@dataclass(frozen=True, slots=True)
class Run:
    """What a run needs, looked up when it is asked for; a stream may come to it later."""

    model: LoadedModel
    inputs: tuple[tuple[PortFacts, DataBuffer, tuple[int, ...]], ...]
    outputs: tuple[DataBuffer, ...]
    target: Dataset


def prepare(process: Process, model: LoadedModel, inputs: Dataset, outputs: Dataset) -> Run:
    """Check that data sets fit a model.

    Raises:
        AclFault: 100017 and 100018 for the number of buffers, 145013 without a gear, 145021 without a shape,
            145022 for another element type.
    """
    facts = model.facts
    sides = (
        ("input", inputs, facts.inputs, codes.INPUT_NOT_MATCH),
        ("output", outputs, facts.outputs, codes.OUTPUT_NOT_MATCH),
    )
    for side, dataset, ports, code in sides:
        if len(dataset.buffers) != len(ports):
            raise fault(
                code, table.ACL_DATASET, side=side, model=facts.name,
                reason=f"it has {count_text(len(dataset.buffers), 'buffer')}, "
                f"the model has {count_text(len(ports), side)}",
                remedy=f"add one buffer for each of acl.mdl.get_num_{side}s",
            )  # fmt: skip
    shapes = _shapes_of(process, model, inputs)
    found = [process.handles.get(handle, DataBuffer, BUFFER) for handle in inputs.buffers]
    made = [process.handles.get(handle, DataBuffer, BUFFER) for handle in outputs.buffers]
    return Run(model, tuple(zip(facts.inputs, found, shapes, strict=True)), tuple(made), outputs)


def perform(process: Process, run: Run) -> None:
    """Run a model, and write what it gives.

    Raises:
        AclFault: 145006 and 145007 for buffers, 145021 for shapes that contradict, 507011 from an operator,
            200006 for values that are no tensors.
    """
    model = run.model
    ports = {port.name: port for port in model.executor.io.inputs}
    feeds = {
        facts.name: _read(process, ports[facts.name], facts, buffer, shape)
        for facts, buffer, shape in run.inputs
        if facts.name in ports
    }
    watchers = (*model.watchers, *((PROFILER.record_run,) if PROFILER.wants_ops else ()))
    profile: list[OpTime] | None = [] if watchers else None
    began_ns = time.perf_counter_ns()
    try:
        made = model.executor.run(feeds, profile=profile)
    except GerulesError as error:
        is_input = error.code.startswith("E2")
        code = codes.GE_SHAPE_INVALID if is_input else codes.RT_MODEL_EXECUTE
        raise AclFault(code, error.diagnostics) from None
    for watcher in watchers:
        watcher(model, profile or [], began_ns)
    arrays = [made[port.name] for port in model.executor.io.outputs]
    model.last_dims = tuple(tuple(np.shape(array)) for array in arrays)
    _write_all(process, run, arrays)


def _shapes_of(process: Process, model: LoadedModel, inputs: Dataset) -> list[tuple[int, ...]]:
    facts = model.facts
    # A model with gears and a plan for all other shapes is told those like one with open shapes.
    if facts.kind is not None and (inputs.gear is not None or not inputs.descs):
        if inputs.gear not in facts.gears:
            raise fault(
                codes.GE_BATCH_NOT_A_GEAR, table.ACL_NO_GEAR, model=facts.name, kind=facts.kind,
                found="nothing" if inputs.gear is None else list(inputs.gear), known=told_gears(facts.gears),
            )  # fmt: skip
        chosen = facts.open_dims_of(inputs.gear)
        return [chosen.get(at, port.dims) for at, port in enumerate(facts.inputs)]
    shapes: list[tuple[int, ...]] = []
    for at, port in enumerate(facts.inputs):
        if not port.is_open:
            # The model knows the shape, and the buffer is so many bytes, whatever they were before.
            shapes.append(port.dims)
            continue
        desc = _desc_of(process, inputs, at, port)
        if desc is not None and desc.dtype != port.dtype:
            raise fault(
                codes.GE_DTYPE_INVALID, table.ACL_DATASET, side="input", model=facts.name,
                reason=f"input {port.name} is described as type {desc.dtype}; the model takes {port.dtype}",
                remedy="describe it with the data type of acl.mdl.get_input_data_type",
            )  # fmt: skip
        shape = port.dims if desc is None else desc.dims
        if any(dim < 0 for dim in shape):
            raise fault(
                codes.GE_SHAPE_INVALID, table.ACL_DATASET, side="input", model=facts.name,
                reason=f"input {port.name} is {list(port.dims)}, and the data set does not say its shape",
                remedy="call acl.mdl.set_dataset_tensor_desc for it",
            )  # fmt: skip
        shapes.append(shape)
    return shapes


def _desc_of(process: Process, inputs: Dataset, at: int, port: PortFacts) -> TensorDesc | None:
    """What the caller says of an input of open shape; else what a run left there, where that is one of it."""
    left = inputs.left.get(at)
    if left is not None:
        desc = process.handles.get(left, TensorDesc, TENSOR_DESC)
        fits = len(desc.dims) == len(port.dims) and all(
            wanted in (dim, -1) for dim, wanted in zip(desc.dims, port.dims, strict=True)
        )
        if desc.dtype == port.dtype and fits:
            return desc
    told = inputs.descs.get(at)
    return None if told is None else process.handles.get(told, TensorDesc, TENSOR_DESC)


def told_gears(gears: Sequence[tuple[int, ...]]) -> str:
    """Return gears as messages list them."""
    return "; ".join(",".join(map(str, gear)) for gear in gears)


def _read(
    process: Process, port: Port, facts: PortFacts, buffer: DataBuffer, shape: tuple[int, ...]
) -> Array:
    type = port.type
    if not isinstance(type, TensorType) or not type.dtype.bits:
        raise fault(
            codes.FEATURE_UNSUPPORTED, table.ACL_DATASET, side="input", model="the model",
            reason=f"input {facts.name} is {type}, and no tensor of numbers",
            remedy="run it by gerules.load_om",
        )  # fmt: skip
    dtype = type.dtype.numpy
    need_bytes = prod(shape) * dtype.itemsize
    if buffer.size_bytes < need_bytes:
        raise fault(
            codes.GE_DATA_SIZE, table.ACL_SIZE, what=f"input {facts.name} {list(shape)}",
            need_bytes=need_bytes,
            have_bytes=buffer.size_bytes,
        )  # fmt: skip
    if need_bytes == 0:
        return np.empty(shape, dtype)
    view = process.memory.span(
        buffer.address, need_bytes, f"input {facts.name}", side=Side.DEVICE, code=codes.GE_DATA_ADDRESS
    )
    # Bytes that are neither 0 nor 1 are no truth values to numpy.
    array = view != 0 if type.dtype is DType.BOOL else view.view(dtype)
    return cast(Array, array.reshape(shape))


def _write_all(process: Process, run: Run, arrays: Sequence[Array]) -> None:
    for at, (array, buffer, facts) in enumerate(
        zip(arrays, run.outputs, run.model.facts.outputs, strict=True)
    ):
        if array.dtype.kind == "O":
            raise fault(
                codes.FEATURE_UNSUPPORTED, table.ACL_DATASET, side="output", model=run.model.facts.name,
                reason=f"output {facts.name} is text", remedy="run it by gerules.load_om",
            )  # fmt: skip
        _write(process, array, buffer, facts)
        desc = TensorDesc(facts.dtype, tuple(array.shape), facts.format)
        known = run.target.left.get(at)
        held = None if known is None else process.handles.get(known, TensorDesc, TENSOR_DESC)
        if held is not None:
            held.dtype, held.dims, held.format = desc.dtype, desc.dims, desc.format
        else:
            run.target.left[at] = process.handles.add(desc)


def _write(process: Process, array: Array, buffer: DataBuffer, facts: PortFacts) -> None:
    if array.nbytes == 0:
        return
    if buffer.address == 0 and buffer.size_bytes == 0:
        # Where the caller cannot know the size it leaves the memory to the run, and frees it afterwards.
        buffer.address = process.memory.allocate(array.nbytes, Side.DEVICE, "acl.mdl.execute")
        buffer.size_bytes = array.nbytes
    if buffer.size_bytes < array.nbytes:
        raise fault(
            codes.GE_DATA_SIZE, table.ACL_SIZE, what=f"output {facts.name} {list(array.shape)}",
            need_bytes=array.nbytes, have_bytes=buffer.size_bytes,
        )  # fmt: skip
    view = process.memory.span(
        buffer.address, array.nbytes, f"output {facts.name}", side=Side.DEVICE, code=codes.GE_DATA_ADDRESS,
        writes=True,
    )  # fmt: skip
    view[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
