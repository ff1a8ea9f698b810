"""What a formula says, and where it is wrong."""

import pytest

from steinflow.models.formulas import FormulaError
from steinflow.models.formulas.syntax import columns_of, parse


def test_columns_of_both_sides():
    formula = parse("p(yes, trials) ~ x * z + log(t) + (1 + x | g:h)")
    assert columns_of(formula.model) == {"x", "z", "t", "g", "h"}
    assert columns_of(formula.response) == {"yes", "trials"}
    assert formula.text == "p(yes, trials) ~ x * z + log(t) + (1 + x | g:h)"


@pytest.mark.parametrize(
    ("terms", "blocks"),
    [
        ("x", ()),
        ("(1 | g)", ((("1|g",), True),)),
        ("(1 + x | g) + (1 | h)", ((("1|g", "x|g"), True), (("1|h",), True))),
        ("(1 + x || g)", ((("1|g", "x|g"), False),)),
        ("(1 | g) + (0 + x | g)", ((("1|g",), True), (("x|g",), True))),
        ("(1 | g / h)", ((("1|g",), True), (("1|g:h",), True))),
        ("{t / 2} + (1 | g)", ((("1|g",), True),)),
    ],
)
def test_group_terms_in_one_pair_of_brackets_stay_together(terms, blocks):
    assert parse(f"y ~ {terms}").blocks == blocks


@pytest.mark.parametrize(
    ("text", "where"),
    [("y ~ x + ", 9), ("y ~ x) + z", 6), ("y ~ (x + z", 11), ("y ~ x ++ * z", 10), ("log(y ~ x", 10)],
)
def test_errors_point_at_their_place(text, where):
    with pytest.raises(FormulaError) as error:
        parse(text)
    *_, written, pointer = str(error.value).splitlines()
    assert written == f"  {text}"
    assert pointer.index("^") - 2 == where - 1


@pytest.mark.parametrize("text", ["y", "~ x", "y ~ x ~ z", 3])
def test_a_formula_has_a_response_one_tilde_and_terms(text):
    with pytest.raises(FormulaError, match="one '~' and terms"):
        parse(text)
