"""One application of an operator, as an inference rule sees it, and how a rule says that it cannot be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gerules.errors import ErrorCode, table
from gerules.ir import UNKNOWN, Attr, Const, Dim, DType, Shape, TensorType, ValueType

Vector = tuple[Dim, ...]
"""The entries of an integer tensor of rank 0 or 1, as far as they are known: numbers, names, `"?"`."""

LONGEST_VECTOR: Final = 256
"""Longer integer tensors are data, not shapes, axes or sizes."""

MOST_FACTORS: Final = 8
"""Longer tensors of floating-point numbers are data, not factors of sizes: a picture has not so many axes."""

HIGHEST_RANK: Final = 64
"""Ranks beyond it are refused, so that a hostile shape vector cannot exhaust memory. numpy stops here too."""


class Misfit(Exception):  # noqa: N818 - it becomes a ShapeError once the node is known
    """An operator cannot be applied like this. The caller knows the node."""

    def __init__(self, code: ErrorCode, **facts: object) -> None:
        super().__init__(code.code)
        self.error_code = code
        self.facts = facts


def misfit(reason: str) -> Misfit:
    """Return the fault that shapes do not fit."""
    return Misfit(table.SHAPES_DO_NOT_FIT, reason=reason)


def bad_attr(name: str, reason: str) -> Misfit:
    """Return the fault that an attribute cannot be so."""
    return Misfit(table.BAD_ATTRIBUTE, attr=name, reason=reason)


class Call:
    """Types, known contents and attributes of one application.

    `inputs` has a type for each input, None where an optional one is absent; `consts` and `vectors`
    say what is known of their contents; `dtypes` are the element types of the outputs as far as the
    schema tells them.
    """

    __slots__ = (
        "_consts",
        "attrs",
        "dtypes",
        "inputs",
        "is_by_contents",
        "n_outputs",
        "op",
        "opset",
        "vectors",
    )

    def __init__(
        self,
        op: str,
        opset: int,
        attrs: Mapping[str, Attr],
        inputs: Sequence[ValueType | None],
        consts: Sequence[Const | None],
        vectors: Sequence[Vector | None],
        n_outputs: int,
        dtypes: Sequence[DType],
    ) -> None:
        self.op = op
        self.opset = opset
        self.attrs = attrs
        self.inputs = inputs
        self._consts = consts
        self.is_by_contents = False
        """Whether anyone has asked for `consts`."""
        self.vectors = vectors
        self.n_outputs = n_outputs
        self.dtypes = dtypes

    # ------------------------------------------------------------ inputs
    @property
    def consts(self) -> Sequence[Const | None]:
        """The inputs that are known at compile time."""
        self.is_by_contents = True
        return self._consts

    def has(self, index: int) -> bool:
        """Whether the input is given."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def tensor(self, index: int) -> TensorType:
        """Return the type of an input; unknown when it is absent.

        Raises Misfit (E30005) when it is a sequence, an optional or a map.
        """
        type = self.inputs[index] if index < len(self.inputs) else None
        if type is None:
            return UNKNOWN
        if not isinstance(type, TensorType):
            reason = "a tensor is needed"
            raise Misfit(table.TYPE_NOT_ACCEPTED, param=f"input {index}", found=type, reason=reason)
        return type

    def shape(self, index: int) -> Shape | None:
        """Return the shape of an input, None when its rank is unknown or it is absent."""
        return self.tensor(index).shape

    def vector(self, index: int) -> Vector | None:
        """Return the integers an input of rank 0 or 1 holds, as far as they are known."""
        if index < len(self.vectors):
            known = self.vectors[index]
            if known is not None:
                return known
        const = self.consts[index] if index < len(self.consts) else None
        return None if const is None else vector_of(const)

    def ints(self, index: int) -> tuple[int, ...] | None:
        """Return the integers an input holds, when all of them are known numbers."""
        known = self.vector(index)
        if known is None:
            return None
        numbers = tuple(entry for entry in known if isinstance(entry, int))
        return numbers if len(numbers) == len(known) else None

    def floats(self, index: int) -> tuple[float, ...] | None:
        """Return the few numbers that a constant input of rank 0 or 1 holds."""
        const = self.consts[index] if index < len(self.consts) else None
        if const is None or const.array.ndim > 1 or const.array.size > MOST_FACTORS:
            return None
        if const.array.dtype.kind not in "fiu":
            return None
        return tuple(float(entry) for entry in const.array.reshape(-1).tolist())

    # ------------------------------------------------------------ attributes
    def int_attr(self, name: str, default: int) -> int:
        """Return an integer attribute. Raises Misfit (E30003) when it is something else."""
        value = self.attrs.get(name, default)
        if isinstance(value, int):
            return value
        raise bad_attr(name, "is no integer")

    def float_attr(self, name: str, default: float) -> float:
        """Return a number. Raises Misfit (E30003) when it is something else."""
        value = self.attrs.get(name, default)
        if isinstance(value, int | float):
            return float(value)
        raise bad_attr(name, "is no number")

    def text_attr(self, name: str, default: str) -> str:
        """Return a text. Raises Misfit (E30003) when it is something else."""
        value = self.attrs.get(name, default)
        if isinstance(value, str):
            return value
        raise bad_attr(name, "is no text")

    def ints_attr(self, name: str) -> tuple[int, ...] | None:
        """Return a list of integers, None when absent. Raises Misfit (E30003) when it is something else."""
        value = self.attrs.get(name)
        if value is None:
            return None
        if isinstance(value, tuple):
            # A list comprehension, not a generator: this runs several times for each convolution.
            numbers = [entry for entry in value if isinstance(entry, int)]
            if len(numbers) == len(value):
                return tuple(numbers)
        raise bad_attr(name, "is no list of integers")

    def floats_attr(self, name: str) -> tuple[float, ...] | None:
        """Return a list of numbers, None when absent. Raises Misfit (E30003) when it is something else."""
        value = self.attrs.get(name)
        if value is None:
            return None
        if isinstance(value, tuple):
            numbers = tuple(float(entry) for entry in value if isinstance(entry, int | float))
            if len(numbers) == len(value):
                return numbers
        raise bad_attr(name, "is no list of numbers")

    def dtype_attr(self, name: str) -> DType:
        """Return an element type, UNKNOWN when absent. Raises Misfit (E30003) when it is something else."""
        value = self.attrs.get(name, DType.UNKNOWN)
        if isinstance(value, DType):
            return value
        raise bad_attr(name, "is no element type")

    def axis_attr(self, name: str, default: int, rank: int) -> int:
        """Return an axis counted from the front. Raises Misfit (E30003) when it is not of that rank."""
        return axis_in(self.int_attr(name, default), rank, name)


Rule = Callable[[Call], Sequence[ValueType]]
"""Says what one family of operators gives. Raises Misfit when the application cannot be."""


def axis_in(axis: int, rank: int, name: str = "axis") -> int:
    """Return an axis counted from the front. Raises Misfit (E30003) when out of range."""
    if -rank <= axis < rank:
        return axis + rank if axis < 0 else axis
    raise bad_attr(name, f"is {axis}, but the rank is {rank}")


def axes_in(axes: Sequence[int], rank: int, name: str = "axes") -> list[int]:
    """Return axes counted from the front. Raises Misfit (E30003) when out of range or given twice."""
    found = [axis_in(axis, rank, name) for axis in axes]
    if len(set(found)) != len(found):
        raise bad_attr(name, "names one axis twice")
    return found


def vector_of(const: Const) -> Vector | None:
    """Return the integers of a small constant of rank 0 or 1."""
    array = const.array
    if array.ndim > 1 or array.size > LONGEST_VECTOR or array.dtype.kind not in "iub":
        return None
    return tuple(int(entry) for entry in array.reshape(-1).tolist())


def unknown_shape(rank: int) -> Shape:
    """Return a shape of which the rank alone is known."""
    return ("?",) * rank
