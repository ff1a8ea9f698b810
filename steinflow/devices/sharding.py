"""Particles and data over a mesh of devices, on one host or many: JAX's own SPMD engine.

The state of a run is the same on every device; its work is split. A mesh has two axes:

- `particles`: each device takes the scores of its share of the particles, and its rows of the Stein direction; both are
  then gathered, which moves n x d numbers. Shares are padded where particles do not divide evenly. Of `fit_many`, each
  device takes its share of the runs.
- `data`: each device takes its share of the rows of a batch; the scores are averaged over the devices.

The mesh is JAX's current mesh (`jax.set_mesh`), which `fit(..., mesh=sf.mesh())` sets: the functions here see it while
they are traced, and without one they do nothing. All else, being the same computation on every device, gives the same
numbers.
"""

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from steinflow.devices.arrays import as_array
from steinflow.typing import Array, Batch, Particles, PyTree

PARTICLES, DATA = "particles", "data"
# What the collectives of CPUs and GPUs, and the coordination service, say when a process is gone.
_LOST_CONTACT = ("Gloo", "NCCL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "heartbeat", "Barrier", "Connection")


def mesh(*, particles: int | None = None, data: int = 1) -> Mesh:
    """Return a mesh of all devices of all processes, for `fit(..., mesh=...)`.

    Args:
        particles: over how many devices to split the particles; by default all that `data` leaves.
        data: over how many devices to split the rows of a batch.

    Raises:
        ValueError: if there are fewer devices, or with several processes if some are left over.
    """
    num_devices = jax.device_count()
    particles = max(1, num_devices // data) if particles is None else particles
    if particles < 1 or data < 1 or particles * data > num_devices:
        raise ValueError(
            f"mesh(particles={particles}, data={data}) needs {particles * data} devices; there are {num_devices}. "
            "On a CPU, XLA_FLAGS=--xla_force_host_platform_device_count=8 makes eight; with several processes, call "
            "jax.distributed.initialize() first."
        )
    if particles * data < num_devices and jax.process_count() > 1:
        raise ValueError(
            f"With several processes a mesh takes all devices: particles * data must be {num_devices}; "
            f"got {particles} * {data}."
        )
    return jax.make_mesh(
        (particles, data), (PARTICLES, DATA), (AxisType.Auto,) * 2, devices=jax.devices()[: particles * data]
    )


def use(mesh: Mesh | None) -> contextlib.AbstractContextManager:
    """Return the context in which a run is traced and computed."""
    if mesh is None:
        return contextlib.nullcontext()
    if PARTICLES not in mesh.axis_names:
        raise ValueError(f"A mesh for fit needs an axis named 'particles': use sf.mesh(); got axes {mesh.axis_names}.")
    return jax.set_mesh(Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * mesh.devices.ndim))


def axis_size(name: str) -> int:
    """Return the number of devices along an axis of the current mesh that is still to be split; 1 without a mesh."""
    current = jax.sharding.get_abstract_mesh()
    return current.shape.get(name, 1) if name not in current.manual_axes else 1


def split_particles(function: Callable[[Any, Any], PyTree], shared: Any, rows: PyTree) -> PyTree:
    """Return function(shared, rows), a function of each row, each device for its share of the rows; all get the result.

    Rows are those of all arrays of a pytree. `shared`, another one, holds all the arrays that the function needs beside
    them: it must not close over any.
    """
    num_parts = axis_size(PARTICLES)
    if num_parts == 1:
        return function(shared, rows)
    padded = jax.tree.map(lambda leaf: _padded(leaf, num_parts, "edge"), rows)
    results = _over_mesh(function, shared, (P(PARTICLES),), P(PARTICLES))(padded)
    return _gathered(results, len(jax.tree.leaves(rows)[0]))


def sum_particles(function: Callable[[Any, Array], PyTree], shared: Any, rows: Array) -> PyTree:
    """Return function(shared, rows), a sum over rows, each device for its share of the rows; zeros must add nothing."""
    num_parts = axis_size(PARTICLES)
    if num_parts == 1:
        return function(shared, rows)

    def summed(shared, rows):
        return jax.lax.psum(function(shared, rows), PARTICLES)

    return _over_mesh(summed, shared, (P(PARTICLES),), P())(_padded(rows, num_parts, "constant"))


def split_scores(
    function: Callable[[Any, Particles, Batch], PyTree], shared: Any, particles: Particles, rows: Batch
) -> PyTree:
    """Return densities and scores at all particles, each device for its share of the particles and of the rows.

    The estimate from a batch is the mean of the estimates from its equal parts; rows that do not divide evenly are a
    part of their own, taken on every device.
    """
    num_parts = axis_size(DATA)

    def on_all_rows(shared, x):
        return function(shared[0], x, shared[1])

    if num_parts == 1:
        return split_particles(on_all_rows, (shared, rows), particles)

    def averaged(shared, x, rows):
        return jax.lax.pmean(function(shared, x, rows), DATA)

    num_rows = len(jax.tree.leaves(rows)[0])
    even = num_rows // num_parts * num_parts
    estimates = []
    if even:
        padded = _padded(particles, axis_size(PARTICLES), "edge")
        means = _over_mesh(averaged, shared, (P(PARTICLES), P(DATA)), P(PARTICLES))(padded, _cut(rows, 0, even))
        estimates.append((even / num_rows, _gathered(means, len(particles))))
    if even < num_rows:
        rest = split_particles(on_all_rows, (shared, _cut(rows, even, num_rows)), particles)
        estimates.append((1 - even / num_rows, rest))
    shares, estimates = zip(*estimates, strict=True)
    return jax.tree.map(lambda *leaves: sum(map(operator.mul, shares, leaves)), *estimates)


def replicate(tree: PyTree) -> PyTree:
    """Put every array of a tree on every device of the current mesh."""
    return jax.tree.map(lambda leaf: _put(leaf, P()) if isinstance(leaf, jax.Array) else leaf, tree)


def place_rows(tree: PyTree, axis: int = 0) -> PyTree:
    """Put arrays on the current mesh, rows along `axis` split over `data`; whole where they do not divide evenly."""
    num_parts = axis_size(DATA)

    def place(leaf):
        even = leaf.shape[axis] % num_parts == 0
        return _put(leaf, P(*[None] * axis, DATA) if num_parts > 1 and even else P())

    return jax.tree.map(place, tree)


def same_everywhere(tree: PyTree) -> PyTree:
    """Say to the compiler that every device of the current mesh holds all of these arrays; in a share, nothing."""
    if (current := jax.sharding.get_abstract_mesh()).empty or current.manual_axes:
        return tree
    return jax.tree.map(
        lambda leaf: jax.lax.with_sharding_constraint(leaf, P()) if isinstance(leaf, jax.Array) else leaf, tree
    )


def bring_home(tree: PyTree) -> PyTree:
    """Return arrays that are the same on every device as plain arrays on the first device of this process."""
    if jax.device_count() == 1:
        return tree

    def bring(leaf):
        if not isinstance(leaf, jax.Array) or len(leaf.sharding.device_set) == 1:
            return leaf
        return as_array(np.asarray(leaf))

    return jax.tree.map(bring, tree)


def agree(*values: float) -> tuple[float, ...]:
    """Return what the first process says: clocks differ, and processes must take the same decisions."""
    if jax.process_count() == 1:
        return values
    from jax.experimental import multihost_utils

    return tuple(float(v) for v in multihost_utils.broadcast_one_to_all(np.asarray(values, np.float32)))


@contextlib.contextmanager
def lost_contact_explained(*, resumable: bool) -> Iterator[None]:
    """Say what to do when one of several processes is gone: raise a RuntimeError in place of what JAX raises."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        if jax.process_count() == 1 or not any(word in str(error) for word in _LOST_CONTACT):
            raise
        again = ", and it goes on from its last checkpoint" if resumable else ""
        raise RuntimeError(
            f"Process {jax.process_index()} of {jax.process_count()} lost contact with the others: one of them was "
            f"killed or failed, see its output. Start the whole job again{again}."
        ) from error


def _over_mesh(function, shared, in_specs, out_specs) -> Callable[..., PyTree]:
    arrays, static = eqx.partition(shared, eqx.is_array)
    mapped = jax.shard_map(
        lambda arrays, *shares: function(eqx.combine(arrays, static), *shares),
        in_specs=(P(), *in_specs),
        out_specs=out_specs,
        check_vma=False,  # which would sum gradients over `data` on its own
    )
    return lambda *arguments: mapped(arrays, *arguments)


def _cut(rows, start, stop):
    return jax.tree.map(lambda leaf: leaf[start:stop], rows)


def _gathered(results, num_rows):
    return jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, P())[:num_rows], results)


def _padded(rows, num_parts, mode):
    return jnp.pad(rows, [(0, -len(rows) % num_parts)] + [(0, 0)] * (rows.ndim - 1), mode=mode)


def _put(leaf, spec):
    current = jax.sharding.get_mesh()
    if current.empty:
        return as_array(leaf)
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = _put(jax.random.key_data(leaf), spec)
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
    host = np.asarray(leaf)  # not device_put: it would compare the array over all processes
    return jax.make_array_from_callback(host.shape, NamedSharding(current, spec), lambda index: host[index])
