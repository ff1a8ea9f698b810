"""Numbers for the page: few digits, and null for what is not finite."""

import numpy as np


def plain_numbers(values, digits: int = 5) -> list[float | None]:
    """Return plain numbers of few digits; what is not finite is null."""
    return [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in np.asarray(values, float)]
