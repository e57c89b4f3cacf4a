"""Functions from Python: what may be registered, what an `extern` line must say, what a call may do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from gerules.dsl import (
    FUNCTIONS,
    FunctionError,
    FunctionTable,
    MatchContext,
    RuleBook,
    RuleError,
    ValueView,
    function,
    load_rules,
    predicate,
)
from gerules.dsl.expr import Scope, evaluate, view_of
from gerules.dsl.external import called_twice, declaration_of, name_in_rules
from gerules.dsl.functions import documented
from gerules.dsl.registry import BUILTINS
from gerules.dsl.syntax import Condition
from gerules.dsl.values import Reject, SymbolicDim, Value
from gerules.errors import GerulesError, Source
from gerules.ir import DType
from gerules.ops import Schemas

SCHEMAS = Schemas()
HERE = "tests/dsl/test_external.py"


@pytest.fixture
def table() -> FunctionTable:
    return FunctionTable()


def load(text: str, table: FunctionTable) -> RuleBook:
    return load_rules([Source("f.ger", text)], schemas=SCHEMAS, functions=table)


def faults(text: str, table: FunctionTable) -> list[tuple[str, str]]:
    with pytest.raises(GerulesError) as caught:
        load(text, table)
    return [(item.code.code, item.message) for item in caught.value.diagnostics]


def call(text: str, table: FunctionTable, **names: Value) -> Value:
    """The value of an expression that calls functions of the table."""
    lines = "".join(f"{declaration_of(item)}\n" for item in table.values())
    bound = ", ".join(names) or "x"
    rule = f"rule r in s:\n    match: y = Sum({bound})\n    where: {text}\n    rewrite: y = Relu(x)\n"
    book = load_rules([Source("f.ger", lines + rule)], schemas=None, functions=table)
    step = book.rules[0].steps[0]
    assert isinstance(step, Condition)
    return evaluate(step.test, Scope(names, functions=book.functions))


# ---------------------------------------------------------------- registering
def test_a_predicate_and_a_function_are_called_from_rules(table: FunctionTable) -> None:
    @predicate(functions=table)
    def is_pow2(n: int) -> bool:
        """Whether a number is a power of two."""
        return n > 0 and n & (n - 1) == 0

    @function(functions=table)
    def tiles(shape: tuple[int, ...], size: int = 16) -> int:
        return int(np.prod([-(-dim // size) for dim in shape]))

    assert is_pow2(8) and tiles((17, 3)) == 2  # still Python functions
    assert call("is_pow2(8)", table) is True
    assert call("is_pow2(12)", table) is False
    assert call("tiles(x.shape)", table, x=view_of(np.zeros((17, 33)))) == 6
    assert call("tiles([8, 8], size=4)", table) == 4
    assert declaration_of(table["tiles"]) == "extern function tiles(shape: ints, size?: int) -> int"
    assert table["is_pow2"].doc == "Whether a number is a power of two."
    assert name_in_rules(is_pow2, table) is table["is_pow2"] and name_in_rules(is_pow2) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("true", True),
        ("7", 7),
        ("0.5", 0.5),
        ('"text"', "text"),
        ("f16", DType.F16),
        ("[1, 2]", (1, 2)),
        ("[1, 0.5]", (1.0, 0.5)),
    ],
)
def test_every_type_goes_in_and_comes_out(given: str, expected: Value, table: FunctionTable) -> None:
    kinds = {bool: bool, int: int, float: float, str: str, DType: DType}
    kind = kinds.get(type(expected)) or (
        tuple[int, ...] if all(isinstance(item, int) for item in expected) else tuple[float, ...]  # type: ignore[union-attr]
    )

    def same(x):  # type: ignore[no-untyped-def]
        return x

    same.__annotations__ = {"x": kind, "return": kind}
    function(functions=table)(same)
    found = call(f"same({given})", table)
    assert found == expected and type(found) is type(expected)


def test_an_array_comes_with_its_own_element_type_and_cannot_be_written(table: FunctionTable) -> None:
    seen: list[npt.NDArray[np.float16]] = []

    @function(functions=table)
    def clean(w: np.ndarray) -> np.ndarray:
        seen.append(w)
        return w * np.float16(2)

    @function(functions=table)
    def spoil(w: npt.NDArray[np.float16]) -> float:
        w[0] = 1
        return 0.0

    given = np.ones(3, np.float16)
    made = call("clean(w)", table, w=view_of(given))
    assert isinstance(made, np.ndarray) and made.dtype == np.float16 and made[0] == 2
    assert seen[0].dtype == np.float16
    with pytest.raises(FunctionError, match="read-only"):
        call("spoil(w)", table, w=view_of(given))
    assert given[0] == 1


def test_a_function_may_ask_the_graph(table: FunctionTable) -> None:
    @predicate(functions=table)
    def is_busy(graph: MatchContext, x: ValueView) -> bool:
        return graph.n_readers(x) > 1

    assert declaration_of(table["is_busy"]) == "extern predicate is_busy(x: value)"


def unannotated(x) -> bool:  # type: ignore[no-untyped-def]
    return bool(x)


def odd_type(x: set[int]) -> bool:
    return bool(x)


def many(*xs: int) -> bool:
    return bool(xs)


def no_result(x: int):  # type: ignore[no-untyped-def]
    return bool(x)


def number(x: int) -> int:
    return x


def unknown(x: "Missing") -> bool:  # type: ignore[name-defined]  # noqa: F821, UP037
    return bool(x)


async def later(x: int) -> bool:
    return bool(x)


def numel(x: int) -> bool:
    return bool(x)


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (unannotated, "its parameter x is not annotated"),
        (odd_type, "its parameter x is annotated set[int]"),
        (many, "its parameter xs takes no single value by name"),
        (no_result, "its result has no annotation that fits"),
        (number, "its result has no annotation that fits"),
        (unknown, "its annotations cannot be read: name 'Missing' is not defined"),
        (later, "its result comes later, or in parts"),
        (numel, "the rule language has one of this name"),
        (lambda x: bool(x), "it has no name that a rule could write"),
    ],
)
def test_what_rules_cannot_call_is_refused(refused: Callable[..., object], reason: str) -> None:
    with pytest.raises(RuleError) as caught:
        predicate(refused)
    (fault,) = caught.value.diagnostics
    assert fault.code.code == "E40126" and fault.message.endswith(reason)
    assert fault.place.startswith(HERE)


def test_a_name_is_given_once_but_a_function_may_be_defined_again(table: FunctionTable) -> None:
    def define(result: bool) -> Callable[[int], bool]:
        def answer(n: int) -> bool:
            return result

        return predicate(functions=table)(answer)

    define(True)
    define(False)  # the module was loaded again
    assert call("answer(1)", table) is False
    with pytest.raises(RuleError) as caught:
        predicate(functions=table, name="answer")(odd)
    assert "another one is registered under this name" in caught.value.diagnostics[0].message
    assert call("answer(1)", table) is False


def odd(n: int) -> bool:
    return n % 2 == 1


def test_registering_is_for_this_process_unless_a_table_is_given() -> None:
    text = "extern predicate odd(n: int)\n"
    predicate(odd)
    try:
        assert load_rules([Source("f.ger", text)], schemas=SCHEMAS).functions["odd"] is FUNCTIONS["odd"]
        assert faults(text, FunctionTable())[0][0] == "E40124"
        assert "odd" not in {item.name for item in documented()}
    finally:
        FUNCTIONS.discard("odd")
    assert FUNCTIONS.keys() == BUILTINS.keys()


# ---------------------------------------------------------------- declaring
@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        ("extern predicate odd(n)", "", ""),
        ("extern predicate odd(n: int)", "", ""),
        ("extern predicate odd(n: dim)", "", ""),
        ('extern predicate odd(n: int) from "my.module"', "", ""),
        ("extern function odd(n: int) -> bool", "E40125", "it is registered as a predicate"),
        ("extern predicate odd(m: int)", "E40125", "its parameter n is called m here"),
        ("extern predicate odd(n?: int)", "E40125", "n must be given"),
        ("extern predicate odd(n: int, m: int)", "E40125", "it takes 1 argument, not 2"),
        ("extern predicate odd(n: text)", "E40125", "n is int, not text"),
        ("extern predicate odd(n: wort)", "E40125", "wort is no type; there are bool, int"),
        ("extern function half(n: int) -> int", "E40125", "it gives float, not int"),
        ("extern function half(n: int)", "", ""),
        ("extern predicate numel(x)", "E40125", "it is a function of the rule language"),
        ("extern predicate even(n: int)", "E40124", "no Python function is registered as even"),
    ],
)
def test_an_extern_line_says_what_python_says(
    text: str, code: str, reason: str, table: FunctionTable
) -> None:
    predicate(functions=table)(odd)

    @function(functions=table)
    def half(n: int) -> float:
        return n / 2

    if not code:
        load(text + "\n", table)
        return
    ((found, message),) = faults(text + "\n", table)
    assert found == code and reason in message


def test_a_missing_function_names_what_to_import() -> None:
    with pytest.raises(RuleError) as caught:
        load('extern predicate even(n: int) from "my.numbers"\n', FunctionTable())
    assert caught.value.diagnostics[0].hint == (
        "import my.numbers before the rules are loaded, or give its file beside them as rules"
    )
    with pytest.raises(RuleError) as caught:
        load("extern function even(n: int) -> int\n", FunctionTable())
    assert "@gerules.function" in caught.value.diagnostics[0].hint


def test_both_places_are_told(table: FunctionTable) -> None:
    predicate(functions=table)(odd)
    with pytest.raises(RuleError) as caught:
        load("extern predicate odd(n: text)\n", table)
    (fault,) = caught.value.diagnostics
    assert str(fault.span) == "f.ger:1:18"
    assert fault.notes[0].startswith(f"it is defined at {HERE}:")


def test_a_call_needs_an_extern_line_and_fits_it(table: FunctionTable) -> None:
    predicate(functions=table)(odd)
    rule = "rule r in s: Relu(x: f32[N]) as y => Abs(x) where odd({})\n"
    assert faults(rule.format("N"), table) == [("E40114", "odd is no function of the rule language")]
    line = "extern predicate odd(n: int)\n"
    load(line + rule.format("n=N"), table)
    assert faults(line + rule.format("N, 2"), table)[0][0] == "E40115"
    assert faults(line + rule.format("m=N"), table)[0][0] == "E40115"


def test_several_files_may_declare_the_same(table: FunctionTable) -> None:
    predicate(functions=table)(odd)
    one = Source("a.ger", "extern predicate odd(n: int)\n")
    load_rules([one, Source("b.ger", one.text)], schemas=SCHEMAS, functions=table)
    with pytest.raises(RuleError, match="E40103"):
        load_rules([one, Source("b.ger", "extern predicate odd(n)\n")], schemas=SCHEMAS, functions=table)


# ---------------------------------------------------------------- calling
def test_what_is_not_known_rejects_the_match(table: FunctionTable) -> None:
    predicate(functions=table)(odd)
    with pytest.raises(Reject, match="not known when compiling"):
        call("odd(n)", table, n=SymbolicDim("N"))
    with pytest.raises(RuleError, match='n of odd must be a whole number, not the text "a"'):
        call('odd("a")', table)


@pytest.mark.parametrize(
    ("result", "what"),
    [
        (3, "gave 3 (int), which is no bool"),
        (None, "gave None (NoneType), which is no bool"),
        (ValueError("seven is right out"), "raised ValueError: seven is right out"),
        (KeyError(), "raised KeyError: without a message"),
        (SystemExit(0), "raised SystemExit: 0"),
        (RuntimeError("one\ntwo"), "raised RuntimeError: one two"),
    ],
)
def test_a_function_that_fails_is_an_error_with_both_places(
    result: object, what: str, table: FunctionTable
) -> None:
    @predicate(functions=table)
    def fails(n: int) -> bool:
        if isinstance(result, BaseException):
            raise result
        return result  # type: ignore[return-value]

    with pytest.raises(FunctionError) as caught:
        call("1 < 2 and fails(7)", table)
    (fault,) = caught.value.diagnostics
    assert fault.code.code == "E40127" and fault.message == f"the Python function fails {what}"
    assert fault.span is not None and fault.span.text == "fails(7)"
    assert HERE in fault.hint
    assert caught.value.__cause__ is None


def test_a_function_that_is_not_pure_is_found_when_it_is_called_twice(table: FunctionTable) -> None:
    calls: list[int] = []

    @predicate(functions=table)
    def moody(n: int) -> bool:
        calls.append(n)
        return len(calls) % 2 == 0

    predicate(functions=table)(odd)
    assert call("moody(1)", table) is False
    calls.clear()
    twice = FunctionTable(called_twice(table))
    with pytest.raises(FunctionError, match=r"gave False \(bool\), and then True \(bool\)"):
        call("moody(1)", twice)
    assert call("odd(1)", twice) is True
