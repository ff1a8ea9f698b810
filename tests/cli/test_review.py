"""`steinflow report` and `steinflow compare`."""

import json
import shutil
from pathlib import Path

import example_tables as tables
import pytest
from commands import steinflow_, write


def test_report(runs):
    done = steinflow_("report", runs.svgd, "--output", "report.html", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"report": "report.html", "bytes": Path("report.html").stat().st_size}


def test_a_report_has_no_output_to_replace(runs):
    done = steinflow_("report", runs.svgd, "--overwrite")
    assert done.exit_code == 2
    assert "replaces the --output file" in done.stderr


def test_compare(runs):
    done = steinflow_("compare", runs.svgd, runs.other)
    assert done.exit_code == 0
    assert "log-likelihood" in done.stdout
    assert "not comparable" in done.stderr  # another seed holds out other rows
    values = json.loads(steinflow_("compare", runs.svgd, runs.svgd, "--json").stdout)
    assert values["comparable"]
    assert values["differences"] == [{"mean": 0.0, "standard_error": 0.0}] * 2
    assert "Mean ± sd of effects on the log-odds of 'y' being 'yes'" in " ".join(done.stdout.split())
    assert "at least two runs" in steinflow_("compare", runs.svgd).stderr
    values = json.loads(steinflow_("compare", runs.svgd, runs.svgd, "--loo", "--json").stdout)
    assert [each["difference"] for each in values["loo"]] == [0.0, 0.0]
    assert "elpd by leave-one-out" in " ".join(steinflow_("compare", runs.svgd, runs.other, "--loo").stdout.split())
    assert "needs a model by formula" in steinflow_("compare", runs.svgd, runs.svgd, "--evidence").stderr


def test_one_held_out_row(one_row):
    """Its R² is not known, in any of the runs."""
    done = steinflow_("compare", one_row.folder, one_row.folder)
    assert done.exit_code == 0, done.output
    assert "variance explained" in done.stdout
    assert steinflow_("report", one_row.folder, "--output", "report.html").exit_code == 0
    values = json.loads(
        steinflow_("compare", one_row.folder, one_row.folder, "--json").stdout, parse_constant=pytest.fail
    )
    assert values["runs"][0]["held_out"]["metrics"]["r2"] is None


@pytest.mark.parametrize("command", ["report", "predict", "compare"])
def test_what_is_not_a_run(runs, command):
    write(tables.numbers())
    Path("broken").mkdir()
    Path("broken/run.json").write_text("{}")
    Path("broken/result.nc").write_text("")
    shutil.copytree(runs.svgd, "edited")
    Path("edited/run.json").write_text(Path("edited/run.json").read_text().replace('"metrics"', '"figures"'))
    cases = {"nowhere": "There is no run", ".": "is not a run", "broken": "is damaged", "edited": "is damaged"}
    for folder, words in cases.items():
        more = {"predict": ["data.csv"], "compare": [folder]}.get(command, [])
        done = steinflow_(command, folder, *more)
        assert done.exit_code == 1
        assert words in done.stderr
