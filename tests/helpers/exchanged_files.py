"""Write a result to files, or read such files with ArviZ on top: `python exchanged_files.py write|read folder`.

The two may be different Pythons with different versions of ArviZ, PyMC and JAX.
"""

import sys
import warnings
from importlib import metadata
from pathlib import Path

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from known_results import result_at

import steinflow as sf

ROWS = jnp.arange(4.0)
DRAWS = np.random.default_rng(0).normal(0.75, 0.1, size=(200, 2)).astype(np.float32)


def posterior() -> sf.Posterior:
    """Rows about the sum of two unknowns."""
    return sf.Posterior(
        lambda x: -0.5 * jnp.sum(x["w"] ** 2), lambda x, y: -0.5 * (y - jnp.sum(x["w"])) ** 2, data=ROWS
    )


def write(folder: Path) -> str:
    """Write the result as `Result.save` does, and as ArviZ does."""
    folder.mkdir()
    result = result_at({"w": jnp.asarray(DRAWS)}, posterior())
    result.save(folder / "result.nc")
    result.to_arviz().to_netcdf(folder / "arviz.nc")
    (folder / "writer").write_text(versions())
    return f"{versions()} has written a result"


def read(folder: Path) -> str:
    """Read both files, and see that estimates and plots come out as those of the result that was written."""
    import arviz as az

    def estimate(data):
        loo = az.loo(data)
        return float(loo.elpd if hasattr(loo, "elpd") else loo.elpd_loo)

    mpl.use("agg")
    result = sf.load(folder / "result.nc")
    np.testing.assert_array_equal(result.particles["w"], DRAWS)
    trees = [result.to_arviz(target=posterior()), az.from_netcdf(folder / "arviz.nc")]
    written = estimate(result_at({"w": jnp.asarray(DRAWS)}, posterior()).to_arviz())
    for data in (*trees, az.from_netcdf(folder / "result.nc")):
        np.testing.assert_array_equal(data.posterior["w"].values[0], DRAWS)
        az.plot_trace(data)
    np.testing.assert_allclose([estimate(data) for data in trees], written, rtol=1e-5)
    return f"{versions()} has read what {(folder / 'writer').read_text()} wrote: loo {written:.3f}"


def versions() -> str:
    """Return the versions that matter for files."""
    packages = ("arviz", "xarray", "h5netcdf")
    return f"Python 3.{sys.version_info.minor} ({', '.join(f'{name} {metadata.version(name)}' for name in packages)})"


if __name__ == "__main__":
    warnings.filterwarnings("ignore", category=DeprecationWarning)  # ArviZ 0.23 uses what Matplotlib will remove
    warnings.filterwarnings("ignore", category=FutureWarning)
    print({"write": write, "read": read}[sys.argv[1]](Path(sys.argv[2])))  # noqa: T201
