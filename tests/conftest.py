import os
from pathlib import Path

# Most of the time goes into compiling code that runs once. JAX reads these when it is imported, XLA when it is used;
# workers, and the programs that tests start, share what they compile.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1 --xla_llvm_disable_expensive_passes=true")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")

import jax
import jax.numpy as jnp
import pytest


@pytest.fixture(scope="module", autouse=True)
def forget_compiled_code():
    """A process that keeps the compiled code of a thousand tests runs out of memory maps, and XLA crashes."""
    yield
    jax.clear_caches()


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Run the test in both precisions."""
    with jax.enable_x64(request.param == "float64"):
        yield jnp.dtype(request.param)


@pytest.fixture
def x64():
    """Run the test in double precision."""
    with jax.enable_x64(True):
        yield
