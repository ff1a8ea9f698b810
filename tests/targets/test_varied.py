import jax
import numpy as np

import steinflow as sf
from steinflow.targets.varied import Varied

X, Y = np.linspace(-1, 1, 8, dtype=np.float32)[:, None], np.arange(8) % 2


def network(y):
    return sf.models.NeuralNetwork(X, y, (2,), family=sf.models.VaryingGaussian(), prior_scale=4.0)


def test_it_is_approached_as_what_it_makes():
    """On the way to a noise that varies, rows are weighted by it."""
    target = network(Y)
    params = target.sample_prior(jax.random.key(0))
    by_item, by_itself, whole = (
        each.log_density(params, target.data.values) for each in (Varied(network, Y).approach, target.approach, target)
    )
    assert by_item == by_itself
    assert by_itself != whole
