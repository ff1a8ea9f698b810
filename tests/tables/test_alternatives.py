"""What is advised about a misfit can be typed, and is accepted: every advice is read, and its model made."""

import re
import shlex

import numpy as np
import pandas
import pytest

from steinflow.models.families import FAMILIES
from steinflow.tables.alternatives import FEW_LEVELS, Model, _terms
from steinflow.tables.fitting import prepare
from steinflow.tables.formula_problems import FormulaProblem

RNG = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {
        "x": RNG.normal(size=80),
        "dose mg": RNG.normal(size=80),
        "shop": RNG.integers(0, 12, 80),
        "floor": RNG.integers(0, 3, 80),
        "sex": RNG.choice(["f", "m"], 80),
        "town": RNG.choice(list("abcdefgh"), 80),
    }
)
RESPONSES = {
    "real": RNG.normal(size=80),
    "counts": RNG.poisson(3, 80),
    "positive": RNG.gamma(2, size=80),
    "not negative": np.where(RNG.random(80) < 0.3, 0.0, RNG.gamma(2, size=80)),
    "share": RNG.beta(2, 2, 80),
    "flag": RNG.integers(0, 2, 80),
    "class": RNG.choice(list("pqr"), 80),
}
OF_FAMILY = {
    "gaussian": ("real", "counts", "positive", "not negative"),
    "t": ("real", "counts", "positive", "not negative"),
    "bernoulli": ("flag",),
    "categorical": ("class",),
    "cumulative": ("class",),
    "gamma": ("positive",),
    "lognormal": ("positive",),
    "weibull": ("positive",),
    "exponential": ("positive",),
    "beta": ("share",),
}
MISFITS = ("wider", "narrower", "lower", "positive", "more zeros", "fewer zeros", "counts")
COLUMNS = {"x": None, "dose mg": None, "shop": 12, "floor": 3, "sex": 2, "town": 8}


def _model(form, family, response, used, **options):
    y = FRAME.assign(y=RESPONSES[response])["y"]
    numbers = np.zeros(1) if y.dtype.kind not in "iuf" else y.to_numpy(float)
    names = [f"`{name}`" if " " in name else name for name in used]
    return Model(
        form=form,
        family=family,
        formulas=(f"y ~ {' + '.join(names)}",),
        lowest=float(numbers.min()),
        are_whole=bool(np.all(numbers == np.round(numbers))),
        amounts=frozenset(name for name in used if FRAME[name].dtype.kind in "iuf"),
        hidden=(50,) if form == "network" else (),
        **options,
    )


def _advice(model, used):
    """Yield all that can be said about this model."""
    for misfit in MISFITS:
        yield from model.families("counts" if model.looks_like_counts else misfit)
    for name, levels in COLUMNS.items():
        yield from model.noise(name, levels)
        if name in used:
            yield from model.curve(name, FRAME[name].nunique()) if levels is None else model.codes(name, levels)
        else:
            yield from model.predictor(name, levels, is_number=FRAME[name].dtype.kind in "iuf")
    yield from model.curve(None)


def _accepted(advice, model, response, used):
    """Make the model that an advice is about."""
    what, _, text = advice.partition(": ")
    assert what
    frame = FRAME.assign(y=RESPONSES[response])
    if text.startswith("leave out --drop "):
        [name] = shlex.split(text.removeprefix("leave out --drop "))
        prepare(frame[["y", *used, name]], "y", model="network" if model.form == "network" else None)
        return
    options, formulas, words = {}, [], shlex.split(text)
    for option, value in zip(words[::2], words[1::2], strict=True):
        if option == "--formula":
            formulas.append(value.replace("...", " + ".join(_terms(model.formulas[0].split("~")[1]))))
        else:
            options[option] = value
    if model.form != "formula" and not formulas:
        hidden = tuple(map(int, options.pop("--hidden", "50").split(",")))
        codes = [options.pop("--categorical")] if "--categorical" in options else []
        prepare(frame[["y", *used]], "y", model=options.pop("--model", None), hidden=hidden, categorical=codes)
    else:
        family = options.pop("--family", model.family if model.form == "formula" else "gaussian")
        first = [] if any(text.split("~")[0].strip() in ("y", "log1p(y)") for text in formulas) else [model.formulas[0]]
        FormulaProblem((*first, *formulas), family).target(frame)
    assert not options


CASES = [
    *(
        ("formula", family, response)
        for family in FAMILIES
        if family != "binomial"
        for response in OF_FAMILY.get(family, ("counts",))
    ),
    *(("target", "gaussian", response) for response in OF_FAMILY["gaussian"]),
    *(
        ("target", family, response)
        for family, response in (("poisson", "counts"), ("bernoulli", "flag"), ("categorical", "class"))
    ),
    *(("network", "gaussian", response) for response in ("real", "counts")),
]


@pytest.mark.parametrize(("form", "family", "response"), CASES)
def test_every_advice_is_accepted(form, family, response):
    said = set()
    for used in (["x", "shop", "floor", "sex"], ["dose mg", "town"]):
        model = _model(form, family, response, used)
        for advice in _advice(model, used):
            _accepted(advice, model, response, used)
            said.add(advice)
    assert len(said) > 3
    if form == "network":
        assert not any(re.search(r"bs\(|--formula", advice) for advice in said)


def test_long_formulas_are_shortened_and_can_be_completed():
    used = ["x", "shop", "floor", "sex", "town", "dose mg"]
    model = _model("formula", "poisson", "counts", used * 4)
    [advice] = model.curve("x", 80)
    assert advice == "a curve in 'x': --formula \"y ~ ... + bs(x, df=5)\""


def test_families_follow_from_what_is_wrong():
    counts = _model("formula", "zero_inflated_poisson", "counts", ["x"])
    assert "zero_inflated_negbinomial" in counts.families("wider")[0]
    assert (
        _model("formula", "negbinomial", "counts", ["x"])
        .families("fewer zeros")[0]
        .endswith("--family hurdle_negbinomial")
    )
    real = _model("formula", "gaussian", "positive", ["x"])
    assert not any("heavier tails" in advice for advice in real.families("positive"))
    assert _model("formula", "gaussian", "real", ["x"]).families("positive") == ()
    assert "log1p(y) ~ x" in _model("target", "gaussian", "not negative", ["x"]).families("positive")[0]


def test_two_levels_are_no_group():
    model = _model("formula", "gaussian", "real", ["x"])
    assert '--formula "y ~ x + sex"' in model.predictor("sex", 2, is_number=False)[0]
    assert '--formula "y ~ x + shop"' in model.predictor("shop", 2, is_number=True)[0]
    assert '--formula "y ~ x + C(floor)"' in model.predictor("floor", 3, is_number=True)[0]
    assert '--formula "y ~ x + (1 | town)"' in model.predictor("town", FEW_LEVELS + 1, is_number=False)[0]
    assert "y ~ x + C(floor)" in _model("formula", "gaussian", "real", ["floor", "x"]).codes("floor", 3)[0]


def test_what_was_asked_for_is_kept_or_the_advice_is_not_given():
    linked = _model("formula", "gaussian", "positive", ["x"], link="log")
    assert [advice.split()[-1] for advice in linked.families("wider")] == ["t"]  # a log-normal has no link log
    own = _model("formula", "gaussian", "counts", ["x"], priors=frozenset({"sigma"}))
    assert own.families("counts") == ()
    assert own.noise("x", None) == ()
