"""Streams: tasks that run one after the other on a thread of their own; events between them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import AclFault, fault
from gerules.compat.acl.handles import Kind
from gerules.compat.acl.reports import LONGEST_WAIT_S, Callback, Report, Reports, not_subscribed
from gerules.errors import GerulesError, table

Task = Callable[[], None]

STREAM = Kind("stream", "create_stream", codes.RT_PARAM_INVALID)
EVENT = Kind("event", "create_event", codes.RT_PARAM_INVALID)

_STEP_S = 0.05
"""How long a stream waits before it looks again whether it is closed."""


class Stream:
    """A queue of tasks. The first fault of a task is what the next synchronization returns."""

    def __init__(self, context: object) -> None:
        self.context = context
        self.subscriber: int | None = None
        self.is_closed = False
        self._tasks: deque[Task] = deque()
        self._changed = threading.Condition()
        self._is_busy = False
        self._thread: threading.Thread | None = None
        self._failed: AclFault | None = None

    def submit(self, task: Task) -> None:
        """Queue a task, and return at once."""
        with self._changed:
            if self.is_closed:
                return
            self._tasks.append(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="acl stream", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def synchronize(self) -> None:
        """Wait until all tasks ran. Raises the first fault of one since the last time."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_closed or not (self._tasks or self._is_busy))
            failed, self._failed = self._failed, None
        if failed is not None:
            raise failed

    def close(self) -> None:
        """Let the task that runs end, forget the others, and end the thread."""
        with self._changed:
            self.is_closed = True
            self._tasks.clear()
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(LONGEST_WAIT_S)

    def launch(self, callback: Callback, argument: object, blocks: bool, reports: Reports) -> None:
        """Queue a callback; the stream waits for it when it `blocks`. Raises 107015 when nobody listens."""
        thread = self.subscriber
        if thread is None:
            raise not_subscribed()

        def task() -> None:
            report = Report(callback, argument)
            reports.put(thread, report)
            until = time.monotonic() + LONGEST_WAIT_S
            while blocks and not self.is_closed and not report.done.wait(_STEP_S):
                if time.monotonic() > until:
                    raise fault(
                        codes.RT_REPORT_TIMEOUT, table.ACL_CALLBACK,
                        reason=f"the callback that blocks the stream did not run in {LONGEST_WAIT_S:.0f} s",
                        remedy="call acl.rt.process_report on the thread that subscribed, in a loop",
                    )  # fmt: skip

        self.submit(task)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self.is_closed or bool(self._tasks))
                if self.is_closed:
                    return
                task = self._tasks.popleft()
                self._is_busy = True
            try:
                task()
            except AclFault as failed:
                self._failed = self._failed or failed
            except GerulesError as error:
                self._failed = self._failed or AclFault(codes.GE_INTERNAL, error.diagnostics)
            except MemoryError:
                self._failed = self._failed or fault(
                    codes.BAD_ALLOC, table.ACL_MEMORY, size_bytes="the", reason="the machine has no more"
                )


class Event:
    """A mark in a stream: when it passed."""

    def __init__(self) -> None:
        self._is_pending = False
        self._passed_ns: int | None = None
        self._stream: Stream | None = None
        self._changed = threading.Condition()

    def record(self, stream: Stream) -> None:
        """Queue the mark."""
        with self._changed:
            self._is_pending = True
            self._passed_ns = None
            self._stream = stream
        stream.submit(self._pass)

    def wait(self, is_given_up: Callable[[], bool] = lambda: False) -> None:
        """Wait until the mark passed, if one is queued in a stream that still runs."""
        with self._changed:
            while self._is_pending and not is_given_up() and not (self._stream and self._stream.is_closed):
                self._changed.wait(_STEP_S)

    def hold(self, stream: Stream) -> None:
        """Let what comes later in a stream wait for the mark."""
        stream.submit(lambda: self.wait(lambda: stream.is_closed))

    @property
    def is_complete(self) -> bool:
        """Whether nothing is pending."""
        return not self._is_pending

    def until(self, later: Event) -> float:
        """Return the milliseconds from this mark to a later one. Raises 107006 unless both have passed."""
        begin, end = self._passed_ns, later._passed_ns
        if begin is None or end is None:
            raise fault(
                codes.RT_EVENT_TIMESTAMP, table.ACL_SEQUENCE, reason="an event has not been passed yet",
                remedy="record both events, and synchronize their stream, before asking for the time between",
            )  # fmt: skip
        return (end - begin) / 1e6

    def _pass(self) -> None:
        with self._changed:
            self._passed_ns = time.perf_counter_ns()
            self._is_pending = False
            self._changed.notify_all()
