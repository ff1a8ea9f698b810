"""Data sets: local folder, cache, public source, and the published splits."""

import os
from pathlib import Path

import numpy as np
import pytest

from steinflow.paper import datasets

DATA = Path(os.environ.get("STEINFLOW_DATA", Path(__file__).parents[3] / "shared" / "data"))


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """A machine without any data, and without a network."""
    monkeypatch.delenv("STEINFLOW_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "steinflow"


@pytest.fixture
def real(monkeypatch):
    if not (DATA / "regression").is_dir():
        pytest.skip("the paper's data are not here: set STEINFLOW_DATA")
    monkeypatch.setenv("STEINFLOW_DATA", str(DATA))


def source(monkeypatch, fetch, *, name="yacht", **changes):
    changed = {"fetch": fetch, **changes}
    monkeypatch.setitem(datasets.SOURCES, name, datasets.dataclasses.replace(datasets.SOURCES[name], **changed))


def rows(num=308, dim=6):
    X = np.arange(num * dim, dtype=float).reshape(num, dim) / num
    return X, X[:, 0] + 1


def test_fetches_checks_and_keeps(empty, monkeypatch):
    calls = []

    def fetch(folder):
        calls.append(folder)
        return rows()

    source(monkeypatch, fetch, checksum=datasets.checksum(*rows(), ordered=True))
    assert not datasets.available("yacht")
    for _ in range(2):
        data = datasets.load("yacht")
        np.testing.assert_array_equal(data.X, rows()[0])
        np.testing.assert_array_equal(data.y, rows()[1])
    assert calls == [empty / "downloads"]  # the second time it came from the cache
    assert datasets.available("yacht")


@pytest.mark.parametrize("wrong", [(rows()[0][::-1], rows()[1]), (rows()[0][:-1], rows()[1][:-1])])
def test_refuses_other_values(empty, monkeypatch, wrong):
    source(monkeypatch, lambda folder: wrong, checksum=datasets.checksum(*rows(), ordered=True))
    with pytest.raises(ValueError, match="not the set that it should be"):
        datasets.load("yacht")
    assert not datasets.available("yacht")


def test_offline_error_says_where_to_get_it(empty, monkeypatch):
    def fetch(folder):
        raise ConnectionError("no route to host")

    source(monkeypatch, fetch)
    said = r"Download it from https://.*regression/yacht\.npz.*STEINFLOW_DATA.*no route"
    with pytest.raises(FileNotFoundError, match=said):
        datasets.load("yacht")


def test_client_missing(empty, monkeypatch):
    def fetch(folder):
        raise ImportError("pooch")

    source(monkeypatch, fetch)
    with pytest.raises(ImportError, match=r"steinflow\[datasets\]"):
        datasets.load("yacht")


def test_local_folder_comes_first(empty, tmp_path, monkeypatch):
    (tmp_path / "regression").mkdir()
    X, y = rows()
    np.savez(tmp_path / "regression" / "yacht.npz", X=X, y=y)
    monkeypatch.setenv("STEINFLOW_DATA", str(tmp_path))
    np.testing.assert_array_equal(datasets.load("yacht").y, y)
    np.savez(tmp_path / "regression" / "yacht.npz", X=X[:5], y=y[:5])
    with pytest.raises(ValueError, match="308 rows of 6 features"):
        datasets.load("yacht")


def test_unknown_name():
    with pytest.raises(ValueError, match="no data set 'bosten'; there are boston"):
        datasets.load("bosten")


def test_checksum_sees_order_columns_and_values():
    X, y = rows()
    base = datasets.checksum(X, y, ordered=True)
    assert datasets.checksum(X.astype(np.float32), y, ordered=True) == pytest.approx(base, rel=1e-5)
    for other in (X[::-1], X[:, ::-1], X + 0.01):
        assert datasets.checksum(other, y, ordered=True) != pytest.approx(base, rel=1e-5)
    assert datasets.checksum(X[::-1], y[::-1], ordered=False) == pytest.approx(datasets.checksum(X, y, ordered=False))


def test_standard_splits():
    X, y = rows()
    data = datasets.Dataset("yacht", X, y, 277)
    random = np.random.RandomState(1)
    for k in range(3):
        order = random.permutation(308)
        (X_train, y_train), (X_test, y_test) = data.split(k)
        np.testing.assert_array_equal(X_train, X[order[:277]])
        np.testing.assert_array_equal(y_test, y[order[277:]])
        assert len(y_train) == 277
        assert len(X_test) == 31
    with pytest.raises(ValueError, match="count from 0"):
        data.split(-1)


def test_random_splits_differ_and_repeat():
    X, y = rows(768, 8)
    data = datasets.Dataset("diabetis", X, y, 468)
    (first, _), (rest, _) = data.split(0)
    assert len(first) == 468
    assert len(rest) == 300
    assert sorted(np.concatenate([first, rest])[:, 0]) == sorted(X[:, 0])
    np.testing.assert_array_equal(first, data.split(0)[0][0])
    assert not np.array_equal(first, data.split(1)[0][0])


@pytest.mark.parametrize("name", [n for n in datasets.NAMES if n not in ("year", "covertype")])
def test_real_data(real, name):
    data = datasets.load(name)
    source = datasets.SOURCES[name]
    assert data.X.shape == source.shape
    assert np.all(np.isfinite(data.X))
    if source.kind == "classification":
        assert set(np.unique(data.y)) == {-1, 1}
    if source.checksum is not None:
        ordered = source.kind == "regression"
        assert datasets.checksum(data.X, data.y, ordered=ordered) == pytest.approx(source.checksum, rel=1e-5)


def test_covertype(real):
    data = datasets.load("covertype")
    assert data.X.shape == (581_012, 54)
    assert np.sum(data.y == -1) == 283_301
    assert data.num_train == 464_810
