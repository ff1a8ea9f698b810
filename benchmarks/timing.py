"""Timing that survives a noisy machine: candidates take turns, and the best round of each counts.

Noise only ever adds time, and what slows one turn slows its neighbours; so the minimum over interleaved
rounds is the figure that repeats from run to run.
"""

import time
from collections.abc import Callable, Mapping

Steps = Callable[[int], object]  # runs that many steps and waits for the last one


def seconds_per_step(candidates: Mapping[str, Steps], *, rounds: int, turn: float) -> dict[str, float]:
    """Return the seconds per step of every candidate; `turn` is how many seconds a turn takes, about."""
    counts = {name: _steps_in(steps, turn) for name, steps in candidates.items()}
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds):
        for name, steps in candidates.items():
            best[name] = min(best[name], _clock(steps, counts[name]))
    return best


def _steps_in(steps: Steps, turn: float) -> int:
    steps(1)  # compiles
    return max(1, int(turn / _clock(steps, 1)))


def _clock(steps: Steps, count: int) -> float:
    start = time.perf_counter()
    steps(count)
    return (time.perf_counter() - start) / count
