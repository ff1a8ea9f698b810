"""A run on disk: a folder with the result (netCDF), what it was about (JSON) and predictions (CSV).

Nothing is executed when it is read, and the folder appears whole or not at all.
"""

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from steinflow.results.result import Result, load
from steinflow.tables.parameters import Parameters
from steinflow.tables.problems import Problem
from steinflow.tables.tables import Frame, shown

_FORMAT = 1
_LIGHTS = {"good": "green", "doubtful": "yellow", "bad": "red"}
_RESULT, _START, _DETAILS, _HELD_OUT = "result.nc", "start.npy", "run.json", "held_out.csv"


class RunError(ValueError):
    """What is wrong with the folder of a run, in a sentence that says what to do."""


@dataclasses.dataclass(frozen=True)
class Run:
    """All there is to know about a fit to a table.

    Attributes:
        problem: what was predicted from what, by which model.
        result: the posterior.
        start: the parameters that the history follows, before the first step.
        settings: method, particles, steps, seed and the like, plain values.
        data: the file, its rows and its checksum.
        evaluation: figures and calibration on held-out rows; None if none were held out.
        held_out: predictions for some of these rows, beside the truth.
        notes: what the user should know about the data.
        command: to repeat the run.
        versions: of the packages.
        created: when, in UTC.
    """

    problem: Problem
    result: Result
    start: np.ndarray
    settings: dict[str, Any]
    data: dict[str, Any]
    evaluation: dict[str, Any] | None
    held_out: Frame | None
    notes: list[str]
    command: str
    versions: dict[str, str]
    created: str

    @property
    def light(self) -> str:
        """The verdict as a traffic light: green, yellow or red."""
        return _LIGHTS[self.result.verdict.level]

    def parameters(self) -> Parameters:
        """Return the named parameters in the units of the target."""
        values = self.problem.in_units(np.asarray(self.problem.parameters(self.result.particles)))
        weights = self.result.weights
        weights = np.full(len(values), 1 / len(values)) if weights is None else np.asarray(weights, float)
        problem = self.problem
        return Parameters(problem.parameter_names(), values, weights, problem.num_coefficients)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write the folder; it appears when all is written.

        Args:
            folder: where; its parent folders are made.
            overwrite: replace an earlier run of this name. Nothing but a run is ever replaced.
        """
        folder = Path(folder)
        check_free(folder, overwrite=overwrite)
        with _appearing(folder) as unfinished:
            self.result.save(unfinished / _RESULT)
            np.save(unfinished / _START, self.start, allow_pickle=False)
            if self.held_out is not None:
                self.held_out.to_csv(unfinished / _HELD_OUT, index=False)
            details = {
                "format": _FORMAT,
                "created": self.created,
                "command": self.command,
                "versions": self.versions,
                "data": self.data,
                "settings": self.settings,
                "problem": self.problem.to_json(),
                "evaluation": self.evaluation,
                "notes": self.notes,
            }
            (unfinished / _DETAILS).write_text(json.dumps(details, indent=2, ensure_ascii=False) + "\n", "utf-8")
        return folder


def load_run(folder: str | Path) -> Run:
    """Read what `Run.save` wrote."""
    folder = Path(folder)
    check_is_run(folder)
    try:
        details = json.loads((folder / _DETAILS).read_text("utf-8"))
        if details["format"] != _FORMAT:
            raise RunError(
                f"{shown(folder)} was written by another version of steinflow (format {shown(details['format'])}, "
                f"this one reads {_FORMAT}); fit again."
            )
        return Run(
            problem=Problem.from_json(details["problem"]),
            result=load(folder / _RESULT),
            start=np.load(folder / _START, allow_pickle=False),
            held_out=_held_out(folder / _HELD_OUT),
            **{name: details[name] for name in _plain_fields()},
        )
    except RunError:
        raise
    except (KeyError, TypeError, AttributeError, OSError, ValueError) as error:
        what = f"{type(error).__name__}: {shown(error, 100)}"
        raise RunError(f"The run in {shown(folder)} is damaged ({what}); fit again.") from error


def check_is_run(folder: Path) -> None:
    """Refuse what is not the folder of a run."""
    if not folder.exists():
        raise RunError(f"There is no run {shown(folder, 200)}; `steinflow fit` makes one and prints its folder.")
    if not (folder / _DETAILS).is_file() or not (folder / _RESULT).is_file():
        raise RunError(
            f"{shown(folder, 200)} is not a run of steinflow: a run is a folder with {_DETAILS} and {_RESULT} in it."
        )


def check_free(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that is taken."""
    if not folder.exists() and not folder.is_symlink():
        return
    if not overwrite:
        raise RunError(
            f"{shown(folder, 200)} exists already; choose another folder with --output, or add --overwrite to replace "
            "an earlier run."
        )
    try:
        check_is_run(folder)
    except RunError as error:
        raise RunError(f"{error} It is not replaced; choose another folder with --output.") from error


def free_folder(name: str) -> Path:
    """Return runs/name, or runs/name-2 and so on where that is taken."""
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "run"
    candidates = (Path("runs") / (safe if k == 1 else f"{safe}-{k}") for k in range(1, 100_000))
    return next(folder for folder in candidates if not folder.exists())


def write_whole(path: str | Path, text: str) -> Path:
    """Write a text file that appears whole or not at all."""
    path = Path(path)
    if path.is_dir():
        raise RunError(f"{shown(path)} is a folder; give the name of a file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(unfinished).chmod(0o666 & ~_umask())  # mkstemp gives it to its owner only
        Path(unfinished).replace(path)
    finally:
        Path(unfinished).unlink(missing_ok=True)
    return path


@contextmanager
def _appearing(folder: Path) -> Iterator[Path]:
    """Make a folder beside the final one, which it replaces at the end; an error leaves the final one as it was."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    unfinished.chmod(0o777 & ~_umask())
    old = unfinished.with_name(unfinished.name + ".old")
    try:
        yield unfinished
        if folder.exists():
            folder.rename(old)
        try:
            unfinished.rename(folder)
        except BaseException:
            if old.exists():
                old.rename(folder)
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _held_out(path: Path):
    import pandas

    # Labels stay text as they were: "NA" or "1.0" may be the name of a class.
    return pandas.read_csv(path, keep_default_na=False, dtype=str) if path.exists() else None


def _plain_fields() -> list[str]:
    apart = {"problem", "result", "start", "held_out"}
    return [field.name for field in dataclasses.fields(Run) if field.name not in apart]
