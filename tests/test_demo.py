"""The demo, as `make demo` runs it: both posteriors are right, and the figures are there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

DEMO = Path(__file__).parents[1] / "examples" / "demo.py"


def test_the_demo(tmp_path):
    """One test: workers that share the tests of a module would each run the demo."""
    environment = {**os.environ, "MPLBACKEND": "agg"}
    run = subprocess.run([sys.executable, DEMO], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    mixture_is_right_in_mean_and_sd(run.stdout)
    regression_predicts_and_has_the_right_spread(run.stdout)
    the_bar_shows_progress(run.stderr)
    figures_are_there(tmp_path / "demo-output")


def number(pattern, text):
    found = re.search(pattern, text)
    assert found, f"{pattern} is not in the output"
    return float(found[1])


def mixture_is_right_in_mean_and_sd(text):
    assert number(r"mean +(\S+) +0\.667", text) == pytest.approx(2 / 3, abs=0.1)
    assert number(r"sd +(\S+) +2\.134", text) == pytest.approx(2.134, abs=0.1)


def regression_predicts_and_has_the_right_spread(text):
    assert number(r"accuracy +(\S+)", text) >= 0.95
    assert number(r"log-likelihood +(\S+) per patient", text) >= -0.12
    spreads = re.findall(r"dispersion (\S+) \(", text)
    assert len(spreads) == 2
    assert all(0.9 <= float(spread) <= 1.1 for spread in spreads)


def the_bar_shows_progress(text):
    assert "100%" in text
    assert "ksd=" in text


def figures_are_there(folder):
    images = sorted(path.name for path in folder.iterdir())
    assert images == [
        "mixture-marginal.png",
        "mixture-motion.png",
        "mixture-trace.png",
        "mixture.gif",
        "regression-marginals.png",
        "regression-pairs.png",
        "regression-trace.png",
    ]
    for name in images:
        with Image.open(folder / name) as image:
            assert min(image.size) >= 250
