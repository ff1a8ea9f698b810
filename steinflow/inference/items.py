"""What `fit_many` is given: items with a leading axis, names and particles, checked."""

from collections.abc import Sequence

import equinox as eqx
import jax
import numpy as np

from steinflow.devices.arrays import as_array
from steinflow.inference.defaults import default_num_particles
from steinflow.targets.base import Target
from steinflow.typing import Params, PRNGKeyArray, PyTree


def stacked(items: PyTree) -> tuple[PyTree, int]:
    """Return the items with a leading axis, and how many there are."""
    if isinstance(items, list):
        items = _of_list(items)
    try:
        items = jax.tree.map(lambda leaf: np.asarray(as_array(leaf)), items)  # in the precision of the device
    except TypeError as error:
        raise TypeError("items must be arrays of numbers, in any pytree; encode text as numbers first.") from error
    lengths = {leaf.shape[0] if leaf.ndim else 0 for leaf in jax.tree.leaves(items)}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            "items needs a leading axis of posteriors, not empty and of the same length in every array; "
            f"got shapes {[leaf.shape for leaf in jax.tree.leaves(items)][:10]}."
        )
    for path, leaf in jax.tree_util.tree_leaves_with_path(items):
        if leaf.size == 0:
            name = jax.tree_util.keystr(path) or "items"
            raise ValueError(f"{name} has shape {leaf.shape}: there are no rows to fit in any of the data sets.")
    return items, int(lengths.pop())


def _of_list(items: list) -> PyTree:
    structures = [jax.tree.structure(item) for item in items]
    shapes = [[np.shape(leaf) for leaf in jax.tree.leaves(item)] for item in items]
    for k, (structure, shape) in enumerate(zip(structures, shapes, strict=True)):
        if structure != structures[0] or shape != shapes[0]:
            raise ValueError(
                f"All items need the same structure and shapes; item 0 has {shapes[0]}, item {k} has {shape}. For data "
                "sets of different lengths, items, weights = sf.data.padded(items), and give the rows their weights in "
                "the log likelihood."
            )
    return jax.tree.map(lambda *leaves: np.stack(leaves), *items)


def checked_names(names: Sequence[str] | None, number: int) -> tuple[str, ...]:
    """Return a name for every posterior, its number where none are given."""
    names = tuple(map(str, range(number) if names is None else names))
    if len(names) != number or len(set(names)) != number:
        raise ValueError(f"names must contain {number} different names, one for each posterior; got {len(set(names))}.")
    return names


def checked_particles(particles: Params, number: int) -> Params:
    """Return starting particles with an axis of posteriors and one of particles."""
    particles = jax.tree.map(lambda leaf: np.asarray(as_array(leaf)), particles)
    shapes = [leaf.shape for leaf in jax.tree.leaves(particles)]
    if any(len(shape) < 2 or shape[0] != number for shape in shapes):
        raise ValueError(
            f"particles need two leading axes, of {number} posteriors and of particles; got shapes {shapes[:10]}. To "
            "start all from the same particles, np.broadcast_to(x, (number, *x.shape))."
        )
    return particles


def same_start(target: Target, num_particles: int | None, number: int, *, key: PRNGKeyArray) -> Params:
    """Return particles from the prior of a target, the same for every posterior."""
    keys = jax.random.split(key, num_particles or default_num_particles(target))
    drawn = _drawn(target, keys)
    return jax.tree.map(lambda leaf: np.broadcast_to(leaf, (number, *leaf.shape)), drawn)


@eqx.filter_jit
def _drawn(target, keys):
    return jax.vmap(target.sample_prior)(keys)
