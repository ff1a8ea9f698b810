import contextlib
import datetime
import gc
import os
import zlib
from importlib.metadata import version
from pathlib import Path

# Most of the time goes into compiling code that runs once. Without LLVM's optimisations and with the older, simpler way
# to emit loops, XLA takes a third of the time; long runs take up to twice theirs. Programs are not split to be compiled
# in parallel, which takes a fifth more: the workers keep all processors busy. JAX reads these when it is imported, XLA
# when it is used; workers, and the programs that tests start, share what they compile.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_parallel_codegen_split_count=1"
    # JAX 0.12 has no other loops, and refuses to start with a flag that it does not know.
    + " --xla_cpu_use_fusion_emitters=false"
    * (tuple(map(int, version("jaxlib").split(".")[:2])) < (0, 12)),
)
# Where in Python an operation comes from is of no use here, and takes a twentieth of the time.
os.environ.setdefault("JAX_INCLUDE_FULL_TRACEBACKS_IN_LOCATIONS", "0")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "compiled"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.01")

import jax
import jax.numpy as jnp
import numpy as np
import pytest

# Tracing makes many small objects that live long: looking for garbage among them takes a tenth of the time.
gc.set_threshold(50_000)

# Nothing in the library mixes integers and floats by accident.
jax.config.update("jax_numpy_dtype_promotion", "strict")

_MAPS = Path("/proc/self/maps")


@pytest.fixture(scope="module", autouse=True)
def forget_compiled_code():
    """Each compiled program is mapped into memory, and Linux allows 65,530 maps: XLA crashes beyond."""
    yield
    if _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > 40_000:
        jax.clear_caches()


def pytest_configure(config):
    """ArviZ 0.23 notes in a file, once a day, that it has warned, and two workers that do so at once fail.

    So it is noted before they start, without ArviZ, which takes ten seconds to import.
    """
    if getattr(config.option, "numprocesses", None):
        with contextlib.suppress(ImportError):
            from platformdirs import user_cache_dir

            folder = Path(user_cache_dir("arviz", "arviz"))
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "daily_warning").write_text(datetime.date.today().isoformat())


def pytest_collection_modifyitems(items):
    """The longest come first: at the end all workers would wait for the one that has them."""
    items.sort(key=lambda item: item.path.name not in ("test_demo.py", "test_docs.py"))


def pytest_runtest_call(item):
    _restart_numbers(item, item.name)


def pytest_fixture_setup(fixturedef, request):
    _restart_numbers(request, fixturedef.argname)


def _restart_numbers(place, name):
    """Let RNG of a module start anew, so that no test depends on those that ran before it on the same worker."""
    if generator := getattr(getattr(place, "module", None), "RNG", None):
        generator.bit_generator.state = np.random.default_rng(zlib.crc32(name.encode())).bit_generator.state


@pytest.fixture(params=["float32", pytest.param("float64", marks=pytest.mark.slow)])
def dtype(request):
    """Run the test in both precisions; the double one is left to make test-slow."""
    with jax.enable_x64(request.param == "float64"):
        yield jnp.dtype(request.param)


@pytest.fixture
def x64():
    """Run the test in double precision."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def standard_promotion():
    """Let NumPyro and PyMC mix integers and floats, as their own code does."""
    with jax.numpy_dtype_promotion("standard"):
        yield
