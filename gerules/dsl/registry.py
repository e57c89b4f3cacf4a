"""The table of functions that expressions may call: names, parameters, a line of documentation each."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol
from typing import Literal as Choice

from gerules.dsl.values import OpView, Value, ValueView
from gerules.errors.counts import count_text


class MatchContext(Protocol):
    """What a function may ask about the graph around a match; the engine implements it."""

    def reaches(self, value: ValueView, ops: frozenset[str], via: frozenset[str], /) -> bool:
        """Whether a path of readers leads from `value` through operators of `via` to one of `ops`."""
        ...

    def n_readers(self, value: ValueView, /) -> int:
        """Uses of a value: input slots of nodes, captures and graph outputs."""
        ...

    def is_graph_output(self, value: ValueView, /) -> bool:
        """Whether the value is an output of its graph."""
        ...

    def ordered(self, values: Sequence[ValueView], /) -> bool:
        """Whether the producers of the values stand in this order in the graph."""
        ...

    def all_same_format(self, ops: Sequence[OpView], /) -> bool:
        """Whether all inputs and outputs of the operators have one storage format."""
        ...

    def distance_to_output(self, ops: frozenset[str], /) -> int:
        """Sum over all nodes with these operators of the longest path to a graph output."""
        ...

    def count(self, ops: frozenset[str], /) -> int:
        """Number of nodes with these operators."""
        ...

    def tagged(self, value: ValueView, tag: str, /) -> bool:
        """Whether the user gave the value, or the node that makes it, a tag such as `keep_f32`."""
        ...


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a function. `reads_ops`: the argument is an operator or an operator set by name."""

    name: str
    is_required: bool = True
    is_variadic: bool = False
    reads_ops: bool = False

    def __str__(self) -> str:
        return f"*{self.name}" if self.is_variadic else self.name if self.is_required else f"{self.name}?"


@dataclass(frozen=True, slots=True)
class External:
    """What is known of a function that Python registered. `types` are those of its parameters, in the words
    of `extern` lines; `returns` that of its result; `place` is where it is defined.
    """

    kind: Choice["predicate", "function"]
    types: tuple[str, ...]
    returns: str
    qualified_name: str
    place: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the rule language. `run` gets the arguments by position and name, and, when
    `needs_graph`, a `MatchContext` before them. `external` is None for one that is built in.
    """

    name: str
    parameters: tuple[Parameter, ...]
    run: Callable[..., Value]
    doc: str
    subject: str
    needs_graph: bool = False
    external: External | None = None

    @property
    def signature(self) -> str:
        """The call as documentation shows it: `pad(x, pads, value?)`."""
        return f"{self.name}({', '.join(str(parameter) for parameter in self.parameters)})"

    def misfit(self, n_args: int, names: Iterable[str]) -> str:
        """Say why a call with so many arguments and these named ones does not fit; empty when it does."""
        plain = [parameter for parameter in self.parameters if not parameter.is_variadic]
        is_open = len(plain) != len(self.parameters)
        if n_args > len(plain) and not is_open:
            return f"it takes {count_text(len(plain), 'argument')} at most, not {n_args}"
        given = {parameter.name for parameter in plain[:n_args]}
        for name in names:
            if name in given:
                return f"{name} is given twice"
            if not any(parameter.name == name for parameter in plain):
                near = difflib.get_close_matches(name, [parameter.name for parameter in plain], n=1)
                return f"it has no parameter {name}" + (f"; did you mean {near[0]}?" if near else "")
            given.add(name)
        missing = [item.name for item in plain if item.is_required and item.name not in given]
        return f"it needs {', '.join(missing)}" if missing else ""

    def reads_ops(self, place: int | str) -> bool:
        """Whether the argument at a position, or of a name, is an operator or an operator set."""
        if isinstance(place, str):
            return any(item.reads_ops for item in self.parameters if item.name == place)
        if place < len(self.parameters):
            return self.parameters[place].reads_ops
        return bool(self.parameters) and self.parameters[-1].is_variadic and self.parameters[-1].reads_ops


class FunctionTable(Mapping[str, Function]):
    """Functions by name. A table made from another starts with its functions and does not change it."""

    def __init__(self, base: Mapping[str, Function] | None = None) -> None:
        self._items: dict[str, Function] = dict(base or {})

    def __getitem__(self, name: str) -> Function:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, function: Function) -> None:
        """Add a function; one of its name is replaced."""
        self._items[function.name] = function

    def discard(self, name: str) -> None:
        """Take a function out, if it is there."""
        self._items.pop(name, None)


BUILTINS: Final = FunctionTable()
"""Filled by the modules that `gerules.dsl.functions` imports; use it from there."""


def builtin(
    subject: str, *, needs_graph: bool = False, ops: Sequence[str] = (), name: str = ""
) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Put a function into the table under its Python name without the leading underscore.

    Its parameters and defaults are the Python ones; its documentation is the docstring's first line.
    """

    def add(run: Callable[..., Value]) -> Callable[..., Value]:
        found = list(inspect.signature(run).parameters.values())[1 if needs_graph else 0 :]
        parameters = tuple(
            Parameter(
                item.name.rstrip("_"),
                item.default is inspect.Parameter.empty and item.kind is not inspect.Parameter.VAR_POSITIONAL,
                item.kind is inspect.Parameter.VAR_POSITIONAL,
                item.name in ops,
            )
            for item in found
        )
        doc = (run.__doc__ or "").strip().split("\n")[0]
        called = name or run.__name__.strip("_")
        BUILTINS.add(Function(called, parameters, run, doc, subject, needs_graph))
        return run

    return add
