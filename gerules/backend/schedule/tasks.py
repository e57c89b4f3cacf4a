"""Tasks and what they depend on: the abstract graph that is scheduled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gerules.backend.schedule.errors import ScheduleError
from gerules.errors import Faults, table


@dataclass(frozen=True, slots=True)
class Task:
    """One launch on a device.

    Attributes:
        reads: Ids of the values it reads; one that no task writes is an input of the graph.
        writes: Ids of the values it writes, each written by this task alone.
        engine: Where it runs; the rules for streams go by it.
        cost_us: How long it runs.
        workspace_bytes: Scratch bytes while it runs.
        after: Ids of tasks that must be done before, though no value passes between them.
        label: Tasks of one label share a stream; empty for none.
    """

    id: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    engine: str
    cost_us: float = 1.0
    workspace_bytes: int = 0
    after: tuple[int, ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """Tasks in a topological order, with their index; tasks are meant by their position in `tasks`.

    Attributes:
        sizes: Bytes of the values that live in the arena; a value without a size, such as a weight, does not.
        outputs: Values that must survive the last task.
        needs: The tasks each task depends on, rising, without repeats.
        feeds: The tasks that depend on each task, rising.
        writer: The task that writes a value; inputs have none.
        readers: The tasks that read a value, rising.
    """

    tasks: tuple[Task, ...]
    sizes: Mapping[int, int]
    outputs: frozenset[int]
    needs: tuple[tuple[int, ...], ...]
    feeds: tuple[tuple[int, ...], ...]
    writer: Mapping[int, int]
    readers: Mapping[int, tuple[int, ...]]

    @property
    def inputs(self) -> tuple[int, ...]:
        """Values in the arena that no task writes, in order of first reading; unread outputs come last."""
        found = [v for v in self.readers if v not in self.writer and v in self.sizes]
        passed = [v for v in sorted(self.outputs) if v not in self.writer and v not in self.readers]
        return (*found, *(v for v in passed if v in self.sizes))


def workspace_id(task_id: int) -> int:
    """The id under which the workspace of a task is planned: negative, for values have ids from 0 on."""
    return -1 - task_id


def build_task_graph(
    tasks: Sequence[Task], sizes: Mapping[int, int], *, outputs: Collection[int] = ()
) -> TaskGraph:
    """Index tasks that are given in a topological order.

    Raises:
        ScheduleError: E60020 for tasks that make no sense, E60021 where the order is none; all at once.

    Cost: linear in tasks and reads.
    """
    faults = Faults()
    position = {task.id: at for at, task in reversed(list(enumerate(tasks)))}
    writer: dict[int, int] = {}
    for at, task in enumerate(tasks):
        if position[task.id] != at:
            faults.add(table.BAD_TASK, id=task.id, reason="its id is given twice")
        if task.id < 0 or min((*task.reads, *task.writes), default=0) < 0:
            faults.add(table.BAD_TASK, id=task.id, reason="ids start from 0")
        if task.workspace_bytes < 0 or not 0 <= task.cost_us < float("inf"):
            faults.add(table.BAD_TASK, id=task.id, reason="its cost or its workspace is out of range")
        for value in task.writes:
            if value in writer:
                faults.add(table.BAD_TASK, id=task.id, reason=f"value {value} is written twice")
            writer[value] = at
        for other in task.after:
            if other not in position:
                faults.add(
                    table.BAD_TASK, id=task.id, reason=f"it waits for task {other}, which is not there"
                )
    for value, size in sizes.items():
        if size < 0:
            faults.add(table.BAD_TASK, id=value, reason=f"value {value} has a size of {size} bytes")
    faults.raise_if_any(ScheduleError)
    needs: list[tuple[int, ...]] = []
    feeds: list[list[int]] = [[] for _ in tasks]
    readers: dict[int, list[int]] = {}
    for at, task in enumerate(tasks):
        mine = {writer[value] for value in task.reads if value in writer}
        mine.update(position[other] for other in task.after)
        needs.append(tuple(sorted(mine)))
        for other in needs[-1]:
            if other >= at:
                faults.add(table.NOT_TOPOLOGICAL, id=task.id, needs=tasks[other].id)
            feeds[other].append(at)
        for value in dict.fromkeys(task.reads):
            readers.setdefault(value, []).append(at)
    faults.raise_if_any(ScheduleError)
    return TaskGraph(
        tasks=tuple(tasks),
        sizes=sizes,
        outputs=frozenset(outputs),
        needs=tuple(needs),
        feeds=tuple(map(tuple, feeds)),
        writer=writer,
        readers={value: tuple(at) for value, at in readers.items()},
    )
