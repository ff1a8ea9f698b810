"""Numbers for the page: few digits, and null for what is not finite."""

import numpy as np

from steinflow.results.summary import number


def plain_numbers(values, digits: int = 5) -> list[float | None]:
    """Return plain numbers of few digits; what is not finite is null."""
    return [float(number(value, digits)) if np.isfinite(value) else None for value in np.asarray(values, float)]
