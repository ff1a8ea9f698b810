import jax
import jax.numpy as jnp
import numpy as np
from walks import walked

RNG = np.random.default_rng()


def test_slopes_are_the_scores_in_the_coordinates_of_the_walk():
    start = jnp.asarray(RNG.standard_normal((20, 3)) * [0.1, 1.0, 10.0], jnp.float32)
    x, walk = jax.block_until_ready(walked(lambda x: -x, start, 50, warming=True))
    np.testing.assert_allclose(walk.scores, -x, rtol=1e-5)
    np.testing.assert_allclose(walk.slopes, walk.frame.scores(walk.scores), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(walk.pulls(), -walk.frame.scores(x), rtol=1e-4, atol=1e-5)
