"""What is kept on this machine: data sets that were fetched, and compiled code, so that a second run compiles nothing.

Compiled code is the business of programs, not of the library: the command line keeps it, `sf.fit` does not.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax

_LARGEST = 2**29  # bytes: tens of thousands of programs
_LONGEST = 90 * 24 * 3600.0  # seconds


def user_cache() -> Path:
    """Return the folder of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steinflow"


def compiled_folder() -> str | None:
    """Return where compiled code is kept; None where it is not."""
    config: Any = jax.config  # its settings are not known to type checkers
    return config.jax_compilation_cache_dir


def keep_compiled(folder: Path | None = None) -> None:
    """Keep compiled code in a folder from now on, unless the user has chosen one (`JAX_COMPILATION_CACHE_DIR`).

    What is older than 90 days goes, and the oldest of what is more than 512 MB.

    Args:
        folder: the user's cache, by default.
    """
    if compiled_folder() is None:
        folder = user_cache() / "compiled" if folder is None else folder
        _tidy(folder)
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


def _tidy(folder: Path) -> None:
    # JAX's own limit takes a lock, and a package for it, at every program that is read.
    with suppress(OSError):  # another process tidies up, or nobody may
        found = [(file, file.stat()) for file in folder.glob("jit_*")]
        oldest, total = time.time() - _LONGEST, 0
        for file, status in sorted(found, key=lambda pair: pair[1].st_mtime, reverse=True):
            total += status.st_size
            if status.st_mtime < oldest or total > _LARGEST:
                file.unlink(missing_ok=True)
