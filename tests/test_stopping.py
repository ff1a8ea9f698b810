import numpy as np
import pytest

import steinflow as sf


def history(ksd, dispersion):
    return {"ksd": [np.float32(k) for k in ksd], "dispersion": [np.float32(dispersion)] * len(ksd)}


def test_stops_when_settled_and_spread_is_right():
    rule = sf.Converged(patience=3)
    assert rule(history([5, 3, 1, 1, 1, 1], 1.0))
    assert not rule(history([5, 3, 1, 1, 1], 1.0)), "not yet patient enough"
    assert not rule(history([5, 3, 1, 0.9, 0.8, 0.7], 1.0)), "still falling"
    assert not rule(history([5, 3, 1, 1, 1, 1], 0.5)), "collapsed"
    assert not rule(history([5, 3, 1, 1, 1, 1], 1.5)), "too wide"
    assert not rule(history([5, 3, 1, 1, 1, float("nan")], 1.0))
    assert not rule(history([1], 1.0))


def test_patience_is_positive():
    with pytest.raises(ValueError, match="at least 1"):
        sf.Converged(patience=0)
