"""Functions from Python: typed by their annotations, declared by `extern` lines, checked on every call."""

from __future__ import annotations

import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar, cast, overload
from typing import Literal as Choice

import numpy as np

from gerules.dsl.declarations import ExternDecl
from gerules.dsl.functions import FUNCTIONS
from gerules.dsl.registry import BUILTINS, External, Function, FunctionTable, MatchContext, Parameter
from gerules.dsl.tree import RuleError
from gerules.dsl.values import (
    EvalError,
    Reject,
    Value,
    ValueView,
    as_dtype,
    as_int,
    as_ints,
    as_items,
    as_number,
    as_text,
    as_truth,
    as_view,
    check_int,
    check_items,
    raw_array,
)
from gerules.errors import Faults, GerulesError, table
from gerules.errors.arguments import checked
from gerules.errors.counts import count_text
from gerules.ir import DType

_F = TypeVar("_F", bound=Callable[..., object])

Kind = Choice["predicate", "function"]


class FunctionError(GerulesError):
    """A function that rules call from Python failed; nothing that the rules say explains it."""


class FunctionFailed(Exception):  # noqa: N818 - the evaluator makes the fault of it, with the place
    """What a function from Python did wrong: `what` follows its name, `place` is where it is defined."""

    def __init__(self, name: str, what: str, place: str) -> None:
        super().__init__(what)
        self.name, self.what, self.place = name, what, place


# ---------------------------------------------------------------- types
@dataclass(frozen=True, slots=True)
class _Type:
    """A type of `extern` lines: how an argument becomes Python's, and what a result may be."""

    word: str
    take: Callable[[Value, str], object]
    give: Callable[[object], Value]


def _give_truth(found: object) -> Value:
    if isinstance(found, bool | np.bool_):
        return bool(cast("bool", found))
    raise TypeError


def _give_int(found: object) -> Value:
    if isinstance(found, bool | np.bool_):
        raise TypeError
    return check_int(operator.index(cast("Any", found)))


def _give_float(found: object) -> Value:
    if isinstance(found, int | np.integer) and not isinstance(found, bool):
        return check_int(int(cast("int", found)))
    if isinstance(found, float | np.floating):
        return float(cast("Any", found))
    raise TypeError


def _give_kind(kind: type) -> Callable[[object], Value]:
    def give(found: object) -> Value:
        if isinstance(found, kind):
            return cast("Value", found)
        raise TypeError

    return give


def _give_text(found: object) -> Value:
    if isinstance(found, str):
        check_items(len(found))
        return found
    raise TypeError


def _give_list(item: Callable[[object], Value]) -> Callable[[object], Value]:
    def give(found: object) -> Value:
        if not isinstance(found, list | tuple):
            raise TypeError
        items = cast("Sequence[object]", found)
        check_items(len(items))
        return tuple(item(one) for one in items)

    return give


def _give_array(found: object) -> Value:
    if isinstance(found, np.ndarray):
        return cast("Value", found)
    raise TypeError


def _give_any(found: object) -> Value:
    for give in (_give_truth, _give_float, _give_text, _give_array, _give_list(_give_any)):
        try:
            return give(found)
        except TypeError:
            continue
    if found is None or isinstance(found, DType | ValueView):
        return found
    raise TypeError


def _take_array(value: Value, what: str) -> object:
    # A view of its own, that nobody can write to: a constant belongs to the model.
    array = raw_array(value).view()
    array.flags.writeable = False
    return array


def _take_numbers(value: Value, what: str) -> object:
    return tuple(float(as_number(item, f"every item of {what}")) for item in as_items(value, what))


