"""Without the optional packages the core works, and the errors name the extra to install."""

import subprocess
import sys
import textwrap

# pandas is an extra of ours too, but xarray brings it.
OPTIONAL = "arviz blackjax bridgestan flax formulae funsor matplotlib orbax polars pymc pytensor sklearn".split()  # noqa: SIM905

BLOCKER = """
import importlib.abc, importlib.metadata, sys

def version(name, version=importlib.metadata.version):
    if name in {blocked}:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)

importlib.metadata.version = version

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if any(name == blocked or name.startswith(blocked + ".") for blocked in {blocked}):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def run(code, blocked):
    script = BLOCKER.format(blocked=blocked) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_core_works_and_errors_name_the_extra():
    """In one process, whose imports take most of the time."""
    run(
        """
        import jax.numpy as jnp, numpy as np, numpyro, steinflow as sf
        from numpyro.distributions import Bernoulli, Normal
        from steinflow import *

        x0 = np.random.default_rng(0).normal(size=(10, 2))
        result = sf.fit(lambda x: -0.5 * jnp.sum(x**2), particles=x0, num_steps=20, progress=False)
        result.summary(), result.to_arviz(), result.to_dataframe()

        def discrete():
            z = numpyro.sample("z", Bernoulli(0.5), infer={"enumerate": "parallel"})
            numpyro.sample("x", Normal(z))

        for extra, make in [
            ("pymc", lambda: sf.from_pymc(None)),
            ("stan", lambda: sf.from_stan("model.so")),
            ("funsor", lambda: sf.from_numpyro(discrete)),
            ("polars", lambda: result.to_dataframe(library="polars")),
            ("formula", lambda: sf.formula("y ~ x", {"x": [0.0, 1.0], "y": [1.0, 2.0]})),
            ("sklearn", lambda: sf.SteinClassifier()),
            ("sklearn", lambda: sf.SteinRegressor()),
            ("plot", lambda: sf.plots.marginals(result)),
            ("plot", lambda: sf.plots.style().__enter__()),
            ("blackjax", lambda: result.check()),
            ("blackjax", lambda: sf.fit(lambda x: -x @ x, sf.NUTS(), particles=x0, num_steps=1, progress=False)),
            ("checkpoint", lambda: sf.fit(lambda x: -x @ x, particles=x0, num_steps=1, checkpoint="run")),
        ]:
            try:
                make()
            except ImportError as error:
                assert f"pip install 'steinflow[{extra}]'" in str(error), error
            else:
                raise AssertionError(f"no error without {extra}")
        """,
        OPTIONAL,
    )
