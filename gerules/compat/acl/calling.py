"""How every call of pyACL ends: values first, the code last; get_recent_err_msg tells what went wrong."""

from __future__ import annotations

import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, ParamSpec, TypeVar

import gerules.compat.acl.codes as codes
from gerules.errors import Diagnostic, ErrorCode, GerulesError, render, table

P = ParamSpec("P")
T = TypeVar("T")
Watch = Callable[[str, int, int], None]
"""Told of each call: its name, when it began, and when it ended, in nanoseconds."""

_MOST_ERRORS: Final = 64
"""Messages that are kept until somebody asks; of more, the newest."""


class AclFault(Exception):  # noqa: N818 - scripts never see it, they get its code
    """What ends a call: the number that the script gets, and what there is to say about it."""

    def __init__(self, code: int, diagnostics: Sequence[Diagnostic]) -> None:
        super().__init__(code)
        self.code = code
        self.diagnostics = tuple(diagnostics)


def fault(code: int, kind: ErrorCode, /, **facts: object) -> AclFault:
    """Return what a call raises: pyACL's number, and the diagnostic behind it."""
    return AclFault(code, [Diagnostic(kind, facts)])


class RecentErrors:
    """The messages of failed calls, newest first, until they are read."""

    def __init__(self) -> None:
        self._items: deque[str] = deque(maxlen=_MOST_ERRORS)
        self._lock = threading.Lock()

    def add(self, call: str, failed: AclFault) -> None:
        """Keep what a call failed of."""
        placed = [
            Diagnostic(item.code, item.facts, item.span, item.place or call, item.notes, item.severity)
            for item in failed.diagnostics
        ]
        with self._lock:
            self._items.appendleft(f"{render(placed)}\n = note: {call} returned {failed.code}")

    def take(self) -> str | None:
        """Return all messages, and forget them; None when there are none."""
        with self._lock:
            text = "\n".join(self._items)
            self._items.clear()
        return text or None


class Gate:
    """What stands before every call: whether pyACL is initialized, and who watches."""

    def __init__(self) -> None:
        self.is_open = False
        self.errors = RecentErrors()
        self.watch: Watch | None = None

    def check(self) -> None:
        """Raise 100001 unless between init and finalize."""
        if not self.is_open:
            raise fault(
                codes.UNINITIALIZED, table.ACL_SEQUENCE, reason="pyACL is not initialized",
                remedy="call acl.init() first; after acl.finalize() only acl.init() goes",
            )  # fmt: skip


GATE: Final = Gate()
"""The gate of this process: pyACL is one thing a process."""


def returns_code(name: str, *, at_any_time: bool = False) -> Callable[[Callable[P, None]], Callable[P, int]]:
    """Let a function be a call that returns its code alone."""

    def wrap(function: Callable[P, None]) -> Callable[P, int]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> int:
            return _attempt(name, at_any_time, lambda: function(*args, **kwargs))[1]

        return call

    return wrap


def returns_pair(
    name: str, blank: Callable[[], T], *, at_any_time: bool = False
) -> Callable[[Callable[P, T]], Callable[P, tuple[T, int]]]:
    """Let a function be a call that returns its value and its code.

    `blank` makes the value of a failed one.
    """

    def wrap(function: Callable[P, T]) -> Callable[P, tuple[T, int]]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> tuple[T, int]:
            value, code = _attempt(name, at_any_time, lambda: function(*args, **kwargs))
            return (blank() if value is None else value), code

        return call

    return wrap


def returns_value(
    name: str, blank: Callable[[], T], *, at_any_time: bool = False
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a function be a call that returns its value alone, and `blank()` when it fails."""

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            value, _ = _attempt(name, at_any_time, lambda: function(*args, **kwargs))
            return blank() if value is None else value

        return call

    return wrap


def no_sizes() -> tuple[int, int]:
    """Return the two sizes of a call that failed."""
    return 0, 0


def _attempt(name: str, at_any_time: bool, act: Callable[[], T]) -> tuple[T | None, int]:
    watch = GATE.watch
    began_ns = time.perf_counter_ns()
    try:
        if not at_any_time:
            GATE.check()
        return act(), codes.SUCCESS
    except AclFault as failed:
        GATE.errors.add(name, failed)
        return None, failed.code
    except GerulesError as error:
        GATE.errors.add(name, AclFault(codes.GE_INTERNAL, error.diagnostics))
        return None, codes.GE_INTERNAL
    except MemoryError:
        GATE.errors.add(name, fault(
            codes.BAD_ALLOC, table.ACL_MEMORY, size_bytes="the", reason="the machine has no more",
        ))  # fmt: skip
        return None, codes.BAD_ALLOC
    finally:
        if watch is not None:
            watch(name, began_ns, time.perf_counter_ns())


def whole(value: object, argument: str, *, least: int = 0, code: int = codes.INVALID_PARAM) -> int:
    """Return an argument that is a whole number, at least `least`. Raises `code` for anything else."""
    number = _index_of(value)
    if number is None:
        raise fault(
            code, table.ACL_ARGUMENT, argument=argument, value=shown(value), reason="it is no whole number",
            remedy="pass an int",
        )  # fmt: skip
    if not least <= number < 1 << 64:
        raise fault(
            code, table.ACL_ARGUMENT, argument=argument, value=number, reason=f"{least} is the least there is"
            if number < least else "it has more than 64 bits",
            remedy=f"pass a number from {least}",
        )  # fmt: skip
    return number


def _index_of(value: object) -> int | None:
    if isinstance(value, bool | int):
        return int(value)
    # The integers of numpy are what sizes computed from arrays come as.
    index = getattr(type(value), "__index__", None)
    try:
        return None if index is None else int(index(value))
    except (TypeError, ValueError):
        return None


def text_of(value: object, argument: str, *, code: int = codes.INVALID_PARAM) -> str:
    """Return an argument that is a text without NUL. Raises `code` for anything else."""
    if not isinstance(value, str) or "\0" in value:
        raise fault(
            code, table.ACL_ARGUMENT, argument=argument, value=shown(value), reason="it is no text",
            remedy="pass a str",
        )  # fmt: skip
    return value


def shown(value: object) -> str:
    """Return a value as a message shows it, cut."""
    try:
        text = repr(value)
    except Exception:  # the value's own code
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
