"""Kernels k(x, y): how far one particle's score reaches. They add and scale: `IMQ() + 0.1 * Linear()`.

A kernel as the user writes it is a recipe: its bandwidth, centre or covariance follow the cloud.
`kernel.adapt(particles)` fixes them, and the adapted kernel is a plain function of two points, held constant when it is
differentiated.
"""

from steinflow.stein.bandwidths import Bandwidth, Fixed, Median, Wide
from steinflow.stein.kernels.base import Function, Kernel, Scaled, Sum, as_kernel, positive_definite
from steinflow.stein.kernels.centered import Centered
from steinflow.stein.kernels.linear import Linear
from steinflow.stein.kernels.radial import IMQ, RBF, Multiquadric, Radial

__all__ = [
    "IMQ",
    "RBF",
    "Bandwidth",
    "Centered",
    "Fixed",
    "Function",
    "Kernel",
    "Linear",
    "Median",
    "Multiquadric",
    "Radial",
    "Scaled",
    "Sum",
    "Wide",
    "as_kernel",
    "positive_definite",
]
