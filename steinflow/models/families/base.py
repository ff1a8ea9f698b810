"""What y may be: a family is the distribution of y given its parameters.

How the parameters arise is up to the model: from linear predictors in formulas, from the outputs of a network (`heads`)
elsewhere. They come in their forms (`links`): a positive one as its logarithm, a probability as its log-odds.

Families compute with arrays of JAX and of NumPy alike (`functions`), with any axes in front of that of the rows where
there are no classes.
"""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from steinflow.models.families import links
from steinflow.models.families.functions import functions_of
from steinflow.models.families.links import Form
from steinflow.targets.forecasts import calibration_of_positions

Values = Any  # an array of JAX or of NumPy
Forms = Mapping[str, Values]
Rows = Mapping[str, Values]


class Family(eqx.Module):
    """The distribution of y given its parameters: `mu`, and auxiliary ones such as `sigma`.

    To add one: say the form and the links of mu and the forms of the auxiliary parameters, and write its log density,
    its mean and variance, and how it is drawn. Rows are a dictionary with `y`, and `trials` where there are some.
    """

    name: ClassVar[str]
    form: ClassVar[Form] = "identity"
    links: ClassVar[tuple[str, ...]] = ("identity",)
    auxiliary: ClassVar[Mapping[str, Form]] = {}
    real_valued: ClassVar[bool] = False  # y may be shifted and scaled, and mu and sigma with it
    counted: ClassVar[bool] = False  # y is a whole number
    of_classes: ClassVar[bool] = False  # or of how often one of two classes occurs
    ordered: ClassVar[bool] = False  # classes in between thresholds, which take the place of an intercept
    censored: ClassVar[bool] = False  # knows the probability to exceed a value
    num_classes: ClassVar[int | None] = None  # where y is the number of one, and the mean the probability of each

    @property
    def num_outputs(self) -> int:
        """How many numbers mu has for a row; with one, mu has no axis for them."""
        return 1

    def check(self, y: np.ndarray, name: str = "y") -> np.ndarray:
        """Return finite values of y as the density wants them.

        Raises:
            ValueError: if the family does not take such values of what has this name.
        """
        return y

    @abc.abstractmethod
    def log_density(self, forms: Forms, rows: Rows) -> Values:
        """Return the log density of every row."""

    @abc.abstractmethod
    def mean(self, forms: Forms, rows: Rows) -> Values:
        """Return the mean of every row, or the probabilities of its classes."""

    @abc.abstractmethod
    def variance(self, forms: Forms, rows: Rows) -> Values:
        """Return the variance of every row, or of the indicator of each class."""

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, forms: Forms, rows: Rows) -> np.ndarray:
        """Draw every row; forms may have leading axes, such as one of particles.

        By NumPy: JAX takes many seconds to compile a gamma or a Poisson draw.
        """

    def cdf(self, forms: Forms, rows: Rows) -> Values | None:
        """Return the probability of a value not above that of the row; None where it is not known."""
        return None

    def log_survival(self, forms: Forms, rows: Rows) -> Values:
        """Return the log probability of a value beyond that of the row.

        Raises:
            NotImplementedError: if the family is not `censored`.
        """
        raise NotImplementedError

    def position(self, forms: Forms, rows: Rows) -> Values | None:
        """Return where y lies in its distribution, from 0 to 1; of a count, halfway up the jump."""
        below = self.cdf(forms, rows)
        if below is None or not self.counted:
            return below
        return below - 0.5 * functions_of(forms, rows).exp(self.log_density(forms, rows))

    def forecasts(self, forms: Forms, rows: Rows) -> Values | None:
        """Return the positions of all rows as one column; of classes, their probabilities.

        None, where nothing is known, leaves calibration out of verdicts.
        """
        found = self.position(forms, rows)
        return None if found is None else found[:, None]

    def calibration(self, forecasts: np.ndarray, y: np.ndarray) -> dict[str, float]:
        """Return how well means of forecasts were kept by y."""
        return calibration_of_positions(forecasts[:, 0])

    def numbers(self, y: Values) -> Values:
        """Return y as the numbers whose means `mean` returns: of classes, their indicators."""
        return y

    def metrics(self, mean: Values, y: Values) -> dict[str, Values]:
        """Return how good the predicted means are for y."""
        m = functions_of(mean, y)
        return {"rmse": m.sqrt(m.mean((mean - y) ** 2))}

    def scale_of(self, y: np.ndarray) -> float:
        """Return the sd of y where mu is on its scale, otherwise 1; priors are in this unit."""
        return 1.0

    def center_of(self, y: np.ndarray, rows: Mapping[str, Any]) -> float:
        """Return the mean of y, inside of what the link allows."""
        return float(np.mean(y))

    def usual_predictor(self, link: str, y: np.ndarray, rows: Mapping[str, Any]) -> np.ndarray | float:
        """Return the predictor of mu at which the mean is that of y: where an intercept is to be expected."""
        return links.forward(link, self.center_of(y, rows))


def values_of(y: np.ndarray) -> str:
    """Return the different values of y for an error message."""
    found = np.unique(y)
    if len(found) <= 8:
        return ", ".join(f"{value:g}" if isinstance(value, float | int | np.number) else str(value) for value in found)
    some = ", ".join(f"{value:g}" for value in found[:8]) if found.dtype.kind in "biuf" else f"{found[0]}"
    return f"{some}, ... ({len(found):,} values)"