_TYPES: Final[Mapping[object, _Type]] = {
    bool: _Type("bool", lambda value, _: as_truth(value), _give_truth),
    int: _Type("int", as_int, _give_int),
    float: _Type("float", lambda value, what: float(as_number(value, what)), _give_float),
    str: _Type("text", as_text, _give_text),
    DType: _Type("dtype", as_dtype, _give_kind(DType)),
    ValueView: _Type("value", as_view, _give_kind(ValueView)),
    np.ndarray: _Type("array", _take_array, _give_array),
    (int,): _Type("ints", as_ints, _give_list(_give_int)),
    (float,): _Type("floats", _take_numbers, _give_list(_give_float)),
    object: _Type("any", lambda value, _: value, _give_any),
}
"""By Python's annotation; a list of one kind of items is a tuple of it here."""

_SYNONYMS: Final = {"dim": "int", "shape": "ints"}
"""Words that an `extern` line may use where they say more about the argument."""

WORDS: Final = (*(item.word for item in _TYPES.values()), *_SYNONYMS)
"""The types of `extern` lines."""


def _type_of(annotation: object) -> _Type | None:
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (list, tuple, Sequence) and args and (origin is not tuple or args[1:] == (...,)):
        return _TYPES.get((args[0],)) if args[0] in (int, float) else None
    if origin is np.ndarray:
        return _TYPES[np.ndarray]
    if annotation is Any:
        return _TYPES[object]
    try:
        return _TYPES.get(annotation)
    except TypeError:  # an annotation that has no hash
        return None


# ---------------------------------------------------------------- registration
@overload
def predicate(function: _F, /) -> _F: ...
@overload
def predicate(*, name: str = "", functions: FunctionTable = ...) -> Callable[[_F], _F]: ...
@checked("function")
def predicate(
    function: Callable[..., object] | None = None, /, *, name: str = "", functions: FunctionTable = FUNCTIONS
) -> object:
    """Let rules call a Python function that answers yes or no.

    A rule file declares it, `extern predicate is_even(n: int)`, and uses it in its expressions. Every
    parameter has an annotation: `bool`, `int`, `float`, `str`, `DType`, `np.ndarray` (the elements of a
    constant, read-only), `ValueView` (a matched value), `tuple[int, ...]`, `tuple[float, ...]`, or `object`.
    A first parameter annotated `MatchContext` gets the graph around the match. The function is pure: the same
    arguments give the same result.

    Args:
        name: Its name in rules; without it Python's.
        functions: The table that gets it; without one that of this process, which all rules see.

    Raises:
        RuleError: E40126 when the annotations are not such, or another function has the name.
    """
    return _decorated(function, "predicate", name, functions)


@overload
def function(function: _F, /) -> _F: ...
@overload
def function(*, name: str = "", functions: FunctionTable = ...) -> Callable[[_F], _F]: ...
@checked("function")
def function(
    function: Callable[..., object] | None = None, /, *, name: str = "", functions: FunctionTable = FUNCTIONS
) -> object:
    """Let rules call a Python function that computes a value, as `predicate` does for yes and no.

    Its result is annotated too. A rule file declares it: `extern function tiles(shape: ints) -> int`.

    Raises:
        RuleError: E40126 as `predicate`.
    """
    return _decorated(function, "function", name, functions)


def name_in_rules(function: Callable[..., object], functions: FunctionTable = FUNCTIONS) -> Function | None:
    """Return a registered Python function as rules see it; None for one that is not registered."""
    for item in functions.values():
        if isinstance(item.run, _Call) and item.run.function is function:
            return item
    return None


def _decorated(
    function: Callable[..., object] | None, kind: Kind, name: str, functions: FunctionTable
) -> object:
    def register(one: Callable[..., object]) -> object:
        return _register(one, kind, name, functions)

    return register if function is None else register(function)


def _register(function: _F, kind: Kind, name: str, functions: FunctionTable) -> _F:
    found = _read(function, kind, name or getattr(function, "__name__", ""))
    known, external = functions.get(found.name), found.external
    assert external is not None
    if found.name in BUILTINS:
        raise _refused(found.name, "the rule language has one of this name", "give another name", external)
    other = None if known is None else known.external
    # The same function defined again, as when its module is loaded once more, takes the place of the old.
    if other is not None and other.qualified_name != external.qualified_name:
        reason = f"another one is registered under this name, at {other.place}"
        raise _refused(found.name, reason, "give one of the two another name", external)
    functions.add(found)
    return function


