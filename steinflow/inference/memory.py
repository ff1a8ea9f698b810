"""Will it fit? The memory that a run needs, compared with what there is, before it starts."""

import sys
from pathlib import Path

import jax


def available_memory() -> int | None:
    """Return the bytes that are still available to this process on its device; None where that is not known."""
    device = jax.local_devices()[0]
    if device.platform != "cpu":
        statistics = device.memory_stats() or {}
        limit = statistics.get("bytes_limit")
        return None if limit is None else limit - statistics.get("bytes_in_use", 0)
    if not sys.platform.startswith("linux"):
        return None
    lines = Path("/proc/meminfo").read_text().splitlines()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    return min([sizes["MemAvailable"], *_container_limits()])


def check_memory(needed: int, remedies: list[str]) -> None:
    """Check that a run fits into memory.

    Raises:
        MemoryError: if it does not; it says how much is needed and what brings it down.
    """
    available = available_memory()
    if available is None or needed <= available:
        return
    raise MemoryError(
        f"This run needs about {_readable(needed)} of working memory, and {_readable(available)} is available. "
        f"To reduce it: {'; '.join(remedies)}."
    )


def _container_limits() -> list[int]:
    """Return what control groups (versions 2 and 1) leave; the kernel gives up cached files, so they do not count."""
    limits = []
    for folder, limit, used in (
        ("/sys/fs/cgroup", "memory.max", "memory.current"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        group = Path(folder)
        try:
            left = int((group / limit).read_text()) - int((group / used).read_text())
            statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        except (OSError, ValueError):  # no such group, or no limit ("max")
            continue
        limits.append(left + int(statistics.get("inactive_file", 0)))
    return limits


def _readable(size: float) -> str:
    return f"{size / 2**30:.1f} GB" if size >= 2**30 else f"{size / 2**20:.0f} MB"
