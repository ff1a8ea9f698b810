"""Cross-validation against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import steinflow as sf

METHOD, ROWS = sf.SVGD(exploration=None), 12


@pytest.fixture(scope="module")
def y():
    return np.random.default_rng(0).normal(2, 1, ROWS)


def normal_mean(y):
    """A mean with prior N(0, 1) and unit noise."""
    return sf.Posterior(
        lambda mean: -0.5 * mean**2,
        lambda mean, rows: -0.5 * (rows - mean) ** 2 - 0.5 * jnp.log(2 * jnp.pi).astype(rows.dtype),
        y,
        prior=jax.random.normal,
    )


@pytest.fixture(scope="module")
def found(y):
    groups = np.repeat(["a", "b", "c"], 4)
    return sf.cross_validate(normal_mean(y), groups, METHOD, num_particles=100, num_steps=200, progress=False)


def test_every_row_is_foretold_by_the_others(found, y):
    for k in range(3):
        inside = np.delete(y, np.arange(4 * k, 4 * k + 4))
        mean, variance = inside.sum() / 9, 1 / 9
        exact = stats.norm.logpdf(y[4 * k : 4 * k + 4], mean, (1 + variance) ** 0.5)
        np.testing.assert_allclose(found.log_densities[4 * k : 4 * k + 4], exact, atol=0.01)
        np.testing.assert_allclose(found.posteriors[k].mean(), mean, atol=0.01)
    assert found.posteriors.names == ("a", "b", "c")
    assert "12 rows in 3 parts" in str(found)


def test_differences_are_taken_row_by_row(found):
    assert found.minus(found) == (0.0, 0.0)


def test_random_parts_are_of_equal_size():
    from steinflow.inference.cross_validation import _parts

    labels, parts = _parts(5, 12, jax.random.key(0))
    assert labels == list("01234")
    assert sorted(np.bincount(parts)) == [2, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("folds", "expected"),
    [(1, "between 2 and the 12 rows"), (np.zeros(5), "shape"), (np.zeros(12), "all rows into one part")],
)
def test_parts_that_do_not_fit(y, folds, expected):
    with pytest.raises(ValueError, match=expected):
        sf.cross_validate(normal_mean(y), folds)


def test_a_target_without_rows():
    with pytest.raises(ValueError, match="needs a target with rows"):
        sf.cross_validate(sf.Density(lambda x: -(x**2)))


@pytest.mark.slow
def test_models_by_formula_leave_rows_out_too():
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=60), "noise": rng.normal(size=60)})
    table["y"] = 2 * table.x + rng.normal(size=60)
    good, poor = (sf.cross_validate(sf.formula(f"y ~ {name}", table), 5, progress=False) for name in ("x", "noise"))
    difference, error = good.minus(poor)
    assert difference > 3 * error
