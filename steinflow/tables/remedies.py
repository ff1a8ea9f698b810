"""What to do about a column that cannot be used, as options of the command line."""

import shlex

from steinflow.models.columns import in_formula, shown
from steinflow.models.remedies import Remedies

_MOST = 6  # columns to name


class _Options(Remedies):
    def leave_out(self, names):
        options = " ".join(f"--drop {_quoted(shown(name))}" for name in names[:_MOST])
        more = " ..." if len(names) > _MOST else ""
        return f"leave {'it' if len(names) == 1 else 'them'} out with {options}{more}"

    def read_with(self, **options):
        return f"add {' '.join(f'--{name} {value!r}' for name, value in options.items())}"

    def as_missing(self, marker):
        return f"add --missing-marker {_quoted(shown(marker))}"

    def as_group(self, name):
        return formula_option(f"y ~ x + (1 | {in_formula(name)})")


OPTIONS = _Options()


def formula_option(text: str) -> str:
    """Return the option with a formula; a shell would run what is in backticks between double quotes."""
    return f"--formula {_quoted(text)}" if "`" in text else f'--formula "{text}"'


def _quoted(text: str) -> str:
    """Return a text as a shell reads it: between single quotes, unless it has some itself."""
    return shlex.quote(text) if "'" in text else f"'{text}'"
