import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import steinflow as sf
from steinflow.methods.svgd.phases import Journey, Moved, Phase
from steinflow.methods.svgd.scouts import NUM_STEPS
from tests.helpers.trajectories import add

METRIC, EXPLORATION = sf.svgd.Cloud(), sf.svgd.Microcanonical()
PARTICLES = jnp.asarray(np.random.default_rng(0).standard_normal((20, 2)), jnp.float32)
STEPS = 1000
TARGET, _ = sf.flatten(lambda x: -0.5 * jnp.sum(x**2), PARTICLES)


@pytest.fixture(scope="module")
def journey():
    return Journey.start(EXPLORATION, PARTICLES, METRIC, num_steps=STEPS, key=jax.random.key(0))


def at(journey, *, explored, step=0, target=TARGET, **changes):
    """The phase after so many steps of exploring."""
    walk = dataclasses.replace(journey.walk, explored=jnp.asarray(explored, jnp.float32))
    changed = dataclasses.replace(journey, walk=walk, **{name: jnp.asarray(value) for name, value in changes.items()})
    return changed, Phase.of(changed, target, sf.Time(jnp.asarray(step), jnp.asarray(STEPS)))


@pytest.mark.parametrize(
    ("step", "arrived", "heat", "exploring"),
    [
        (0, False, 0.0, False),
        (50, True, 0.0, True),
        (298, False, 0.0, False),
        (299, False, 0.0, True),
        (50, True, 5.0, False),  # of minibatches whose noise is much larger than the scores
        (400, False, 0.5, True),
        (500, True, 0.5, False),  # too late to explore
    ],
)
def test_particles_explore_when_they_have_arrived_or_at_the_deadline(journey, step, arrived, heat, exploring):
    phase = at(journey, explored=0, step=step)[1]
    assert bool(phase.ends_arrival(jnp.asarray(arrived), jnp.asarray(heat))) == exploring
    assert not bool(phase.moving)
    np.testing.assert_allclose(phase.arrival.fraction, (step - NUM_STEPS) / 600, rtol=1e-6)  # scouts go first


def test_the_heat_is_that_of_recent_steps(journey):
    heat, journey = jnp.asarray(4.0), dataclasses.replace(journey, heat=jnp.asarray(jnp.inf))
    assert float(journey.recent_heat(heat)) == 4.0  # the first one is all that is known
    heats = [heat]
    for _ in range(20):
        heats.append(dataclasses.replace(journey, heat=heats[-1]).recent_heat(jnp.asarray(1.0)))
    np.testing.assert_allclose(heats, 1 + 3 * 0.9 ** np.arange(21), rtol=1e-5)


def test_the_warm_up_asks_every_tenth_of_the_run(journey):
    asked = [explored for explored in range(0, 350, 10) if at(journey, explored=explored)[1].asking]
    assert asked == [100, 200, 300]
    tempered = TARGET.tempered(jnp.asarray(0.5))
    assert not any(bool(at(journey, explored=explored, target=tempered)[1].asking) for explored in asked)
    assert not any(bool(at(journey, explored=explored, warm=True)[1].asking) for explored in asked)
    assert [bool(at(journey, explored=explored)[1].listening) for explored in (49, 50, 51)] == [False, True, True]


@pytest.mark.parametrize(
    ("apart", "drift", "explored", "warm"),
    [
        (0.0, 0.0, 100, True),
        (5.0, 0.0, 100, False),
        (5.0, 0.0, 300, True),
        (0.0, 4.0, 300, False),
        (0.0, 4.0, 500, True),
    ],
)
def test_the_warm_up_ends_when_the_chains_agree_or_with_the_last_question(journey, apart, drift, explored, warm):
    """Chains that drift together agree; they are asked twice more."""
    centers = jnp.where(jnp.arange(20) < 10, apart, 0.0)[:, None].astype(jnp.float32)
    heard = journey.memory
    frame = METRIC.frame(PARTICLES)
    for k, key in enumerate(jax.random.split(jax.random.key(1), 40)):
        x = centers + drift * k / 40 + jax.random.normal(key, (20, 2))
        heard = add(heard, x, jnp.zeros(20), jnp.zeros((20, 2)), jnp.ones(20), frame, remembering=jnp.asarray(True))
    before, phase = at(dataclasses.replace(journey, memory=heard), explored=explored)
    moved = Moved(PARTICLES, None, before.scouts, before.footing, before.walk, jnp.asarray(True), before.heat)
    after = before.after(EXPLORATION, moved, jnp.zeros(20, bool), phase)
    assert bool(after.warm) == warm
    assert int(after.memory.count) == 0  # what was heard in the warm-up is not remembered
