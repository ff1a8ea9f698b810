"""The runs of tests/inference: one target, one method, one shape, so that they compile once."""

import numpy as np
from scenarios import normal_log_density

import steinflow as sf

X0 = 2 + np.random.default_rng(0).normal(size=(20, 2)).astype(np.float32)
PAPER = sf.SVGD.paper(0.3)


def run(target=normal_log_density, method=PAPER, **changes):
    return sf.fit(target, method, **{"particles": X0, "num_steps": 20, "key": 1, "progress": False, **changes})
