"""What to do about a column that cannot be used, in words of Python; the command line has its own."""

import abc
from collections.abc import Sequence

from steinflow.models.columns import in_formula, shown


class Remedies(abc.ABC):
    """Ends of sentences about what is wrong with a column."""

    @abc.abstractmethod
    def leave_out(self, names: Sequence[str]) -> str:
        """Return how to fit without these columns."""

    @abc.abstractmethod
    def read_with(self, **options: str) -> str:
        """Return how to read the file with `decimal` or `thousands`."""

    @abc.abstractmethod
    def as_missing(self, marker: str) -> str:
        """Return how to say that a text means a missing value."""

    @abc.abstractmethod
    def as_group(self, name: str) -> str:
        """Return a formula with a column as a group."""


class InPython(Remedies):
    """For those who call an estimator; the options are those of `pandas.read_csv`."""

    def leave_out(self, names):
        """Return how to fit without these columns."""
        return f"leave {'it' if len(names) == 1 else 'them'} out"

    def read_with(self, **options):
        """Return how to read the file with `decimal` or `thousands`."""
        return f"read the file with {', '.join(f'{name}={value!r}' for name, value in options.items())}"

    def as_missing(self, marker):
        """Return how to say that a text means a missing value."""
        return f"read the file with na_values={shown(marker)!r}"

    def as_group(self, name):
        """Return a formula with a column as a group."""
        return f'sf.formula("y ~ x + (1 | {in_formula(name)})", table)'
