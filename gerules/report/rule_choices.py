"""Answers to the questions that a pattern leaves open: which alternative, which order, with or without."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Choices:
    """Answers questions with numbers; `following` yields choices until every run of answers was given."""

    def __init__(self, script: Sequence[int] = ()) -> None:
        self._script = script
        self.taken: list[tuple[int, int]] = []

    def pick(self, n: int) -> int:
        """Return a number below `n`."""
        place = len(self.taken)
        answer = self._script[place] if place < len(self._script) else 0
        self.taken.append((answer, n))
        return answer

    def following(self) -> Choices | None:
        """Return the choices that come next, or None after the last."""
        taken = list(self.taken)
        while taken and taken[-1][0] + 1 >= taken[-1][1]:
            taken.pop()
        if not taken:
            return None
        last, _ = taken.pop()
        return Choices([*(answer for answer, _ in taken), last + 1])


class RandomChoices(Choices):
    """Answers drawn at random."""

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__()
        self._random = random

    def pick(self, n: int) -> int:
        """Return a number below `n`."""
        answer = int(self._random.integers(n))
        self.taken.append((answer, n))
        return answer
