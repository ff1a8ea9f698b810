"""The look of all plots."""

import sys

import matplotlib as mpl
import pytest

from steinflow.results.figures import INK, style


def test_the_style_ends_with_its_block():
    before = dict(mpl.rcParams)
    with style() as plt:
        assert plt.rcParams["axes.labelcolor"] == INK
    assert dict(mpl.rcParams) == before


def test_without_matplotlib_it_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"steinflow\[plot\]"), style():
        pass
