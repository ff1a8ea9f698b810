"""What to do, in options of the command line."""

import re
from types import SimpleNamespace

import example_tables as tables

from steinflow.results.verdict import Finding, Remedy, Verdict
from steinflow.tables.advice import ADVICE, advice, sentence
from steinflow.tables.fitting import prepare

SETTINGS = {"method": "svgd", "num_steps": 1000, "num_particles": 100, "batch_size": None, "seed": 0}


def advised(*remedies, method="svgd", model=None):
    result = SimpleNamespace(verdict=Verdict("bad", (Finding("bad", "x", remedies),), {}))
    problem = prepare(tables.numbers(), "y", model=model).problem
    return advice(SimpleNamespace(settings={**SETTINGS, "method": method}, result=result, problem=problem))


def test_advice_is_about_commands():
    assert set(ADVICE) == set(Remedy)
    assert not any(re.search(r"result\.|sf\.", words) for words in ADVICE.values() if words is not None)
    assert advised(Remedy.MORE_STEPS, Remedy.WEIGHTS, Remedy.MORE_STEPS) == ["take more steps: --steps 4000"]


def test_nobody_is_sent_to_the_method_that_they_have():
    assert advised(Remedy.DEFAULT_METHOD, method="svgd-paper") == ["use the default method: leave out --method"]
    assert advised(Remedy.DEFAULT_METHOD) == []
    assert "held-out rows" in advised(Remedy.DEFAULT_METHOD, method="ensemble", model="network")[0]


def test_sentences():
    assert sentence("more steps") == "More steps."
    assert sentence("Done.") == "Done."
