"""What to do about a column, in Python: the code in these sentences works."""

import io

import pandas

from steinflow.models.remedies import InPython


def advised(sentence):
    """The arguments of `pandas.read_csv` in a sentence."""
    return eval(f"dict({sentence.removeprefix('read the file with ')})")


def test_files_are_read_as_advised():
    text = "a;b\n1.250,5;?\n"
    options = advised(InPython().read_with(decimal=",", thousands=".")) | advised(InPython().as_missing("?"))
    frame = pandas.read_csv(io.StringIO(text), sep=";", **options)
    assert frame["a"].tolist() == [1250.5]
    assert frame["b"].isna().all()


def test_columns_that_cannot_be_used():
    assert InPython().leave_out(["a"]) == "leave it out"
    assert InPython().leave_out(["a", "b"]) == "leave them out"
    assert InPython().as_group("a b") == 'sf.formula("y ~ x + (1 | `a b`)", table)'
