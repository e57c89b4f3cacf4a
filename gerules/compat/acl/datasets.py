"""Data sets: buffers in the order of a model's inputs or outputs, and descriptions of their shapes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Final

import gerules.compat.acl.codes as codes
from gerules.backend.om.numbers import dtype_of_proto, proto_of_external
from gerules.compat.acl.calling import fault
from gerules.compat.acl.handles import Kind
from gerules.compat.acl.model_facts import ModelFacts
from gerules.compat.acl.models import LoadedModel
from gerules.errors import table

BUFFER: Final = Kind("data buffer", "create_data_buffer")
DATASET: Final = Kind("data set", "create_dataset")
TENSOR_DESC: Final = Kind("tensor description", "create_tensor_desc")
MODEL_DESC: Final = Kind("model description", "create_desc")

UNDEFINED_FORMAT: Final = -1


@dataclass(eq=False)
class DataBuffer:
    """An address and how many bytes are meant; both may be 0 where the run is to allocate."""

    address: int
    size_bytes: int


@dataclass(eq=False)
class TensorDesc:
    """What a caller says of a tensor, or is told."""

    dtype: int
    dims: tuple[int, ...]
    format: int

    @property
    def size_bytes(self) -> int:
        """Of all elements; 0 unless the shape is known and the element type has a size."""
        kind = dtype_of_proto(proto_of_external(self.dtype))
        if kind is None or any(dim < 0 for dim in self.dims):
            return 0
        return kind.size_bytes(prod(self.dims))


@dataclass(eq=False)
class Dataset:
    """Buffers in order, and what is known of their shapes.

    Attributes:
        buffers: Handles of data buffers.
        descs: Handles of the descriptions that the caller set, by place.
        left: Handles of the descriptions that a run left, by place; newer than those of `descs`.
        gear: What the caller chose.
    """

    buffers: list[int] = field(default_factory=list[int])
    descs: dict[int, int] = field(default_factory=dict[int, int])
    left: dict[int, int] = field(default_factory=dict[int, int])
    gear: tuple[int, ...] | None = None

    def desc_at(self, at: int) -> int:
        """Return the handle of the newest description of a place, 0 when there is none."""
        return self.left.get(at) or self.descs.get(at, 0)


@dataclass(eq=False)
class ModelDesc:
    """A description of a model, empty until `get_desc` fills it."""

    model: LoadedModel | None = None

    @property
    def facts(self) -> ModelFacts:
        """What the model says of itself. Raises 100000 while the description is empty."""
        if self.model is None:
            raise fault(
                codes.INVALID_PARAM, table.ACL_SEQUENCE, reason="the description is empty",
                remedy="call acl.mdl.get_desc with it and the model first",
            )  # fmt: skip
        return self.model.facts
