"""Stein variational gradient descent, of visible parts: kernel, metric, step rule, exploration."""
