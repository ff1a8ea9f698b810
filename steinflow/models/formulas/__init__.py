"""Regressions that are written as formulas: `sf.formula("y ~ x + (1 | g)", table)`."""

from steinflow.models.formulas.build import formula
from steinflow.models.formulas.priors import Priors
from steinflow.models.formulas.syntax import FormulaError
from steinflow.models.formulas.target import FormulaTarget

__all__ = ["FormulaError", "FormulaTarget", "Priors", "formula"]
