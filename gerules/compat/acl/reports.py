"""Callbacks: streams report to the thread that subscribed, and process_report runs what they report."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import AclFault, fault
from gerules.errors import table

Callback = Callable[[object], object]

LONGEST_WAIT_S: Final = 60.0
"""How long a stream waits for a callback that blocks it before it goes on with a fault."""

LOG: Final = logging.getLogger("gerules.acl")


@dataclass(slots=True, eq=False)
class Report:
    """One callback that is due; `done` is set once it ran, or never will."""

    callback: Callback
    argument: object
    done: threading.Event = field(default_factory=threading.Event)


class Reports:
    """What is due for each thread that subscribed to streams."""

    def __init__(self) -> None:
        self._due: dict[int, deque[Report]] = {}
        self._n_streams: dict[int, int] = {}
        self._changed = threading.Condition()
        self._is_closed = False

    def subscribe(self, thread: int) -> None:
        """Let a thread get the reports of one more stream."""
        with self._changed:
            self._n_streams[thread] = self._n_streams.get(thread, 0) + 1
            self._due.setdefault(thread, deque())
            self._changed.notify_all()

    def unsubscribe(self, thread: int) -> None:
        """And of one less; what is due for a thread without streams never runs."""
        with self._changed:
            self._n_streams[thread] = self._n_streams.get(thread, 0) - 1
            if self._n_streams[thread] <= 0:
                self._n_streams.pop(thread)
                for report in self._due.pop(thread, ()):
                    report.done.set()
            self._changed.notify_all()

    def put(self, thread: int, report: Report) -> None:
        """Hand a callback to a thread. Raises 107015 when it does not listen any more."""
        with self._changed:
            if thread not in self._due:
                raise not_subscribed()
            self._due[thread].append(report)
            self._changed.notify_all()

    def process(self, thread: int, timeout_ms: int) -> None:
        """Run the callbacks that are due for a thread, or wait for the first.

        Raises:
            AclFault: 107012 when the thread is subscribed to nothing, 507012 when nothing came in time,
                500001 when a callback raised.
        """
        timeout_s = None if timeout_ms < 0 else timeout_ms / 1000
        with self._changed:
            # A thread may begin before it is subscribed, and goes on a moment after it was.
            self._changed.wait_for(lambda: self._is_closed or bool(self._due.get(thread)), timeout_s)
            if thread not in self._due:
                raise fault(
                    codes.RT_THREAD_SUBSCRIBE, table.ACL_CALLBACK,
                    reason="this thread is subscribed to no stream",
                    remedy="call acl.rt.subscribe_report with the thread and a stream",
                )  # fmt: skip
            ready = list(self._due[thread])
            self._due[thread].clear()
        if not ready:
            raise fault(
                codes.RT_REPORT_TIMEOUT, table.ACL_CALLBACK,
                reason=f"nothing to report came in {timeout_ms} ms",
                remedy="wait longer, or call again",
            )  # fmt: skip
        failed = [failure for report in ready if (failure := _run(report)) is not None]
        if failed:
            raise failed[0]

    def close(self) -> None:
        """End all waiting."""
        with self._changed:
            self._is_closed = True
            for due in self._due.values():
                for report in due:
                    report.done.set()
            self._due.clear()
            self._n_streams.clear()
            self._changed.notify_all()


def _run(report: Report) -> AclFault | None:
    try:
        report.callback(report.argument)
    except Exception as error:  # the script's own function
        LOG.exception("a callback raised")
        told = f"{type(error).__name__}: {error}"
        return fault(
            codes.FAILURE,
            table.ACL_CALLBACK,
            reason=f"a callback raised {told}",
            remedy="correct the callback",
        )
    finally:
        report.done.set()
    return None


def not_subscribed() -> AclFault:
    """Return what a callback ends in when nobody listens."""
    return fault(
        codes.RT_STREAM_NO_CALLBACK, table.ACL_CALLBACK, reason="no thread is subscribed to the stream",
        remedy="call acl.rt.subscribe_report with a thread and the stream before",
    )  # fmt: skip
