"""What cross-validation found: how well a model predicts rows that it has not seen."""

import dataclasses

import numpy as np

from steinflow.results.many import Many
from steinflow.results.summary import number


@dataclasses.dataclass(frozen=True, eq=False)
class CrossValidation:
    """Log densities of rows under posteriors that have not seen them.

    Attributes:
        log_densities: of every row.
        parts: the part that each row belongs to; the rows of a part were left out together.
        posteriors: one for each part, fitted without it.
    """

    log_densities: np.ndarray
    parts: np.ndarray
    posteriors: Many

    @property
    def elpd(self) -> float:
        """The sum over all rows: the expected log predictive density. Larger is better."""
        return float(np.sum(self.log_densities))

    @property
    def error(self) -> float:
        """Its standard error, as if rows were independent."""
        return float(np.std(self.log_densities) * len(self.log_densities) ** 0.5)

    def minus(self, other: "CrossValidation") -> tuple[float, float]:
        """Return by how much this model predicts better than another, with the standard error, comparing row by row.

        Raises:
            ValueError: if the other model was cross-validated on different rows.
        """
        if len(self.log_densities) != len(other.log_densities):
            raise ValueError(
                f"These are cross-validations of {len(self.log_densities)} and {len(other.log_densities)} rows. "
                "Only cross-validations of the same rows can be compared."
            )
        difference = self.log_densities - other.log_densities
        return float(np.sum(difference)), float(np.std(difference) * len(difference) ** 0.5)

    def __str__(self):
        parts = np.unique(self.parts)
        by_part = ", ".join(
            f"{self.posteriors.names[k]}: {number(np.mean(self.log_densities[self.parts == k]), 3)}" for k in parts[:10]
        )
        more = ", ..." if len(parts) > 10 else ""
        return (
            f"elpd {self.elpd:.1f} ± {self.error:.1f} ({len(self.log_densities)} rows in {len(parts)} parts)\n"
            f"mean log density of a row, by part: {by_part}{more}\nposteriors: {self.posteriors!r}"
        )

    __repr__ = __str__
