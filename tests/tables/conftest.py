"""Runs that many tests look at, fitted once: small, with the same numbers of particles and steps."""

import example_tables as tables
import numpy as np
import pytest

from steinflow.tables.fitting import prepare, run_fit
from steinflow.tables.formula_problems import FormulaProblem
from steinflow.tables.formulas import fit_formula

HOSTILE_COMMAND = "steinflow fit '<!--<script>window.hacked=1</script>' --target \u2028"


def _fitted(frame, target, **options):
    data = {"file": f"{tables.HOSTILE}.csv"}
    prepared = prepare(frame, target, **options)
    return run_fit(prepared, num_particles=20, num_steps=60, progress=False, data=data, command=HOSTILE_COMMAND)


@pytest.fixture(scope="session")
def of_classes():
    """A classification with hostile names, values and target."""
    target = f"y{tables.HOSTILE}"
    hostile = tables.two_classes().rename(columns={"y": target})
    hostile[target] = hostile[target].map({"yes": tables.HOSTILE_CELL, "no": tables.HOSTILE})
    return _fitted(hostile, target)


@pytest.fixture(scope="session")
def of_formula():
    """Counts with a hostile group."""
    frame = tables.two_classes().rename(columns={"color": "g"})
    frame["count"] = np.random.default_rng(1).poisson(np.exp(1 + 0.5 * frame["a"]))
    problem = FormulaProblem(("count ~ a * y + (1 | g)",), "poisson")
    return fit_formula(frame, problem, num_particles=20, num_steps=60, progress=False, command=HOSTILE_COMMAND)


@pytest.fixture(scope="session")
def of_flags():
    """0 and 1, by a number, a code and a text."""
    frame = tables.two_classes().rename(columns={tables.HOSTILE: "b"})
    frame["code"] = np.random.default_rng(1).integers(1, 4, len(frame))
    frame["y"] = (frame["y"] == "yes").astype(int)
    problem = FormulaProblem(("y ~ a + C(code) + color",), "bernoulli")
    return fit_formula(frame, problem, num_particles=20, num_steps=60, progress=False, command=HOSTILE_COMMAND)


@pytest.fixture(scope="session")
def of_numbers():
    return _fitted(tables.numbers(), "y")
