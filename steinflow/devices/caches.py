"""What is kept on this machine: data sets that were fetched, and compiled code, so that a second run compiles nothing.

Compiled code is the business of programs, not of the library: the command line keeps it, `sf.fit` does not.
"""

import os
from pathlib import Path
from typing import Any

import jax


def user_cache() -> Path:
    """Return the folder of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "steinflow"


def compiled_folder() -> str | None:
    """Return where compiled code is kept; None where it is not."""
    config: Any = jax.config  # its settings are not known to type checkers
    return config.jax_compilation_cache_dir


def keep_compiled(folder: Path) -> None:
    """Keep compiled code in a folder from now on, unless the user has chosen one (`JAX_COMPILATION_CACHE_DIR`)."""
    if compiled_folder() is None:
        jax.config.update("jax_compilation_cache_dir", str(folder))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
