"""Which predictors tell the classes of a response apart: known cases, and a search over directions."""

import numpy as np
import pytest

import steinflow as sf
from steinflow.models.formulas.separation import separated

ROWS = 40
RNG = np.random.default_rng(0)
A, B, NOISE = RNG.normal(size=(3, ROWS))
SUM = 3 * A + B
NAMES = ["a", "b", "noise"]
X = np.column_stack([A, B, NOISE])


def swapped(y, rows=(0, 1, 2, 3)):
    """Some of the rows have the response of others, so that nothing separates them."""
    y = y.copy()
    y[list(rows)] = y[np.argsort(SUM)[[0, -1, 1, -2]]]
    return y


@pytest.mark.parametrize(
    ("y", "options", "what"),
    [
        ((SUM > 0).astype(float), {}, "'a', 'b' together separate the two values"),
        (np.digitize(SUM, [-1, 2]).astype(float), {"ordered": True}, "'a', 'b' together separate the classes"),
        (np.digitize(SUM, [-1, 2]).astype(float), {}, "'a', 'b' together separate the classes"),
        (9.0 * (SUM > 0), {"trials": np.full(ROWS, 9)}, "'a', 'b' together separate successes and failures"),
    ],
)
def test_two_predictors_separate_together(y, options, what):
    assert separated(X, y, NAMES, **options)[0].startswith(what)
    assert separated(X, swapped(y), NAMES, **options) == ()


def test_some_successes_of_several_trials_are_no_separation():
    y = np.where(np.abs(SUM) < 1, 4.0, 9.0 * (SUM > 0))
    assert separated(X, y, NAMES, trials=np.full(ROWS, 9)) == ()


def test_a_level_without_one_of_the_classes():
    level, y = (np.arange(ROWS) % 4 == 0).astype(float), np.arange(ROWS) % 3 + 0.0
    y[level > 0] = np.arange(ROWS // 4) % 2
    assert "'level' separates the classes" in separated(np.column_stack([A, level]), y, ["a", "level"])[0]


def test_without_an_intercept_the_sign_counts():
    positive = np.abs(A)
    assert separated(positive[:, None], np.ones(ROWS) * (B > 0), ["a"], centered=False) == ()
    y = np.append(np.ones(ROWS), 0.0)
    x = np.append(positive, -0.1)[:, None]
    assert separated(x, y, ["a"], centered=False)
    assert separated(np.append(positive, 0.1)[:, None], y, ["a"], centered=False) == ()


@pytest.mark.parametrize("seed", range(8))
def test_directions_of_the_plane(seed):
    """All directions of a plane, against the linear program, with an intercept."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(9, 2)), np.append(rng.integers(0, 2, 7), [0, 1])
    angles = np.linspace(0, 2 * np.pi, 20_000)
    along = X @ np.stack([np.cos(angles), np.sin(angles)])
    expected = np.any(along[y == 1].min(axis=0) > along[y == 0].max(axis=0))
    assert bool(separated(X, y.astype(float), ["a", "b"])) == expected


def test_many_rows_are_asked_in_parts():
    X = np.random.default_rng(0).normal(size=(40_000, 10))
    y = (X @ np.arange(1.0, 11.0) > 0).astype(float)
    assert separated(X, y, list("abcdefghij"))
    y[:100] = 1 - y[:100]
    assert separated(X, y, list("abcdefghij")) == ()


def test_a_formula_says_it(table):
    apart = np.digitize(table["x"] + 20 * table["t"], [25, 30, 35])
    with pytest.warns(UserWarning, match="'x', 't' together separate the classes"):
        sf.formula("apart ~ x + t", table.assign(apart=apart), family="cumulative")
