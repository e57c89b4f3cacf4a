"""Line structure of a text: indentation becomes tokens, and nesting is bounded before it becomes a tree.

Lark's own `Indenter` keeps its state on itself, so that one parser could not serve two threads; it
also counts a tab as eight columns in silence. This one keeps its state in the generator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lark import Token
from lark.lark import PostLex

MAX_DEPTH: Final = 100
"""Deepest nesting of brackets and operators together. Trees are walked by recursion, three frames a level,
inside Python's limit of 1000."""

_OPEN: Final = frozenset({"LPAR", "LSQB", "LBRACE"})
_CLOSE: Final = frozenset({"RPAR", "RSQB", "RBRACE"})
_SAME_LEVEL: Final = frozenset({"COMMA", "VBAR", "COLON"})
"""Tokens that start a sibling, which does not stand inside what came before it."""
_LEAVES: Final = frozenset({"NAME", "QNAME", "INT", "FLOAT", "STRING"})


class LayoutError(Exception):
    """A line is indented wrongly or nests too deeply; turned into a diagnostic by the parser."""

    def __init__(self, kind: str, token: Token) -> None:
        super().__init__(kind)
        self.kind = kind
        self.token = token


class Layout(PostLex):
    """Turns line ends into `_NEWLINE`, `_INDENT` and `_DEDENT`; line ends inside brackets vanish."""

    always_accept = ("_NEWLINE",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """Yield the tokens of `stream` with indentation made explicit.

        Raises LayoutError ("tab", "dedent", "depth" or "word") at the token where the rule is broken.
        """
        columns = [0]
        # Per open bracket: operators since the last comma. Their sum bounds the depth of the tree.
        operators = [0]
        depth = 0
        last: Token | None = None
        for token in stream:
            # A keyword is matched as a prefix where no name may stand: `runn a` would be `run n`, then `a`.
            if last is not None and last.end_pos == token.start_pos and _is_wordy(last[-1:], token[:1]):
                raise LayoutError("word", Token.new_borrow_pos("NAME", last + token, last))
            last = token
            kind = token.type
            if kind == "_NEWLINE":
                if len(operators) > 1:
                    continue
                operators[0] = depth = 0
                yield token
                yield from _indentation(token, columns)
                continue
            if kind not in _LEAVES:
                if kind in _OPEN:
                    operators.append(0)
                    depth += 1
                elif kind in _CLOSE:
                    if len(operators) > 1:
                        depth -= operators.pop() + 1
                        # What stands in brackets may be called or indexed again.
                        operators[-1] += 1
                        depth += 1
                elif kind in _SAME_LEVEL:
                    depth -= operators[-1]
                    operators[-1] = 0
                else:
                    operators[-1] += 1
                    depth += 1
                if depth > MAX_DEPTH:
                    raise LayoutError("depth", token)
            yield token
        while len(columns) > 1:
            columns.pop()
            yield Token.new_borrow_pos("_DEDENT", "", last) if last else Token("_DEDENT", "")


def _is_wordy(left: str, right: str) -> bool:
    return (left.isalnum() or left == "_") and (right.isalnum() or right == "_")


def _indentation(token: Token, columns: list[int]) -> Iterator[Token]:
    indent = token[token.rfind("\n") + 1 :]
    if "\t" in indent:
        raise LayoutError("tab", token)
    column = len(indent)
    if column > columns[-1]:
        if len(columns) > MAX_DEPTH:
            raise LayoutError("depth", token)
        columns.append(column)
        yield Token.new_borrow_pos("_INDENT", "", token)
        return
    while column < columns[-1]:
        columns.pop()
        yield Token.new_borrow_pos("_DEDENT", "", token)
    if column != columns[-1]:
        raise LayoutError("dedent", token)
