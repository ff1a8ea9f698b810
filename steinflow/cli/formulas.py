"""The options of `steinflow fit` about formulas."""

import typer

from steinflow.cli.options import refuse
from steinflow.estimators.features import Missing
from steinflow.tables.formula_problems import FormulaProblem
from steinflow.tables.formulas import priors_from


def problem_of(
    formulas: list[str] | None,
    family: str | None,
    link: str | None,
    priors: list[str] | None,
    weights: str | None,
    categorical: list[str] | None,
    missing: Missing | None,
) -> FormulaProblem | None:
    """Return what the options about a formula say; None where there is none."""
    if not formulas:
        given = {"--family": family, "--prior": priors, "--weights": weights, "--link": link}
        refuse(given, 'this option is only for formulas; add --formula "y ~ x".')
        return None
    codes = tuple(categorical or ())
    if missing not in (None, "drop", "level"):
        raise typer.BadParameter(
            f"rows with missing values are left out of the fit of a formula; there is no --missing {missing}. With "
            "--missing level those of text are a level of their own.",
            param_hint="--missing",
        )
    given = priors_from(priors or [])
    return FormulaProblem(tuple(formulas), family or "gaussian", link, given, weights, codes, missing or "drop")


def check_choice(
    target: str | None,
    problem: FormulaProblem | None,
    *,
    model: str | None,
    drop: list[str] | None,
) -> None:
    """Refuse a formula beside what it replaces."""
    if (target is None) == (problem is None):
        raise typer.BadParameter(
            "say what to predict: either --target COLUMN, to use all other columns, or --formula.",
            param_hint="--target",
        )
    if problem is not None and (model or drop):
        raise typer.BadParameter(
            "leave out --model and --drop: the formula chooses the columns, and --family chooses the model.",
            param_hint="--formula",
        )


def problem_name(problem: FormulaProblem | None) -> str:
    """Return the response of a formula."""
    return "" if problem is None else problem.formulas[0].split("~")[0].strip()
