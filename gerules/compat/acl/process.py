"""pyACL in this process: what is initialized, loaded, allocated; and its end."""

from __future__ import annotations

import itertools
import threading
from typing import Final

import gerules.compat.acl.codes as codes
from gerules.compat.acl.calling import GATE, fault
from gerules.compat.acl.contexts import Contexts
from gerules.compat.acl.handles import Handles
from gerules.compat.acl.memory import Memory
from gerules.compat.acl.models import Models
from gerules.compat.acl.reports import Reports
from gerules.errors import table


class Process:
    """Everything that the calls share."""

    def __init__(self) -> None:
        self.handles = Handles()
        self.memory = Memory()
        self.contexts = Contexts(self.handles)
        self.models = Models()
        self.reports = Reports()
        self.threads: dict[int, threading.Thread] = {}
        self.sequence = itertools.count(1)
        self._was_finalized = False
        self._lock = threading.Lock()

    def initialize(self) -> None:
        """Open the gate. Raises 100002 when it is open."""
        with self._lock:
            if GATE.is_open:
                raise fault(
                    codes.REPEAT_INITIALIZE, table.ACL_SEQUENCE, reason="pyACL is initialized already",
                    remedy="call acl.init() once, and acl.finalize() before the next time",
                )  # fmt: skip
            self.reports = Reports()
            GATE.is_open = True
            self._was_finalized = False

    def finalize(self) -> None:
        """Shut the gate and free everything. Raises 100037 when that was done, 100001 before `initialize`."""
        with self._lock:
            if not GATE.is_open and self._was_finalized:
                raise fault(
                    codes.REPEAT_FINALIZE, table.ACL_SEQUENCE, reason="pyACL is finalized already",
                    remedy="call acl.finalize() once",
                )  # fmt: skip
            GATE.check()
            GATE.is_open = False
            self._was_finalized = True
        self.reports.close()
        self.contexts.clear()
        self.models.clear()
        self.handles.clear()
        self.memory.clear()
        self.threads.clear()


PROCESS: Final = Process()
"""The one of this process."""
