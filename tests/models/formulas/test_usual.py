"""The usual priors: those of the table in the module's docstring."""

import numpy as np
import numpyro.distributions as dist

import steinflow as sf


def test_priors_are_scaled_to_the_data_printed_and_replaceable(table):
    target = sf.formula("y ~ x", table, priors={"x": "Normal(1, 5)", "sigma": dist.HalfNormal(2.0)})
    sd = table["y"].std(ddof=0)
    np.testing.assert_allclose(target.priors["Intercept"].scale, 2.5 * sd, rtol=1e-5)
    assert float(target.priors["x"].loc) == 1
    text = str(target.priors)
    assert "Normal(1, 5)  (given)" in text
    assert "HalfNormal(2)  (given)" in text
    plain = sf.formula("y ~ x", table)
    np.testing.assert_allclose(plain.priors["x"].scale, 2.5 * sd / table["x"].std(ddof=0), rtol=1e-5)
