"""Constants of a model as bytes and as arrays."""

from __future__ import annotations

from gerules.backend.om.attributes import read_int
from gerules.backend.om.error import OmError
from gerules.backend.om.model import OmOp, TensorValue
from gerules.backend.om.numbers import dtype_name
from gerules.backend.om.weights import Array, Weights, array_from_bytes
from gerules.errors import table


def constant_bytes(op: OmOp, weights: Weights) -> memoryview:
    """Return the bytes of a `Const`: those inside the graph, or a view into the weights.

    Raises:
        OmError: E80013 without a tensor `value`; E80011 when the range lies outside the weights.
    """
    value = op.attrs.get("value")
    if not isinstance(value, TensorValue):
        raise OmError(
            table.OM_BAD_ATTRIBUTE, place=op.name, name="value", found=type(value).__name__,
            expected="a tensor",
        )  # fmt: skip
    desc = value.desc
    if value.data or desc.n_elements == 0:
        return memoryview(value.data)
    # Files of HiAI phones merge all weights and give the offset as an attribute.
    offset = read_int(desc.attrs, "merged_offset", desc.data_offset)
    found = weights.view(offset, desc.weight_size_bytes)
    if found is None:
        raise OmError(
            table.OM_BAD_WEIGHTS, place=op.name, name=op.name,
            reason=f"bytes {offset} to {offset + desc.weight_size_bytes} lie outside the "
            f"{weights.size_bytes} bytes of the weights",
        )  # fmt: skip
    return found


def constant_array(op: OmOp, weights: Weights) -> Array:
    """Return the elements of a `Const` in their storage shape; a view where the type is not packed.

    Raises:
        OmError: E80013 and E80011 as `constant_bytes`; E80011 when bytes and shape do not fit, or
            gerules does not compute with the type.
    """
    data = constant_bytes(op, weights)
    value = op.attrs["value"]
    assert isinstance(value, TensorValue)
    dtype, shape = value.desc.ir_dtype, value.desc.shape
    reason = f"gerules has no arrays of {dtype_name(value.desc.dtype)}"
    if dtype is not None and dtype.bits:
        try:
            return array_from_bytes(data, dtype, shape)
        except ValueError as fault:
            reason = str(fault)
    raise OmError(table.OM_BAD_WEIGHTS, place=op.name, name=op.name, reason=reason)
