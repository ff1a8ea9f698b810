"""A run on disk: a folder with the result (netCDF), what it was about (JSON) and predictions (CSV).

Nothing is executed when it is read, and the folder appears whole or not at all.
"""

import dataclasses
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from steinflow.estimators.features import Number
from steinflow.models.columns import Frame, counted, shown
from steinflow.results.files import appearing, json_text, plain
from steinflow.results.result import Result, load
from steinflow.tables.checks import worst
from steinflow.tables.formula_problems import FormulaFit, FormulaProblem
from steinflow.tables.parameters import Parameters
from steinflow.tables.problems import Estimator, Problem
from steinflow.tables.tables import csv_text, read_cells

_FORMAT, GROUPS_FORMAT = 3, "groups"
_LIGHTS = {"good": "green", "doubtful": "yellow", "bad": "red"}
_PLAIN = (
    "settings",
    "data",
    "evaluation",
    "checks",
    "predictive",
    "notes",
    "command",
    "versions",
    "created",
)  # JSON holds them as they are
RESULT, DETAILS, _START, _HELD_OUT, _FITTED = "result.nc", "run.json", "start.npy", "held_out.csv", "fitted.npz"


class RunError(ValueError):
    """What is wrong with the folder of a run, in a sentence that says what to do."""


@dataclasses.dataclass(frozen=True)
class Run:
    """All there is to know about a fit to a table.

    Attributes:
        problem: what was predicted from what, by which model.
        estimator: the fitted model.
        start: the parameters that the history follows, before the first step.
        settings: method, particles, steps, seed and the like, plain values.
        data: the file, its rows and its checksum.
        evaluation: metrics and calibration on held-out rows; None if none were held out.
        held_out: predictions for some of these rows, beside the truth.
        fitted: arrays that leave-one-out needs: the `row` numbers in the file, the `states` that particles went
            through, and for an estimator `X` and `y`, all where they are not too many.
        checks: of the model, whether it fits, as plain values: name, level, text, and what to try.
        predictive: fitted rows beside rows drawn anew, for a plot; None where there is none.
        notes: what the user should know about the data and the fit.
        command: to repeat the run.
        versions: of the packages.
        created: when, in UTC.
    """

    problem: Problem | FormulaProblem
    estimator: Estimator | FormulaFit
    start: np.ndarray
    settings: dict[str, Any]
    data: dict[str, Any]
    evaluation: dict[str, Any] | None
    held_out: Frame | None
    fitted: dict[str, np.ndarray]
    checks: list[dict[str, Any]]
    predictive: dict[str, Any] | None
    notes: list[str]
    command: str
    versions: dict[str, str]
    created: str

    @property
    def result(self) -> Result:
        """The posterior."""
        return self.estimator.result_

    @property
    def light(self) -> str:
        """The verdict on the inference as a traffic light: green, yellow or red."""
        return _LIGHTS[self.result.verdict.level]

    @property
    def model_light(self) -> str | None:
        """The worst check of the model as a traffic light; None where nothing could be checked."""
        level = worst(self.checks)
        return None if level is None else _LIGHTS[level]

    @property
    def size(self) -> str:
        """How many points represent the posterior, in words."""
        method, count = self.settings["method"], len(self.result)
        if method == "ensemble":
            return f"{counted(count, 'network')} of {counted(self.settings['num_particles'], 'member')}"
        return counted(count, "draw" if method == "nuts" else "particle")

    @property
    def regression(self) -> tuple[Problem, Estimator]:
        """Problem and estimator of a run that is not by formula."""
        assert isinstance(self.problem, Problem)
        assert not isinstance(self.estimator, FormulaFit)
        return self.problem, self.estimator

    @property
    def limits(self) -> dict[str, tuple[float, float]]:
        """The smallest and the largest value of the fitted rows, by column, of columns that are used as numbers."""
        if isinstance(self.estimator, FormulaFit):
            frame = self.estimator.target.about.frame
            names = [name for name in self.estimator.needed if self.estimator.is_amount(name)]
            return {name: (float(frame[name].min()), float(frame[name].max())) for name in names}
        columns = (column for column in self.regression[0].features.columns if isinstance(column, Number))
        return {column.name: column.limits for column in columns if column.limits is not None}

    def parameters(self) -> Parameters:
        """Return the named parameters in the units of the target."""
        if isinstance(self.estimator, FormulaFit):
            return self.estimator.parameters()
        return Parameters.of(*self.regression)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the folder; it appears when all is written.

        Args:
            folder: where; its parent folders are made.
            overwrite: replace an earlier run of this name. Nothing but a run is ever replaced.

        Returns:
            The folder.

        Raises:
            RunError: if the folder is taken.
            OSError: if it cannot be written; what was there before is as it was.
        """
        folder = Path(folder)
        check_free(folder, overwrite=overwrite)
        with appearing(folder) as unfinished:
            self.result.save(unfinished / RESULT)
            np.save(unfinished / _START, self.start, allow_pickle=False)
            np.savez(unfinished / _FITTED, allow_pickle=False, **self.fitted)
            if self.held_out is not None:
                (unfinished / _HELD_OUT).write_text(csv_text(self.held_out), "utf-8")
            details = {name: getattr(self, name) for name in _PLAIN}
            details |= {"problem": self.problem.to_json(), "learned": self.estimator.learned()}
            details["files"] = {path.name: checksum(path) for path in sorted(unfinished.iterdir())}
            details["checksum"] = _checksum_of(details)
            (unfinished / DETAILS).write_text(json_text({"format": _FORMAT, **details}), "utf-8")
        return folder


def load_run(folder: str | Path) -> Run:
    """Read what `Run.save` wrote; the estimator predicts without a new fit.

    Raises:
        RunError: if the folder is no run, or was changed since it was written.
    """
    folder = Path(folder)
    check_is_run(folder)
    try:
        details = json.loads((folder / DETAILS).read_text("utf-8"))
        found = details.pop("format")
        if found == GROUPS_FORMAT:
            raise RunError(
                f"{shown(folder)} holds one model per group: the numbers are in groups.csv, and in Python "
                f"sf.Many.load('{shown(folder)}/{RESULT}') reads its posteriors."
            )
        if found != _FORMAT:
            raise RunError(
                f"{shown(folder)} was written by another version of steinflow (format {shown(found)}, this one reads "
                f"{_FORMAT}); fit again."
            )
        _check_unchanged(folder, details)
        kind = FormulaProblem if "formulas" in details["problem"] else Problem
        problem, result = kind.from_json(details["problem"]), load(folder / RESULT)
        return Run(
            problem=problem,
            estimator=problem.estimator().restore(result, details["learned"]),
            start=np.load(folder / _START, allow_pickle=False),
            held_out=read_cells(folder / _HELD_OUT) if (folder / _HELD_OUT).exists() else None,
            fitted=_arrays(folder / _FITTED),
            **{name: details[name] for name in _PLAIN},
        )
    except RunError:
        raise
    except (KeyError, TypeError, AttributeError, OSError, ValueError) as error:
        what = f"{type(error).__name__}: {shown(error, 100)}"
        raise RunError(f"The run in {shown(folder)} is damaged ({what}); fit again.") from error


def _arrays(path):
    with np.load(path, allow_pickle=False) as arrays:
        return dict(arrays)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_is_run(folder: Path) -> None:
    """Refuse what is not the folder of a run."""
    if not folder.exists():
        raise RunError(f"There is no run in {shown(folder, 200)}; `steinflow fit` creates a run and prints its folder.")
    if not (folder / DETAILS).is_file() or not (folder / RESULT).is_file():
        raise RunError(
            f"{shown(folder, 200)} is not a run of steinflow: a run is a folder with {DETAILS} and {RESULT} in it."
        )


def check_free(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that is taken."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not overwrite:
        raise RunError(
            f"{shown(folder, 200)} already exists; choose another folder with --output, or add --overwrite to replace "
            "an earlier run."
        )
    try:
        check_is_run(folder)
    except RunError as error:
        raise RunError(f"{error} It was not replaced; choose another folder with --output.") from error


def check_new(path: Path | None, *, overwrite: bool) -> None:
    """Refuse a file that somebody named, and that exists already."""
    if path is not None and path.is_file() and not overwrite:
        raise RunError(
            f"{shown(path, 200)} already exists; choose another file name, or add --overwrite to replace it."
        )


def free_file(stem: str, suffix: str) -> Path:
    """Return stem.suffix, or stem-2.suffix and so on where that is taken."""
    candidates = (Path(f"{stem}{'' if k == 1 else f'-{k}'}{suffix}") for k in range(1, 100_000))
    return next(path for path in candidates if not path.exists())


def free_folder(name: str) -> Path:
    """Return runs/name, or runs/name-2 and so on where that is taken."""
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "run"
    candidates = (Path("runs") / (safe if k == 1 else f"{safe}-{k}") for k in range(1, 100_000))
    return next(folder for folder in candidates if not folder.exists())


def check_writable(folder: Path) -> None:
    """Refuse a folder that could not be written; before the work, not after it."""
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    try:
        tempfile.TemporaryDirectory(dir=parent).cleanup()
    except OSError as error:
        raise RunError(
            f"The run cannot be written to {shown(folder, 200)}: {error.strerror} ({shown(parent, 200)}); choose "
            "another folder with --output."
        ) from error


def _check_unchanged(folder, details) -> None:
    """Refuse files that were changed by hand: what they say may no longer fit together."""
    changed = [] if details.pop("checksum") == _checksum_of(details) else [DETAILS]
    changed += [name for name, known in details["files"].items() if checksum(folder / Path(name).name) != known]
    if changed:
        raise RunError(
            f"The run in {shown(folder)} is damaged: {shown(', '.join(changed))} was changed after the fit; put it "
            "back, or fit again."
        )


def _checksum_of(details) -> str:
    text = json.dumps(plain(details), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
