"""A table and a column of groups: a model for each of them, with one table of all parameters and one figure."""

import contextlib
import dataclasses
import datetime
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steinflow.estimators.features import Missing
from steinflow.inference.groups import fit_groups
from steinflow.models.columns import Frame, TableError, check_column, counted, listed, shown
from steinflow.results.files import appearing, json_text
from steinflow.results.many import Many, ManySummary
from steinflow.results.result import versions
from steinflow.tables.fitting import prepare
from steinflow.tables.formula_problems import FormulaProblem
from steinflow.tables.parameters import Parameters
from steinflow.tables.responses import ModelName
from steinflow.tables.runs import DETAILS, GROUPS_FORMAT, RESULT, check_free
from steinflow.tables.tables import csv_text
from steinflow.targets.padding import rows_by_group

_QUANTILES = {"5%": 0.05, "50%": 0.5, "95%": 0.95}


@dataclasses.dataclass(frozen=True)
class GroupRun:
    """A model for every group of a table.

    Attributes:
        many: the posteriors, by the names of the groups.
        summary: the parameters of each, in the units of the table.
        title: the model in words.
        left_out: groups without enough rows.
        notes: what the user should know about the data and the fits.
    """

    many: Many
    summary: ManySummary
    title: str
    left_out: list[str]
    notes: list[str]

    def to_json(self) -> dict[str, Any]:
        """Return the groups as plain values."""
        found = {}
        for k, name in enumerate(self.summary.names):
            rows = (values[k] for values in self.summary.columns.values())
            columns = dict(zip(self.summary.columns, rows, strict=True))
            found[name] = {
                "rows": self.many[k].info["num_rows"],
                "verdict": str(self.summary.levels[k]),
                "reasons": self.many[k].verdict.reasons,
                "outcome": self.many[k].outcome.value,
                "parameters": {
                    parameter: {column: float(values[p]) for column, values in columns.items()}
                    for p, parameter in enumerate(self.summary.parameters)
                },
            }
        return found

    def save(self, folder: Path, details: dict[str, Any], *, overwrite: bool = False) -> list[str]:
        """Write the folder, which appears when all is written: table, figure and posteriors.

        Args:
            folder: where.
            details: what else there is to keep, plain values.
            overwrite: replace an earlier run of this name.

        Returns:
            The names of its files; without matplotlib there is no figure.
        """
        check_free(folder, overwrite=overwrite)
        frame = self.summary.to_dataframe().rename(columns={"posterior": "group"})
        with appearing(folder) as unfinished:
            self.many.save(unfinished / RESULT)
            (unfinished / "groups.csv").write_text(csv_text(frame), "utf-8")
            with contextlib.suppress(ImportError):
                from steinflow.results.many_plots import posteriors

                posteriors(self.summary).savefig(unfinished / "groups.png")
            known = {
                "left_out": self.left_out,
                "notes": self.notes,
                "versions": versions("pandas", "scikit-learn", "formulae"),
                "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            }
            (unfinished / DETAILS).write_text(json_text({"format": GROUPS_FORMAT, **details, **known}), "utf-8")
            return sorted(path.name for path in unfinished.iterdir())


def fit_each_group(
    frame: Frame,
    by: Sequence[str],
    problem: FormulaProblem | str,
    *,
    where: str = "the table",
    model: ModelName | None = None,
    missing: Missing = "error",
    drop: Sequence[str] = (),
    categorical: Sequence[str] = (),
    min_rows: int = 1,
    num_particles: int | None = None,
    num_steps: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> GroupRun:
    """Fit a model to every group of a table.

    Args:
        frame: the table.
        by: the columns that say the group.
        problem: a formula, or the column to predict from all others.
        where, model, missing, drop, categorical: as for `prepare`, where a column is predicted.
        min_rows: groups with fewer are left out.
        num_particles, num_steps, seed, progress: as for `run_fit`.

    Raises:
        TableError: if the table, or one of its columns, cannot be used.
        FormulaError: if the formula, the table and the family do not go together.
    """
    for name in by:
        check_column(frame, name, where)
    grouped = frame[list(by)].notna().all(axis=1).to_numpy()
    if not grouped.any():
        raise TableError(f"No row of {shown(where)} has a value in {listed(by)}; name other columns.")
    notes = [] if grouped.all() else [f"Left out {counted(int((~grouped).sum()), 'row')} without a group."]
    frame = frame[grouped].reset_index(drop=True)
    settings: Any = {"num_particles": num_particles, "num_steps": num_steps, "min_rows": min_rows, "progress": progress}
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # said in the notes
        if isinstance(problem, FormulaProblem):
            target = problem.target(frame)
            many = fit_groups(target, frame[list(by)], key=seed, **settings)
            summary, title, said = many.summary(), problem.title, list(target.notes)
        else:
            prepared = prepare(
                frame.drop(columns=[name for name in by if name != problem]),
                problem,
                where=where,
                model=model,
                missing=missing,
                drop=drop,
                categorical=categorical,
                test_fraction=0.0,
            )
            labels = frame[list(by)].loc[prepared.columns.index]
            plain = prepared.problem.estimator().set_params(
                num_particles=num_particles, num_steps=num_steps, random_state=seed
            )
            fitted = plain.fit_groups(prepared.X, prepared.y, labels, min_rows=min_rows, progress=progress)
            many = Many(tuple(each.result_ for each in fitted.values()), tuple(fitted))
            parameters = [Parameters.of(prepared.problem, each) for each in fitted.values()]
            summary, title, said = _summary(many, parameters), prepared.problem.title, prepared.notes
    left_out = [name for name in rows_by_group(frame[list(by)]) if name not in many.names]
    if left_out:
        few = "no complete rows" if min_rows == 1 else f"fewer than {min_rows} complete rows"
        notes.append(f"Left out {counted(len(left_out), 'group')} with {few}: {listed(left_out)}.")
    rows, most = np.asarray(summary.num_rows), len(summary.parameters)
    if np.any(rows < most):
        short = [name for name, number in zip(many.names, rows, strict=True) if number < most]
        notes.append(
            f"{counted(len(short), 'group')} with fewer rows than the {most} parameters, whose posteriors are mostly "
            f"the prior: {listed(short)}."
        )
    return GroupRun(many, summary, title, left_out, [*said, *notes])


def _summary(many: Many, parameters: list[Parameters]) -> ManySummary:
    """Return the named parameters of estimators in the units of the table, as a summary."""
    quantiles = np.stack([each.quantiles(tuple(_QUANTILES.values())) for each in parameters], axis=1)
    columns = {
        "mean": np.stack([each.mean for each in parameters]),
        "sd": np.stack([each.sd for each in parameters]),
        **dict(zip(_QUANTILES, quantiles, strict=True)),
    }
    plain = many.summary()
    return dataclasses.replace(plain, parameters=parameters[0].names, columns=columns)
