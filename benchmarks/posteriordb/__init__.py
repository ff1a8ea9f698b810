"""Thirty posteriors of posteriordb, as people write them, against their reference draws."""

from benchmarks.posteriordb.models import Problem, problem, problems

__all__ = ["Problem", "problem", "problems"]
