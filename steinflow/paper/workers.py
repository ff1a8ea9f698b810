"""Parts side by side: one process per core, since the steps of small problems cannot use more than one each."""

import multiprocessing
import os
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from steinflow.devices.caches import compiled_folder, keep_compiled


def available_cores() -> list[int]:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def side_by_side(
    calls: Mapping[str, tuple[Sequence[str], Callable[[], tuple]]],
    function: Callable,
    finished: Container[str],
    cores: Sequence[int],
) -> Iterator[tuple[str, Any]]:
    """Call a function in worker processes, and yield names and values as they come.

    Args:
        calls: by name, the names that a call waits for, and a function that then returns its arguments.
        function: defined in a module, so that it can be sent, as can its arguments.
        finished: the names that are; the caller adds those that are yielded.
        cores: one worker each.
    """
    context = multiprocessing.get_context("spawn")  # a fork of a process that runs JAX may hang
    free = context.Queue()
    for core in cores:
        free.put(core)
    waiting, running = dict(calls), dict[Future, str]()
    pool = ProcessPoolExecutor(len(cores), context, _settle, (free, compiled_folder()))
    try:
        while waiting or running:
            for name, (needs, arguments) in list(waiting.items()):
                if all(need in finished for need in needs):
                    del waiting[name]
                    running[pool.submit(function, *arguments())] = name
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    finally:  # also where it was interrupted: what has not begun does not begin
        pool.shutdown(cancel_futures=True)


def _settle(free, compiled: str | None) -> None:
    """Stay on a core of one's own, so that workers do not push each other around."""
    core = free.get()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {core})
    if compiled is not None:
        keep_compiled(Path(compiled))
