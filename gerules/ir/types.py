"""Types: what is known of a value before it is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from gerules.ir.dtype import DType
from gerules.ir.layout import Format, storage_shape

Dim = int | str
"""A dimension: its size, a name (`"N"`, `"2*N"`: equal names, equal sizes), or `"?"`: nothing known."""

Shape = tuple[Dim, ...]
"""A logical shape. Where a rank may be unknown the annotation is `Shape | None`."""

UNKNOWN_DIM: Final = "?"


@dataclass(frozen=True, slots=True)
class TensorType:
    """What is known of a tensor before it is computed.

    `shape` is the logical shape, as the model wrote it, or None when even the rank is unknown;
    `format` says how the device keeps it. The two meet in `storage_shape`:

    >>> TensorType(DType.F16, (1, 40, 7, 7), Format.NC1HWC0).storage_shape
    (1, 3, 7, 7, 16)
    """

    dtype: DType = DType.UNKNOWN
    shape: Shape | None = None
    format: Format = Format.ND
    groups: int = 1
    """Convolution groups of a FRACTAL_Z weight; 1 for everything else."""

    @property
    def rank(self) -> int | None:
        """Number of dimensions, or None when unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a known number."""
        return self.shape is not None and all(isinstance(dim, int) for dim in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape as numbers. Raises ValueError unless `is_static`."""
        shape = self.shape
        if shape is None:
            raise ValueError("the rank is unknown")
        dims = tuple(dim for dim in shape if isinstance(dim, int))
        if len(dims) != len(shape):
            raise ValueError(f"the shape {shape} is not static")
        return dims

    @property
    def n_elements(self) -> int:
        """Number of logical elements. Raises ValueError unless `is_static`."""
        return math.prod(self.static_shape)

    @property
    def storage_shape(self) -> tuple[int, ...]:
        """The shape in memory, padding included. Raises ValueError unless `is_static`."""
        return storage_shape(self.static_shape, self.format, self.dtype, groups=self.groups)

    @property
    def size_bytes(self) -> int:
        """Bytes of the tensor as stored, padding included. Raises ValueError unless `is_static`."""
        return self.dtype.size_bytes(math.prod(self.storage_shape))

    def with_format(self, format: Format, groups: int = 1) -> TensorType:
        """The same logical tensor, kept in another storage format."""
        return replace(self, format=format, groups=groups)

    def with_dtype(self, dtype: DType) -> TensorType:
        """The same shape with another element type."""
        return replace(self, dtype=dtype)

    def __str__(self) -> str:
        shape = "[*]" if self.shape is None else "[" + ", ".join(str(dim) for dim in self.shape) + "]"
        layout = "" if self.format is Format.ND else f" @{self.format.name}"
        layout += f"/{self.groups}" if self.groups != 1 else ""
        return f"{self.dtype}{shape}{layout}"


@dataclass(frozen=True, slots=True)
class SequenceType:
    """A sequence of values of one type."""

    element: ValueType

    def __str__(self) -> str:
        return f"seq({self.element})"


@dataclass(frozen=True, slots=True)
class OptionalType:
    """A value that may be absent at run time."""

    element: ValueType

    def __str__(self) -> str:
        return f"optional({self.element})"


@dataclass(frozen=True, slots=True)
class MapType:
    """A dictionary from keys of one element type to values, as the ai.onnx.ml domain has them."""

    key: DType
    value: ValueType

    def __str__(self) -> str:
        return f"map({self.key}, {self.value})"


ValueType = TensorType | SequenceType | OptionalType | MapType

UNKNOWN: Final = TensorType()
"""The type of a tensor of which nothing is known yet."""


def unify(known: ValueType, other: ValueType) -> ValueType | None:
    """Return the most precise type that both agree with, or None when they contradict.

    Unknown dtypes, ranks and dims take what the other side knows; a number beats a name. Formats
    must be equal.

    >>> str(unify(TensorType(DType.F32, ("N", 3)), TensorType(DType.UNKNOWN, (2, "?"))))
    'f32[2, 3]'
    """
    if isinstance(known, TensorType) and isinstance(other, TensorType):
        return _unify_tensors(known, other)
    if isinstance(known, TensorType) or isinstance(other, TensorType):
        # An untyped value may turn out to be a sequence, an optional or a map.
        tensor, container = (known, other) if isinstance(known, TensorType) else (other, known)
        return container if tensor == UNKNOWN else None
    if isinstance(known, MapType) and isinstance(other, MapType):
        inner = unify(known.value, other.value)
        return MapType(known.key, inner) if inner is not None and known.key is other.key else None
    if isinstance(known, SequenceType) and isinstance(other, SequenceType):
        inner = unify(known.element, other.element)
        return None if inner is None else SequenceType(inner)
    if isinstance(known, OptionalType) and isinstance(other, OptionalType):
        inner = unify(known.element, other.element)
        return None if inner is None else OptionalType(inner)
    return None


def unify_dim(known: Dim, other: Dim) -> Dim | None:
    """Return the more precise of two dims, or None when two numbers differ."""
    if known == other or other == UNKNOWN_DIM:
        return known
    if known == UNKNOWN_DIM:
        return other
    if isinstance(known, int):
        return None if isinstance(other, int) else known
    return other if isinstance(other, int) else known


def _unify_tensors(known: TensorType, other: TensorType) -> TensorType | None:
    if known == other:
        return known
    if known.format is not other.format or known.groups != other.groups:
        return None
    if known.dtype is other.dtype or other.dtype is DType.UNKNOWN:
        dtype = known.dtype
    elif known.dtype is DType.UNKNOWN:
        dtype = other.dtype
    else:
        return None
    if known.shape is None or other.shape is None:
        shape = known.shape if other.shape is None else other.shape
        return TensorType(dtype, shape, known.format, known.groups)
    if len(known.shape) != len(other.shape):
        return None
    dims: list[Dim] = []
    for one, two in zip(known.shape, other.shape, strict=True):
        dim = unify_dim(one, two)
        if dim is None:
            return None
        dims.append(dim)
    return TensorType(dtype, tuple(dims), known.format, known.groups)
