"""Targets from other libraries: NumPyro and PyMC models, neural-network modules, scores computed outside JAX."""
