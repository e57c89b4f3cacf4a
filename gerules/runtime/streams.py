"""Running launches by stream: a thread for each, and nothing but the events of the file between them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from gerules.runtime.launches import Launch


def run_streams(launches: Sequence[Launch], actions: Sequence[Callable[[], None]]) -> None:
    """Run each stream's launches in their order on a thread of its own.

    Raises:
        The first exception that a launch raised; the other streams end before their next launch.
    """
    lines: dict[int, list[int]] = {}
    for step, launch in enumerate(launches):
        lines.setdefault(launch.stream, []).append(step)
    events = {event: threading.Event() for launch in launches for event in launch.records}
    errors: list[BaseException] = []

    def run(steps: Sequence[int]) -> None:
        try:
            for step in steps:
                launch = launches[step]
                for event in launch.waits:
                    events[event].wait()
                if errors:
                    return
                actions[step]()
                for event in launch.records:
                    events[event].set()
        except BaseException as error:
            errors.append(error)
        finally:
            # Whoever waits for this stream must not wait for ever when it has ended early.
            for step in steps:
                for event in launches[step].records:
                    events[event].set()

    threads = [threading.Thread(target=run, args=(steps,), daemon=True) for steps in lines.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
