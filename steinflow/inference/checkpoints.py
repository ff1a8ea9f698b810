"""Checkpoints: a run that is killed goes on where it was, bit for bit, through orbax.

A checkpoint holds arrays and notes about them: of `fit` the state of the method, the anchor of minibatches and the
history, of `fit_many` where all runs are. Keys and batches follow from the step. It is written under a temporary name
and renamed when it is complete, so that a kill leaves the earlier ones whole. Each carries a digest of its content: a
checkpoint that was damaged on disk is recognised, and the one before it is used.
"""

import dataclasses
import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from steinflow.devices import sharding
from steinflow.devices.arrays import as_array
from steinflow.inference.fingerprints import is_fingerprint
from steinflow.targets.anchors import Anchor
from steinflow.typing import PyTree

# What reading a damaged checkpoint, or writing to a full disk, raises in orbax and below it.
_FAILURES = (OSError, ValueError, KeyError, TypeError, RuntimeError)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """Where and how often to save a run.

    Args:
        folder: one per call; with several processes, on a file system that all of them share.
        every_seconds: save when this much time has passed since the last save.
        every_steps: also save at multiples of this number of steps; of `fit_many`, steps of blocks of runs.
        keep: how many checkpoints to keep; older ones are removed.

    Raises:
        ValueError: if `every_steps` or `keep` is less than 1.
    """

    folder: str | Path
    every_seconds: float = 60.0
    every_steps: int | None = None
    keep: int = 3

    def __post_init__(self):
        if self.every_steps is not None and self.every_steps < 1:
            raise ValueError(f"every_steps must be at least 1; got {self.every_steps}.")
        if self.keep < 1:
            raise ValueError(f"keep must be at least 1: the number of checkpoints on disk; got {self.keep}.")


class Saveable(Protocol):
    """What a checkpoint is made of."""

    @property
    def step(self) -> int:
        """How far it is; this grows from checkpoint to checkpoint."""
        ...

    def saved(self) -> tuple[PyTree, dict[str, Any]]:
        """Return a tree of arrays, and notes that JSON can hold."""
        ...


class Saved(NamedTuple):
    """What was read from a checkpoint."""

    step: int
    arrays: PyTree
    notes: dict[str, Any]


@dataclasses.dataclass
class Snapshot:
    """A run at one moment: all that it needs to go on."""

    state: Any
    anchored: Any = None  # the anchor of minibatches, where there is one
    step: int = 0
    history: dict[str, list] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0

    @property
    def anchor(self) -> Anchor | None:
        """The anchor of minibatches; None where there is none."""
        return None if self.anchored is None else self.anchored.anchor

    def saved(self) -> tuple[PyTree, dict[str, Any]]:
        """Return what a checkpoint holds."""
        history = {name: jax.tree.map(lambda *leaves: np.stack(leaves), *each) for name, each in self.history.items()}
        return (self.state, self.anchored, history), {"records": len(history.get("step", [])), "seconds": self.seconds}

    def like(self, records: Mapping[str, PyTree]) -> Callable[[dict[str, Any]], PyTree]:
        """Return what takes notes to a tree of the structure that was saved, where records look like these."""
        step = jax.ShapeDtypeStruct((), np.int32)
        return lambda notes: (self.state, self.anchored, {"step": step, **records} if notes["records"] else {})

    @classmethod
    def of(cls, saved: Saved) -> "Snapshot":
        """Return the run as it was saved."""
        state, anchored, columns = saved.arrays
        history = {
            name: [jax.tree.map(lambda leaf, i=i: leaf[i], values) for i in range(saved.notes["records"])]
            for name, values in columns.items()
        }
        return cls(state, anchored, saved.step, history, saved.notes["seconds"])


