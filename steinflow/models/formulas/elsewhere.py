"""What users of brms, lme4, R and statsmodels write, and how it is written here."""

import re
from collections.abc import Collection

from steinflow.models.formulas.syntax import FormulaError

_START = r"(?<![\w.])"
_ELSEWHERE = (
    (rf"{_START}(?:as\.)?(?:factor|ordered)\(\s*([\w.]+)[^)]*\)", r"C(\1)"),
    (rf"{_START}relevel\(\s*([\w.]+)\s*,\s*(?:ref\s*=\s*)?([^)]+)\)", r"C(\1, Treatment(\2))"),
    (rf"{_START}cbind\(\s*([\w.]+)\s*,\s*([\w.]+)\s*\)", r"p(\1, \1 + \2)"),
    (r"([\w.]+)\s*\|\s*trials\(\s*([^)]+)\)", r"p(\1, \2)"),
    (r"([\w.]+)\s*\|\s*cens\(\s*([\w.]+)[^)]*\)", r"censored(\1, \2), or Surv(\1, event)"),
    (r"([\w.]+)\s*\|\s*weights\(\s*([\w.]+)[^)]*\)", r"\1, with weights='\2' or --weights \2"),
    (rf"{_START}(?:s|te|t2|ns)\(\s*([\w.]+)[^)]*\)", r"bs(\1, df=5)"),
    (rf"{_START}mo\(\s*([\w.]+)\s*\)", r"\1 or C(\1)"),
    (rf"{_START}bf\(", "several formulas, ['y ~ x', 'sigma ~ z'], or --formula more than once"),
    (r"\(([^()|]+)\|\s*[\w.]+\s*\|([^()|]+)\)", r"(\1|\2); effects in different brackets are independent"),
    (r"%in%", "':', as in a:b"),
    (r"\bTRUE\b", "True"),
    (r"\bFALSE\b", "False"),
    (
        r"(?<![\w.)\]])\.(?![\w.])",
        "the names of the columns, y ~ a + b + c, or on the command line --target y",
    ),
)


def check_foreign(text: str, functions: Collection[str] = ()) -> None:
    """Refuse what has another name elsewhere, and say how to write it.

    Args:
        text: a formula.
        functions: the names of the user's functions, which may be any.
    """
    plain = re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"", lambda quoted: "_" * len(quoted[0]), text)
    for pattern, here in _ELSEWHERE:
        found = next((f for f in re.finditer(pattern, plain) if f[0].split("(")[0] not in functions), None)
        if found is not None:
            original = re.compile(pattern).match(text, found.start()) or found
            written = original.expand(here)
            raise FormulaError(f"{original[0]!r} in the formula {text!r} is not known here; write {written}.")
