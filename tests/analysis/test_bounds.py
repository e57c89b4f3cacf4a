"""Texts made to take for ever are given up with a reason, or settled at once."""

from __future__ import annotations

from gerules.analysis.analyse import analyse_rules
from tests.analysis.rule_texts import load, rule


def codes(text: str) -> list[str]:
    return [item.code.code for item in analyse_rules(load(text)).diagnostics]


def test_long_and_deep_patterns() -> None:
    lines = "v0 = Neg(x)\n" + "\n".join(f"v{i} = Neg(v{i - 1})" for i in range(1, 600))
    assert codes(rule("r", lines + "\ny = Relu(v599)", "y = x")) == ["E40032"]
    deep = "Neg(" * 50 + "x" + ")" * 50
    assert codes(rule("r", f"y = {deep}", "y = x")) == []


def test_operands_swapped_inside_operands() -> None:
    def tree(depth: int, name: str) -> str:
        return (
            f"x{name}" if depth == 0 else f"Add({tree(depth - 1, name + 'a')}, {tree(depth - 1, name + 'b')})"
        )

    one = rule("one", f"y = Relu({tree(5, '')})", "y = xaaaaa")
    two = rule("two", f"y = Relu({tree(4, '')})", "y = Neg(xaaaa)")
    assert codes(one + two) == []


def test_alternatives_that_multiply() -> None:
    lines = "\n".join(f"v{i} = (Neg(x{i}) | Abs(x{i}))" for i in range(13))
    match = f"{lines}\ny = Max({', '.join(f'v{i}' for i in range(13))})"
    assert codes(rule("r", match, "y = x0")) == ["E40130"]
