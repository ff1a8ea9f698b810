"""Affine coordinates: forth, back, and how scores and moves follow."""

import jax.numpy as jnp
import numpy as np
import pytest

from steinflow.methods.svgd.frames import Frame, Stretched, frame_of

RNG = np.random.default_rng(0)
DIM, CENTER = 5, RNG.normal(size=5)
SPREAD = np.cov(RNG.normal(size=(20, DIM)).T) * np.outer(10.0 ** np.arange(DIM), 10.0 ** np.arange(DIM))
AXES, STRETCH = np.linalg.qr(RNG.normal(size=(DIM, 2)))[0], np.array([3.0, 0.2])
SCALES = np.array([0.1, 1.0, 5.0, 2.0, 30.0])


def stretched():
    """Of low rank, and its factor as a matrix."""
    factor = np.diag(SCALES) @ (np.eye(DIM) + AXES @ np.diag(STRETCH - 1) @ AXES.T)
    scaled = Frame(*(jnp.asarray(part) for part in (CENTER, SCALES, 1 / SCALES)))
    frame = Stretched(scaled, jnp.asarray(AXES), jnp.asarray(STRETCH), jnp.asarray(np.diag(factor @ factor.T)))
    return frame, factor


def frames():
    """Every kind, and its factor as a matrix."""
    for spread in (SPREAD, np.diag(SPREAD), np.asarray(4.0)):
        square = spread if spread.ndim == 2 else np.diag(np.broadcast_to(spread, DIM))
        yield frame_of(jnp.asarray(CENTER), jnp.asarray(spread)), np.linalg.cholesky(square)
    yield stretched()


@pytest.mark.parametrize("kind", range(4), ids=["matrix", "variances", "one variance", "low rank"])
def test_coordinates_are_those_of_the_factor(kind, x64):
    frame, factor = list(frames())[kind]
    x, scores, moves = RNG.normal(size=(3, 7, DIM))
    points = frame.points(jnp.asarray(x))
    np.testing.assert_allclose(points, np.linalg.solve(factor, (x - CENTER).T).T, rtol=1e-9)
    np.testing.assert_allclose(frame.scores(jnp.asarray(scores)), scores @ factor, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(frame.moves(jnp.asarray(moves)), moves @ factor.T, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(frame.center + frame.moves(points), x, rtol=1e-9, atol=1e-9)


def test_the_spread_is_the_identity_in_its_frame(x64):
    frame = frame_of(jnp.asarray(CENTER), jnp.asarray(SPREAD))
    np.testing.assert_allclose(frame.inverse @ SPREAD @ frame.inverse.T, np.eye(DIM), atol=1e-10)
    np.testing.assert_allclose(frame.factor @ frame.inverse, np.eye(DIM), atol=1e-10)
    assert np.all(np.triu(frame.factor, 1) == 0)


def test_scales_far_apart_are_no_matter_in_single_precision():
    scales = 10.0 ** np.linspace(-12, 12, DIM)
    spread = (0.5 + 0.5 * np.eye(DIM)) * np.outer(scales, scales)
    frame = frame_of(jnp.zeros(DIM), jnp.asarray(spread, jnp.float32))
    white = np.asarray(frame.inverse, float) @ spread @ np.asarray(frame.inverse, float).T
    np.testing.assert_allclose(white, np.eye(DIM), atol=1e-5)
