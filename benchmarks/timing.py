"""Timing that survives a noisy machine: candidates take short turns, and the best turn of each counts.

Noise only ever adds time, so the minimum is the figure that repeats from run to run; short turns find the quiet
moments, and taking turns gives all candidates the same chance of one.
"""

import time
from collections.abc import Callable, Mapping

Steps = Callable[[int], object]  # runs that many steps and waits for the last one

_TURN = 0.1  # seconds, or one step where that takes longer: the first steps after someone else's turn are slow
_MIN_ROUNDS = 3


def seconds_per_step(candidates: Mapping[str, Steps], *, budget: float) -> dict[str, float]:
    """Return the seconds per step of every candidate, from as many rounds as fit into `budget` seconds."""
    counts = {name: _steps_per_turn(steps) for name, steps in candidates.items()}
    best = dict.fromkeys(candidates, float("inf"))
    rounds, end = 0, time.perf_counter() + budget
    while rounds < _MIN_ROUNDS or time.perf_counter() < end:
        for name, steps in candidates.items():
            best[name] = min(best[name], _clock(steps, counts[name]))
        rounds += 1
    return best


def _steps_per_turn(steps: Steps) -> int:
    steps(1)  # compiles
    once = min(_clock(steps, 1), _clock(steps, 1))
    count = max(1, int(_TURN / once))
    return max(1, int(_TURN / _clock(steps, count)))  # the overhead of the call counts less now


def _clock(steps: Steps, count: int) -> float:
    start = time.perf_counter()
    steps(count)
    return (time.perf_counter() - start) / count
