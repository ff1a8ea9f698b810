"""Functions compiled in one piece: called as they are, each of their operations is a program that takes 20 ms."""

import equinox as eqx

import steinflow as sf
from steinflow.stein import discrepancy

stein_direction = eqx.filter_jit(sf.stein_direction)
ksd_squared = eqx.filter_jit(discrepancy.ksd_squared)
