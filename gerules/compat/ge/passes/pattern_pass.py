"""The base of pattern fusion passes, and how a pass is asked for its patterns and its replacement."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast, overload

from gerules.compat.ge.error import GeError
from gerules.compat.ge.es.graph_builder import GraphBuilder, TensorHolder
from gerules.compat.ge.graph.graph import Graph
from gerules.compat.ge.passes.match import MatchResult
from gerules.errors import table

F = TypeVar("F", bound=Callable[..., object])

_MARK: Final = "is_pattern_of_pass"
_MOST_INPUTS: Final = 128


def pattern(method: F) -> F:
    """Mark a method `(self, inputs)` that builds a pattern; it returns the values that are replaced."""
    setattr(method, _MARK, True)
    return method


@dataclass(frozen=True, slots=True)
class PatternMatcherConfig:
    """How strictly a pattern is matched: constants by their value, attributes by their value."""

    matches_const_values: bool = False
    matches_attrs: bool = False

    def is_enable_const_value_match(self) -> bool:
        """Whether constants have to have the pattern's value."""
        return self.matches_const_values

    def is_enable_ir_attr_match(self) -> bool:
        """Whether attributes have to have the pattern's value."""
        return self.matches_attrs


class PatternMatcherConfigBuilder:
    """Builds a configuration."""

    def __init__(self) -> None:
        self._consts = False
        self._attrs = False

    def enable_const_value_match(self) -> PatternMatcherConfigBuilder:
        """Match constants by value."""
        self._consts = True
        return self

    def enable_ir_attr_match(self) -> PatternMatcherConfigBuilder:
        """Match attributes by value."""
        self._attrs = True
        return self

    def build(self) -> PatternMatcherConfig:
        """Return the configuration."""
        return PatternMatcherConfig(self._consts, self._attrs)


class PatternInputs(Sequence[TensorHolder]):
    """The values that a pattern reads from outside, made as they are asked for: `x, y = inputs[:2]`."""

    def __init__(self, builder: GraphBuilder) -> None:
        self._builder = builder
        self._made: list[TensorHolder] = []

    @overload
    def __getitem__(self, index: int) -> TensorHolder: ...
    @overload
    def __getitem__(self, index: slice) -> list[TensorHolder]: ...
    def __getitem__(self, index: int | slice) -> TensorHolder | list[TensorHolder]:
        if isinstance(index, slice):
            if index.stop is None or index.stop < 0:
                raise IndexError("say how many inputs there are: inputs[:2]")
            return [self[at] for at in range(index.stop)[index]]
        if not 0 <= index < _MOST_INPUTS:
            raise IndexError(f"inputs are 0 to {_MOST_INPUTS - 1}")
        while len(self._made) <= index:
            self._made.append(self._builder.create_input(len(self._made), name=f"x{len(self._made)}"))
        return self._made[index]

    def __len__(self) -> int:
        return len(self._made)

    def __iter__(self) -> Iterator[TensorHolder]:
        raise IndexError("say how many inputs there are: x, y = inputs[:2]")


class PatternFusionPass:
    """A pass that replaces what a pattern matches.

    Methods marked `@pattern`, or `patterns()`, say what is looked for; `meet_requirements` has the last word
    about a match; `replacement` builds what comes in its place. All of them are called once, when rules are
    loaded, except `meet_requirements`, which is called for every match.
    """

    def __init__(self, config: PatternMatcherConfig | None = None) -> None:
        self._config = config or PatternMatcherConfig()

    @property
    def config(self) -> PatternMatcherConfig:
        """How strictly its patterns are matched."""
        return getattr(self, "_config", PatternMatcherConfig())

    def patterns(self) -> list[Graph]:
        """Return patterns as graphs; by default none, for those who mark methods."""
        return []

    def meet_requirements(self, match_result: MatchResult) -> bool:
        """Whether a match is taken; by default every one is."""
        return True

    def replacement(self, inputs: Sequence[TensorHolder]) -> object:
        """Build what comes in the place of a match, and return its values; or a graph that does."""
        raise NotImplementedError


def create_pattern(graph: Graph) -> Graph:
    """Return the graph: a graph is a pattern."""
    return graph


def create_replacement(graph: Graph) -> Graph:
    """Return the graph: a graph is a replacement."""
    return graph


@dataclass(frozen=True, slots=True)
class BuiltPattern:
    """A pattern of a pass: the name of its method, what it built, and the method itself."""

    name: str
    graph: Graph
    method: Callable[..., object]


def patterns_of(found: PatternFusionPass, name: str) -> list[BuiltPattern]:
    """Return the patterns of a pass. Raises GeError E41005."""
    marked = [
        (key, cast("Callable[..., object]", getattr(found, key)))
        for key, member in inspect.getmembers(type(found), callable)
        if getattr(member, _MARK, False)
    ]
    built = [BuiltPattern(key, build(method, name, f"pattern {key}"), method) for key, method in marked]
    listed = found.patterns()
    built += [BuiltPattern(f"pattern{at}", graph, found.patterns) for at, graph in enumerate(listed)]
    if not built:
        raise _fault(name, "it has no pattern", "mark a method with @pattern, or define patterns()")
    return built


def replacement_of(found: PatternFusionPass, name: str) -> Graph:
    """Return what a pass puts in the place of its matches. Raises GeError E41005."""
    return build(found.replacement, name, "replacement")


def build(method: Callable[..., object], name: str, what: str) -> Graph:
    """Call a method that builds a graph, from inputs or on its own. Raises GeError E41005 for what fails."""
    builder = GraphBuilder(name)
    parameters = list(inspect.signature(method).parameters.values())
    given: list[object] = [
        PatternInputs(builder) if item.name == "inputs" else _NoMatch(name) for item in parameters
    ]
    try:
        made = method(*given)
    except GeError:
        raise
    except Exception as error:  # the user's own method
        raise _fault(
            name, f"its {what} raised {type(error).__name__}: {error}", "correct the method"
        ) from None
    if isinstance(made, Graph):
        return made
    is_list = isinstance(made, list | tuple)
    values = list(cast("Sequence[object]", made)) if is_list else [made]
    holders = [value for value in values if isinstance(value, TensorHolder)]
    if not holders or len(holders) != len(values):
        raise _fault(
            name,
            f"its {what} returned {type(made).__name__}",
            "return a tensor, tensors in a list, or a Graph",
        )
    return builder.build_and_reset(holders)


@dataclass(frozen=True, slots=True)
class _NoMatch:
    """What stands for the match where a replacement is built: a rule says once what comes in its place."""

    pass_name: str

    def __getattr__(self, name: str) -> object:
        raise _fault(
            self.pass_name, f"its replacement reads the match ({name})",
            "build the replacement from `inputs` alone",
        )  # fmt: skip


def _fault(name: str, reason: str, remedy: str) -> GeError:
    return GeError(table.GE_BAD_PASS, name=name, reason=reason, remedy=remedy)
