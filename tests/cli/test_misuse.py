"""Whatever is wrong ends in a sentence and an exit code, and writes nothing."""

from pathlib import Path

import example_tables as tables
import numpy as np
import pytest
from commands import steinflow_, write


def with_text(**columns):
    return lambda: write(tables.numbers().assign(**columns))


def raw(content, name="data.csv"):
    return lambda: (Path(name).write_bytes(content), name)[1]


def missing():
    frame = tables.numbers()
    frame.loc[:6, "a"] = np.nan
    frame.loc[5, "b"] = np.inf
    return write(frame)


MISUSE = {
    "no file": (lambda: "nowhere.csv", [], "There is no file nowhere.csv"),
    "a folder": (lambda: ".", [], "is a folder"),
    "empty": (raw(b""), [], "is empty"),
    "header only": (raw(b"a,b,y\n"), [], "no rows"),
    "spreadsheet": (raw(b"PK\0\0", "data.xlsx"), [], "neither CSV nor Parquet"),
    "not parquet": (raw(b"hello", "data.parquet"), [], "cannot be read as a Parquet file"),
    "ragged": (raw(b"a,b,y\n1,2,3\n1,2,3,4,5\n"), [], "line 3"),
    "latin-1": (raw("a,y\né,1\n".encode("latin-1")), [], "byte 0xe9 in line 2"),
    "utf-16": (raw("a,y\n1,1\n".encode("utf-16")), [], "--encoding utf-16"),
    "wrong encoding": (with_text(), ["--encoding", "klingon"], "no encoding 'klingon'"),
    "wrong column": (with_text(), ["--target", "Y"], "Did you mean 'y'?"),
    "wrong drop": (with_text(), ["--drop", "q"], "no column 'q'"),
    "free text": (with_text(name=[f"n{k}" for k in range(60)]), [], "--drop 'name'"),
    "numbers with odd cells": (with_text(a=["?", *map(str, range(59))]), [], "--missing-marker '?'"),
    "decimal commas": (with_text(a=[f"{k},5" for k in range(60)]), [], "--decimal ','"),
    "dates": (with_text(d=[f"2020-01-{k % 28 + 1:02}" for k in range(60)]), [], "dates or times"),
    "missing values": (missing, [], "7 of 60 rows have missing or infinite values, in 'a' (7), 'b' (1)"),
    "one row": (lambda: write(tables.numbers(1)), [], "has 1 row;"),
    "constant features": (with_text(a=1, b=2), [], "constant: 'a', 'b'"),
    "constant target": (with_text(y=3), ["--model", "linear"], "nothing to predict"),
    "constant number": (with_text(y=3), [], "'y' is 3 in every row, so there is nothing to predict"),
    "nothing known": (with_text(a=None, b=None), [], "nothing is known of 'a', 'b'"),
    "one class": (with_text(y="yes"), [], "one class, 'yes'"),
    "too many classes": (with_text(y=[f"c{k}" for k in range(60)]), [], "too many for classes"),
    "classes of numbers": (with_text(), ["--model", "logistic"], "--model linear"),
    "text for linear": (with_text(y=["u", "v"] * 30), ["--model", "linear"], "--model logistic"),
    "negative counts": (with_text(), ["--model", "poisson"], "predicts counts"),
    "too huge": (with_text(a=[1e305, *range(59)]), [], "beyond 1e+300"),
    "same name twice": (raw(b"a,a ,y\n1,2,3\n"), [], "several columns with the same name"),
    "test fraction": (with_text(), ["--test-fraction", "2"], "between 0 and 0.9"),
    "dropped and used": (with_text(), ["--drop", "a", "--categorical", "a"], "--drop leaves out 'a'"),
    "target dropped": (with_text(), ["--drop", "y"], "--drop cannot leave it out"),
    "taken folder": (with_text(), ["--output", "."], "already exists"),
    "never replaced": (with_text(), ["--output", ".", "--overwrite"], "was not replaced"),
    "output in a file": (with_text(), ["--output", "data.csv/run"], "choose another folder with --output"),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_ends_in_a_sentence(case):
    make, options, words = MISUSE[case]
    data = make()
    before = sorted(Path().rglob("*"))
    target = [] if "--target" in options else ["--target", "y"]
    done = steinflow_("fit", data, *target, *options)
    assert done.exit_code == 1, done.output
    assert words in done.stderr
    assert done.stderr.strip().splitlines()[-1].startswith("Error: ")
    assert "Traceback" not in done.output
    assert sorted(Path().rglob("*")) == before  # nothing written