class CheckpointFolder:
    """The checkpoints of one call on disk; without a folder it does nothing."""

    def __init__(self, checkpoint: Checkpoint | str | Path | None, identity: Mapping[str, str]):
        if not isinstance(checkpoint, Checkpoint | None):
            checkpoint = Checkpoint(checkpoint)
        self.checkpoint, self._identity = checkpoint, dict(identity)
        self._last_time = time.monotonic()
        self._last_step = 0  # where nothing needs to be saved
        self._manager: Any = None
        if checkpoint is not None:
            self._path = Path(checkpoint.folder).absolute()
            self._manager = _manager(self._path, checkpoint.keep)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        # With a process lost, closing would wait for it.
        if self._manager is not None and (error[0] is None or jax.process_count() == 1):
            self._manager.close()

    def next_step(self, step: int) -> float:
        """Return the next step that must be saved, however quick it comes."""
        every = None if self.checkpoint is None else self.checkpoint.every_steps
        return (step // every + 1) * every if every else float("inf")

    def due(self, step: int) -> bool:
        """Say whether it is time to save."""
        if self.checkpoint is None:
            return False
        every = self.checkpoint.every_steps
        return bool(every and step % every == 0) or (
            time.monotonic() - self._last_time >= self.checkpoint.every_seconds
        )

    def save(self, snapshot: Saveable) -> None:
        """Write a checkpoint. If that fails, warn and go on: the run is worth more than its checkpoint."""
        if self._manager is None or snapshot.step == self._last_step:
            return
        import orbax.checkpoint as ocp

        tree, notes = snapshot.saved()
        leaves = {f"{i:06}": _to_numpy(leaf) for i, leaf in enumerate(jax.tree.leaves(eqx.filter(tree, _is_saved)))}
        arrays = {name: leaf for name, leaf in leaves.items() if leaf.size}
        meta: dict[str, Any] = {
            "step": snapshot.step,
            "notes": notes,
            # orbax refuses empty arrays.
            "empty": {name: [leaf.shape, str(leaf.dtype)] for name, leaf in leaves.items() if not leaf.size},
            "identity": self._identity,
        }
        meta["digest"] = _digest(arrays, meta)
        try:
            self._manager.save(
                snapshot.step,
                args=ocp.args.Composite(arrays=ocp.args.PyTreeSave(arrays), meta=ocp.args.JsonSave(meta)),
                force=True,
            )
            self._last_step = snapshot.step
        except _FAILURES as error:
            if jax.process_count() > 1:  # the others are waiting, or gone
                raise
            warnings.warn(
                f"The checkpoint of step {snapshot.step} could not be written to {self._path}: {_brief(error)} "
                "The run goes on, and earlier checkpoints are intact. Free some space, or choose another folder.",
                RuntimeWarning,
                stacklevel=3,
            )
            self._reopen()
        self._last_time = time.monotonic()

    def restore(self, like: Callable[[dict[str, Any]], PyTree]) -> Saved | None:
        """Return the newest checkpoint that can be read; None in an empty folder.

        Args:
            like: takes the notes to a tree of the structure that was saved. Arrays are put where those of the tree are;
                for shapes they stay NumPy's. What is no array is taken from the tree.

        Raises:
            ValueError: if the checkpoints belong to another run, or none of them can be read.
        """
        if self._manager is None:
            return None
        steps = sorted(self._manager.all_steps(), reverse=True)
        for step in steps:
            try:
                meta, arrays = self._read(step)
            except _FAILURES as error:
                self._set_aside(step, error)
                continue
            self._check_identity(meta["identity"])
            self._last_step = step
            return Saved(step, _restored(like(meta["notes"]), arrays, meta["empty"]), meta["notes"])
        if steps:
            raise ValueError(
                f"None of the {len(steps)} checkpoints in {self._path} can be read. Remove the folder to start afresh."
            )
        return None

    def _read(self, step):
        import orbax.checkpoint as ocp

        meta = self._manager.restore(step, args=ocp.args.Composite(meta=ocp.args.JsonRestore()))["meta"]
        found = self._manager.item_metadata(step)["arrays"]
        if meta is None or found is None:
            raise ValueError("a part of it is missing.")
        restore = ocp.args.PyTreeRestore(restore_args=jax.tree.map(lambda _: ocp.RestoreArgs(np.ndarray), found.tree))
        arrays = self._manager.restore(step, args=ocp.args.Composite(arrays=restore))["arrays"]
        digest = meta.pop("digest")
        if digest != _digest(arrays, meta):
            raise ValueError("its content is not what was written.")
        return meta, arrays

    def _set_aside(self, step, error):
        warnings.warn(
            f"The checkpoint of step {step} in {self._path} is damaged and is not used: {_brief(error)} "
            "The run goes on from the one before it.",
            RuntimeWarning,
            stacklevel=4,
        )
        if jax.process_index() == 0:  # the run will write this step again
            damaged = self._path / str(step)
            damaged.rename(damaged.with_name(f"damaged-{step}-{time.time_ns()}"))
        self._reopen()

    def _reopen(self):
        assert self.checkpoint is not None
        self._manager = _manager(self._path, self.checkpoint.keep)

    def _check_identity(self, saved):
        changes = [
            _change(name, saved.get(name), now) for name, now in self._identity.items() if saved.get(name) != now
        ]
        if changes:
            raise ValueError(
                f"The checkpoints in {self._path} belong to another run ({'; '.join(changes)}). Use another folder, or "
                "remove this one to start afresh; to go on from its particles, pass them as particles=."
            )


def _change(name: str, saved: str | None, now: str) -> str:
    # The digits of a fingerprint say nothing to a reader.
    return f"another {name}" if is_fingerprint(now) else f"{name}: {saved} then, {now} now"


def _manager(path, keep):
    try:
        import orbax.checkpoint as ocp
    except ImportError as error:
        raise ImportError("Checkpoints need orbax: pip install 'steinflow[checkpoint]'.") from error
    options = ocp.CheckpointManagerOptions(
        max_to_keep=keep, enable_async_checkpointing=False, cleanup_tmp_directories=True
    )
    handlers = {"arrays": ocp.PyTreeCheckpointHandler(), "meta": ocp.JsonCheckpointHandler()}
    return ocp.CheckpointManager(path, options=options, item_handlers=handlers)


def _restored(tree, arrays, empty) -> PyTree:
    leaves = arrays | {name: np.zeros(shape, dtype) for name, (shape, dtype) in empty.items()}
    dynamic, static = eqx.partition(tree, _is_saved)
    templates, structure = jax.tree.flatten(dynamic)
    restored = [_like(template, leaves[name]) for template, name in zip(templates, sorted(leaves), strict=True)]
    return eqx.combine(jax.tree.unflatten(structure, restored), static)


def _is_saved(leaf) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | jax.ShapeDtypeStruct)


def _to_numpy(leaf) -> np.ndarray:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _like(template, leaf):
    """Return a saved array where the template lives."""
    if not isinstance(template, jax.Array):
        return leaf
    if jnp.issubdtype(template.dtype, jax.dtypes.prng_key):
        return sharding.replicate(jax.random.wrap_key_data(as_array(leaf), impl=jax.random.key_impl(template)))
    return sharding.replicate(as_array(leaf, template.dtype))


def _digest(arrays, meta) -> str:
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name, leaf in sorted(arrays.items()):
        digest.update(f"{name} {leaf.shape} {leaf.dtype}".encode() + np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def _brief(error) -> str:
    text = " ".join(str(error).split())
    return text if len(text) < 200 else text[:200] + " ..."
