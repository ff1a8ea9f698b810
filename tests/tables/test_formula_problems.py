"""A formula in a run: it comes back from plain values."""

import dataclasses
import json

import example_tables as tables
import jax
import numpy as np
import pandas
import pytest

from steinflow.tables.formula_problems import FormulaFit, FormulaProblem, FormulaRecorder

PROBLEM = FormulaProblem(("grade ~ x + (1 | g)",), "cumulative", None, {"x": "Normal(0, 3)"}, "weight", ("g",))


@pytest.fixture(scope="module")
def frame():
    frame = tables.mixed()
    grades = pandas.Categorical(frame["grade"].map(dict(enumerate("dcba", 1))), list("dcba"), ordered=True)
    return frame.assign(grade=grades)


def test_a_problem_is_plain_values():
    assert FormulaProblem.from_json(json.loads(json.dumps(PROBLEM.to_json()))) == PROBLEM
    assert PROBLEM.title == "grade ~ x + (1 | g), family cumulative"


def test_codes_are_read_as_text(frame):
    assert PROBLEM.read(frame)["g"].tolist() == [str(g) for g in frame["g"]]
    assert PROBLEM.read(frame[["x"]])["x"].tolist() == frame["x"].tolist()


def test_the_target_comes_back_from_what_was_learned(frame):
    """With the order of its levels, which text does not have."""
    target = PROBLEM.target(frame)
    learned = json.loads(json.dumps(FormulaFit(PROBLEM, target).learned()))
    back = PROBLEM.target(
        pandas.DataFrame(learned["rows"]).assign(
            grade=lambda rows: pandas.Categorical(rows["grade"], learned["orders"]["grade"], ordered=True)
        )
    )
    assert back.about.response.levels == target.about.response.levels == tuple("dcba")
    jax.tree.map(np.testing.assert_array_equal, jax.tree.leaves(back), jax.tree.leaves(target))


@dataclasses.dataclass
class FakeResult:
    target: object = None


def test_missing_text_is_a_level_again_for_other_tables(frame):
    text = [[None, "b", "a"][k % 3] for k in range(len(frame))]
    frame = frame.assign(text=text, order=pandas.Categorical(text, ["b", "a"]))
    problem = FormulaProblem(("x ~ text + order",), "gaussian", missing="level")
    assert FormulaProblem.from_json(json.loads(json.dumps(problem.to_json()))) == problem
    fitted = FormulaFit(problem, problem.target(frame))
    learned = json.loads(json.dumps(fitted.learned()))
    assert learned["rows"]["text"] == text
    back = FormulaFit(problem).restore(FakeResult(), learned)
    jax.tree.map(np.testing.assert_array_equal, jax.tree.leaves(back.target), jax.tree.leaves(fitted.target))
    assert back.target.about.filled == ("order", "text")
    assert back.target.about.frame["order"].cat.categories.tolist() == ["b", "a", "missing"]
    assert back.needed == ["order", "text"]
    assert back.must_be_known == []
    jax.tree.map(
        np.testing.assert_array_equal,
        back.target.rows(frame[["text", "order"]].iloc[:3]),
        fitted.target.rows(frame[:3]),
    )


def test_restored_with_its_posterior(of_formula):
    fitted = of_formula.estimator
    back = FormulaFit(fitted.problem).restore(fitted.result_, json.loads(json.dumps(fitted.learned())))
    assert back.parameters().names == fitted.parameters().names
    np.testing.assert_array_equal(
        back.target.predict(back.result_.particles), fitted.target.predict(fitted.result_.particles)
    )


def test_parameters_and_effects_are_told_apart(of_formula):
    fitted = of_formula.estimator
    parameters, effects = fitted.parameters(), fitted.effects()
    assert parameters.names == ["a", "a:y[yes]", "y[yes]", "1|g_sigma", "Intercept"]
    assert set(parameters.names).isdisjoint(effects.names)
    assert all(name.startswith("1|g[") for name in effects.names)
    texts = fitted.prior_texts()
    assert set(texts) == set(parameters.names)
    assert texts["1|g_sigma"].startswith("HalfNormal(")


def test_the_recorder_takes_the_first_numbers_in_order():
    particles = {"b": np.arange(6.0).reshape(2, 3), "a": np.array([7.0, 8.0]), "c": np.zeros(2)}
    np.testing.assert_array_equal(FormulaRecorder(("b", "a"))(particles), [[7, 0, 1, 2], [8, 3, 4, 5]])
    assert FormulaRecorder(("a",)) == FormulaRecorder(("a",))
