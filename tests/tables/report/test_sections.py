"""The words and tables of a report; that it renders is tested in a browser."""

import re

import pytest

from steinflow.tables.report.content import charts_of
from steinflow.tables.report.sections import _text, body_of


def ids(body):
    return set(re.findall(r'id="([\w-]+)"', body))


@pytest.mark.parametrize("name", ["of_numbers", "of_classes", "of_formula"])
def test_every_element_is_closed_and_every_number_is_there(name, request):
    run = request.getfixturevalue(name)
    _, body = body_of(run, charts_of(run))
    for tag in ("section", "div", "table", "ul", "li", "p", "tr"):
        assert len(re.findall(rf"<{tag}[ >]", body)) == body.count(f"</{tag}>"), tag
    assert f"{run.data['num_rows']} rows fitted" in body
    assert body.count('<span class="light') == 3
    assert len(re.findall(r' on"></span>', body)) == 1
    for parameter in run.parameters().names:
        assert f'<th scope="row">{_text(parameter)}</th>' in body
    assert {"verdict", "posterior", "run", "predictions", "repeat"} <= ids(body)


def test_sections_that_belong_to_one_kind(of_numbers, of_classes, of_formula):
    numbers, classes, formula = (ids(body_of(run, charts_of(run))[1]) for run in (of_numbers, of_classes, of_formula))
    assert {"words", "effects", "margins", "groups", "prior"} <= formula
    assert "words" in numbers & classes
    assert not {"effects", "margins", "groups", "prior"} & (numbers | classes)
    assert "scatter" in numbers
    assert {"probabilities", "confusion"} <= classes


def test_text_from_outside_is_shown_and_nothing_else():
    assert _text('<b title="x">&\'') == "&lt;b title=&quot;x&quot;&gt;&amp;&#x27;"
