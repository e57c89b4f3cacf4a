"""The worklist: places where rules are to be tried, by rank of the rule, then by the order of the graph."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

Place = tuple[int, float, int]
"""A node to be tried: its generation, its place in the order of the graph, and its id."""


class Queue:
    """Places for one rule. Those known from the start are sorted once; later ones go to a heap."""

    __slots__ = ("heap", "is_ready", "places", "start")

    def __init__(self) -> None:
        self.start: list[Place] = []
        self.heap: list[Place] = []
        self.places: set[int] = set()
        self.is_ready = False

    def take(self) -> int | None:
        """Remove and return the next place; None when there is none."""
        start, heap = self.start, self.heap
        if start and (not heap or start[-1] < heap[0]):
            place = start.pop()[2]
        elif heap:
            place = heappop(heap)[2]
        else:
            return None
        self.places.discard(place)
        return place


class Worklist:
    """Queues for all rules; `next_rank` is the rank of the first rule with something to do."""

    def __init__(self, n_rules: int) -> None:
        self._queues: list[Queue | None] = [None] * n_rules
        self._ready: list[int] = []

    def fill(self, rank: int, places: list[Place]) -> None:
        """Enter many places."""
        queue = self._queue(rank)
        fresh = [entry for entry in places if entry[2] not in queue.places]
        queue.places.update(entry[2] for entry in fresh)
        if queue.start:
            queue.heap += fresh
            heapify(queue.heap)
        else:
            fresh.sort(reverse=True)
            queue.start = fresh
        self._announce(rank, queue)

    def push(self, rank: int, place: Place) -> None:
        """Enter one place, unless it waits already."""
        queue = self._queues[rank] or self._queue(rank)
        if place[2] not in queue.places:
            queue.places.add(place[2])
            heappush(queue.heap, place)
            if not queue.is_ready:
                self._announce(rank, queue)

    def is_waiting(self, rank: int, node: int) -> bool:
        """Whether a node is a place of a rule already."""
        queue = self._queues[rank]
        return queue is not None and node in queue.places

    def next_rank(self) -> int | None:
        """Return the rank of the first rule with a place to try; None when all is done."""
        ready = self._ready
        while ready:
            queue = self._queue(ready[0])
            if queue.places:
                return ready[0]
            queue.is_ready = False
            heappop(ready)
        return None

    def queue(self, rank: int) -> Queue:
        """Return the queue of a rule."""
        return self._queue(rank)

    def is_first(self, rank: int) -> bool:
        """Whether no rule before this one has anything to do."""
        return self._ready[0] >= rank

    def _queue(self, rank: int) -> Queue:
        found = self._queues[rank]
        if found is None:
            found = self._queues[rank] = Queue()
        return found

    def _announce(self, rank: int, queue: Queue) -> None:
        if not queue.is_ready and queue.places:
            queue.is_ready = True
            heappush(self._ready, rank)
