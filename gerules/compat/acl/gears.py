"""Gears of a model: which there are, and choosing one for a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import numpy as np

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import fault, returns_code, returns_pair, shown, whole
from gerules.compat.acl.datasets import BUFFER, DATASET, MODEL_DESC, DataBuffer, Dataset, ModelDesc
from gerules.compat.acl.execution import told_gears
from gerules.compat.acl.memory import Side
from gerules.compat.acl.model_facts import SHAPE_INPUT, GearKind, ModelFacts
from gerules.compat.acl.process import PROCESS
from gerules.errors import table
from gerules.errors.counts import count_text

_INT64: Final = 9
NO_DIMS: Final[Mapping[str, object]] = {}


@returns_pair("acl.mdl.get_dynamic_batch", dict[str, object])
def get_dynamic_batch(model_desc: int) -> dict[str, object]:
    """Return `batchCount` and `batch`, none for a model without; and 0 or 100000."""
    facts = _facts_of(model_desc)
    sizes = [gear[0] for gear in facts.gears] if facts.kind == "batch" else []
    return {"batchCount": len(sizes), "batch": sizes}


@returns_pair("acl.mdl.get_dynamic_hw", dict[str, object])
def get_dynamic_hw(model_desc: int, index: int) -> dict[str, object]:
    """Return `hwCount` and `hw`, pairs of height and width, none for a model without; and 0 or 100000."""
    whole(index, "index", least=-1)
    facts = _facts_of(model_desc)
    pairs = [list(gear) for gear in facts.gears] if facts.kind == "hw" else []
    return {"hwCount": len(pairs), "hw": pairs}


@returns_pair("acl.mdl.get_input_dynamic_gear_count", int)
def get_input_dynamic_gear_count(model_desc: int, index: int) -> int:
    """Return how many gears of dimensions there are, and 0 or 100000. `index` is -1."""
    whole(index, "index", least=-1)
    facts = _facts_of(model_desc)
    return len(facts.gears) if facts.kind == "dims" else 0


@returns_pair("acl.mdl.get_input_dynamic_dims", list[dict[str, object]])
def get_input_dynamic_dims(model_desc: int, index: int, gear_count: int) -> list[dict[str, object]]:
    """Return for each gear the dimensions of all inputs, one after the other.

    And 0 or 100000. `index` is -1.
    """
    whole(index, "index", least=-1)
    n_wanted = whole(gear_count, "gear_count")
    facts = _facts_of(model_desc)
    gears = facts.gears[:n_wanted] if facts.kind == "dims" else ()
    return [_dims_entry(_all_dims(facts, gear)) for gear in gears]


@returns_code("acl.mdl.set_dynamic_batch_size")
def set_dynamic_batch_size(model_id: int, dataset: int, index: int, batch_size: int) -> None:
    """Choose a batch. `index` is that of `ascend_mbatch_shape_data`.

    Returns:
        0; 100019 for a model without batches, 145013 for another size, 145011 and 145012 for the buffer.
    """
    _choose(model_id, dataset, index, "batch", (whole(batch_size, "batch_size"),))


@returns_code("acl.mdl.set_dynamic_hw_size")
def set_dynamic_hw_size(model_id: int, dataset: int, index: int, height: int, width: int) -> None:
    """Choose the size of an image. Codes as `set_dynamic_batch_size`."""
    _choose(model_id, dataset, index, "hw", (whole(height, "height"), whole(width, "width")))


@returns_code("acl.mdl.set_input_dynamic_dims")
def set_input_dynamic_dims(model_id: int, dataset: int, index: int, dims: Mapping[str, object]) -> None:
    """Choose the dimensions of all inputs, as `get_input_dynamic_dims` lists them.

    Codes as `set_dynamic_batch_size`.
    """
    model = PROCESS.models.get(model_id)
    listed = _listed_dims(dims)
    facts = model.facts
    # Callers pass an entry of get_input_dynamic_dims: every dimension. The open ones alone are a gear.
    gear = next((gear for gear in facts.gears if tuple(_all_dims(facts, gear)) == listed), listed)
    _choose(model_id, dataset, index, "dims", gear)


def _choose(model_id: int, dataset: int, index: int, kind: GearKind, gear: tuple[int, ...]) -> None:
    model = PROCESS.models.get(model_id)
    facts = model.facts
    found = PROCESS.handles.get(dataset, Dataset, DATASET)
    at = whole(index, "index")
    if facts.kind != kind:
        raise fault(
            codes.MODEL_NOT_DYNAMIC, table.ACL_NOT_DYNAMIC, model=facts.name, kind=kind,
            remedy="compile it with gears" if facts.kind is None else f"choose its {facts.kind} instead",
        )  # fmt: skip
    if at != facts.shape_input or at >= len(found.buffers):
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="index", value=at,
            reason=f"{SHAPE_INPUT} is input {facts.shape_input}, "
            f"of {count_text(len(found.buffers), 'buffer')}",
            remedy=f'pass acl.mdl.get_input_index_by_name(desc, "{SHAPE_INPUT}")',
        )  # fmt: skip
    if gear not in facts.gears:
        raise fault(
            codes.GE_BATCH_NOT_A_GEAR, table.ACL_NO_GEAR, model=facts.name, kind=kind,
            found=",".join(map(str, gear)), known=told_gears(facts.gears),
        )  # fmt: skip
    _write_gear(PROCESS.handles.get(found.buffers[at], DataBuffer, BUFFER), facts.inputs[at].dtype, gear)
    found.gear = model.gear = gear


def _write_gear(buffer: DataBuffer, dtype: int, gear: tuple[int, ...]) -> None:
    values = np.array(gear, np.int64 if dtype == _INT64 else np.int32).view(np.uint8)
    if buffer.size_bytes < len(values):
        raise fault(
            codes.GE_DYNAMIC_INPUT_LENGTH, table.ACL_SIZE, what=f"input {SHAPE_INPUT}",
            need_bytes=len(values),
            have_bytes=buffer.size_bytes,
        )  # fmt: skip
    view = PROCESS.memory.span(
        buffer.address, len(values), f"input {SHAPE_INPUT}", side=Side.DEVICE,
        code=codes.GE_DYNAMIC_INPUT_ADDRESS, writes=True,
    )  # fmt: skip
    view[:] = values


def _all_dims(facts: ModelFacts, gear: tuple[int, ...]) -> list[int]:
    chosen = facts.open_dims_of(gear)
    ports = [(at, port) for at, port in enumerate(facts.inputs) if port.name != SHAPE_INPUT]
    return [dim for at, port in ports for dim in chosen.get(at, port.dims)]


def _dims_entry(dims: list[int]) -> dict[str, object]:
    return {"name": "", "dimCount": len(dims), "dims": dims}


def _listed_dims(dims: object) -> tuple[int, ...]:
    entry = cast("Mapping[str, object]", dims) if isinstance(dims, dict) else NO_DIMS
    listed = entry.get("dims")
    if not isinstance(listed, list | tuple):
        raise fault(
            codes.INVALID_PARAM, table.ACL_ARGUMENT, argument="dims", value=shown(entry),
            reason='it has no "dims"', remedy="pass an entry of acl.mdl.get_input_dynamic_dims",
        )  # fmt: skip
    return tuple(whole(dim, f"dims[{at}]") for at, dim in enumerate(cast("list[object]", listed)))


def _facts_of(handle: int) -> ModelFacts:
    return PROCESS.handles.get(handle, ModelDesc, MODEL_DESC).facts
