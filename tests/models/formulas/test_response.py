"""The left side of a formula."""

import jax
import numpy as np

import steinflow as sf


def test_censored_rows_count_as_survivors(table):
    known = sf.formula("positive ~ x", table, family="weibull")
    both = [
        sf.formula(formula, table.assign(status=np.where(table["event"] == 1, "none", "right")), family="weibull")
        for formula in ("Surv(positive, event) ~ x", "censored(positive, status) ~ x")
    ]
    p = jax.tree.map(lambda leaf: leaf[None], known.sample_prior(jax.random.key(0)))
    exact, *bounded = (next(iter(t.observations.log_likelihoods(p).values()))[0] for t in (known, *both))
    np.testing.assert_array_equal(bounded[0], bounded[1])
    happened = table["event"].to_numpy() == 1
    np.testing.assert_allclose(bounded[0][happened], exact[happened], rtol=1e-6)
    assert np.all(np.asarray(bounded[0])[~happened] <= 0)
    assert any("right-censored" in note for note in both[0].notes)


def test_trials_may_be_a_number(table):
    target = sf.formula("p(count, 20) ~ x", table, family="binomial")
    assert target.about.response.trials.tolist() == [20] * 60
    assert target.rows(table[["x"]][:2])["trials"].tolist() == [20, 20]