def _refused(name: str, reason: str, remedy: str, external: External) -> RuleError:
    return RuleError(table.UNFIT_FUNCTION, name=name, reason=reason, remedy=remedy, place=external.place)


def place_of(function: Callable[..., object]) -> str:
    """Return file and line of a function's definition, the file as seen from the working folder."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if not isinstance(code, types.CodeType):
        return getattr(function, "__module__", "") or "?"
    return f"{shown_path(code.co_filename)}:{code.co_firstlineno}"


def shown_path(name: str) -> str:
    """Return the path of a Python file as users know it: below the working folder without it."""
    try:
        return str(Path(name).resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return name


def _read(function: Callable[..., object], kind: Kind, name: str) -> Function:
    place = place_of(function)
    qualified = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', name)}"

    def refuse(reason: str, remedy: str) -> RuleError:
        return RuleError(table.UNFIT_FUNCTION, name=name, reason=reason, remedy=remedy, place=place)

    if not name.isidentifier():
        raise refuse("it has no name that a rule could write", "give one: name=...")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise refuse("its result comes later, or in parts", "make it a plain function")
    try:
        signature, hints = inspect.signature(function), typing.get_type_hints(function)
    except (NameError, TypeError, ValueError) as error:
        raise refuse(f"its annotations cannot be read: {error}", "import what they name") from None
    found = list(signature.parameters.values())
    needs_graph = bool(found) and hints.get(found[0].name) is MatchContext
    parameters: list[Parameter] = []
    kinds: list[_Type] = []
    for item in found[1:] if needs_graph else found:
        if item.kind not in (item.POSITIONAL_OR_KEYWORD, item.KEYWORD_ONLY):
            raise refuse(f"its parameter {item.name} takes no single value by name", "give it a name")
        wanted = _type_of(hints.get(item.name))
        if wanted is None:
            said = f"annotated {hints[item.name]!r}" if item.name in hints else "not annotated"
            raise refuse(f"its parameter {item.name} is {said}", _ANNOTATIONS)
        parameters.append(Parameter(item.name, item.default is item.empty))
        kinds.append(wanted)
    gives = _type_of(hints.get("return"))
    if gives is None or (kind == "predicate" and gives.word != "bool"):
        wanted_text = "-> bool" if kind == "predicate" else "-> and one of the types of rules"
        raise refuse("its result has no annotation that fits", f"annotate it {wanted_text}")
    external = External(kind, tuple(item.word for item in kinds), gives.word, qualified, place)
    names = [item.name for item in parameters]
    run = _Call(function, name, dict(zip(names, kinds, strict=True)), gives, needs_graph, place)
    doc = (inspect.getdoc(function) or "").split("\n")[0]
    return Function(name, tuple(parameters), run, doc, "Python", needs_graph, external)


_ANNOTATIONS: Final = (
    "annotate it: bool, int, float, str, DType, np.ndarray, ValueView, tuple[int, ...], tuple[float, ...] "
    "or object"
)


@dataclass(frozen=True, slots=True)
class _Call:
    """Calls a Python function with values of expressions, and checks what it gives."""

    function: Callable[..., object]
    name: str
    types: Mapping[str, _Type]
    gives: _Type
    needs_graph: bool
    place: str
    is_twice: bool = False

    def __call__(self, *args: object, **kwargs: Value) -> Value:
        graph = args[: 1 if self.needs_graph else 0]
        placed = cast("tuple[Value, ...]", args[len(graph) :])
        given = dict(zip(self.types, placed, strict=False)) | kwargs
        taken = {name: self.types[name].take(item, f"{name} of {self.name}") for name, item in given.items()}
        result = self._once(graph, taken)
        if self.is_twice and not _is_same(result, again := self._once(graph, taken)):
            raise self._failed(f"gave {_shown(result)}, and then {_shown(again)} for the same arguments")
        return result

    def _once(self, graph: tuple[object, ...], taken: Mapping[str, object]) -> Value:
        try:
            found = self.function(*graph, **taken)
        except (Reject, EvalError):
            raise
        except (Exception, SystemExit) as error:
            text = " ".join(str(error).split()) or "without a message"
            raise self._failed(f"raised {type(error).__name__}: {text}") from None
        try:
            return self.gives.give(found)
        except (TypeError, EvalError):
            wanted = self.gives.word
            raise self._failed(f"gave {_shown(found)}, which is no {wanted}") from None

    def _failed(self, what: str) -> FunctionFailed:
        return FunctionFailed(self.name, what, self.place)


def _shown(found: object) -> str:
    text = " ".join(repr(found).split())
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(found).__name__})"


def _is_same(one: Value, two: Value) -> bool:
    if isinstance(one, tuple) and isinstance(two, tuple):
        return len(one) == len(two) and all(_is_same(a, b) for a, b in zip(one, two, strict=True))
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        return one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes()
    if isinstance(one, ValueView) and isinstance(two, ValueView):
        return one.id == two.id
    return type(one) is type(two) and (one == two or one != one)


def called_twice(functions: Mapping[str, Function]) -> Mapping[str, Function]:
    """Return the functions, those from Python so that they run twice and fail when that differs."""
    return {
        name: replace(item, run=replace(item.run, is_twice=True)) if isinstance(item.run, _Call) else item
        for name, item in functions.items()
    }


# ---------------------------------------------------------------- `extern` lines
def check_externs(declared: Iterable[ExternDecl], functions: Mapping[str, Function], faults: Faults) -> None:
    """Record every `extern` line that no registered function fits: E40124, E40125."""
    for item in declared:
        found = functions.get(item.name.name)
        if found is None:
            module = item.module or f"the module that defines it with @gerules.{item.kind}"
            remedy = f"import {module} before the rules are loaded, or give its file beside them as rules"
            faults.add(table.EXTERN_MISSING, span=item.name.span, name=item.name.name, remedy=remedy)
            continue
        reason = _difference(item, found)
        if reason:
            external = found.external
            notes = [f"it is defined at {external.place}: {declaration_of(found)}"] if external else []
            name = item.name
            faults.add(table.EXTERN_DIFFERS, span=name.span, name=name.name, reason=reason, notes=notes)


def declaration_of(function: Function) -> str:
    """Return the `extern` line of a function from Python."""
    external = function.external
    assert external is not None
    formals = ", ".join(
        f"{item.name}{'' if item.is_required else '?'}: {word}"
        for item, word in zip(function.parameters, external.types, strict=True)
    )
    gives = f" -> {external.returns}" if external.kind == "function" else ""
    return f"extern {external.kind} {function.name}({formals}){gives}"


def _difference(item: ExternDecl, found: Function) -> str:
    external = found.external
    if external is None:
        return "it is a function of the rule language, and needs no `extern` line"
    if item.kind != external.kind:
        return f"it is registered as a {external.kind}"
    if len(item.formals) != len(found.parameters):
        return f"it takes {count_text(len(found.parameters), 'argument')}, not {len(item.formals)}"
    for formal, parameter, word in zip(item.formals, found.parameters, external.types, strict=True):
        name, said = formal.name.name, _SYNONYMS.get(formal.type_name, formal.type_name)
        if name != parameter.name:
            return f"its parameter {parameter.name} is called {name} here"
        if formal.is_optional is parameter.is_required:
            may = f"may be left out: write {name}?"
            return f"{name} {'must be given' if parameter.is_required else may}"
        if said and said not in WORDS:
            return f"{formal.type_name} is no type; there are {', '.join(WORDS)}"
        if said and said != word and "any" not in (said, word):
            return f"{name} is {word}, not {formal.type_name}"
    returns = _SYNONYMS.get(item.returns, item.returns)
    if returns and returns != external.returns:
        return f"it gives {external.returns}, not {item.returns}"
    return ""
