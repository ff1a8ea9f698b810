"""Checkpoints: a run that is killed goes on where it was, bit for bit, through orbax.

A checkpoint holds the state of the method, the anchor of minibatches, the step and the history; keys and batches follow
from the step. It is written under a temporary name and renamed when it is complete, so that a kill leaves the earlier
ones whole. Each carries a digest of its content: a checkpoint that was damaged on disk is recognised, and the one
before it is used.
"""

import dataclasses
import hashlib
import json
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
        folder: one per run; with several processes, on a file system that all of them share.
        every_seconds: save when this much time has passed since the last save.
        every_steps: also save at multiples of this number of steps.
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


class CheckpointFolder:
    """The checkpoints of one run on disk; without a folder it does nothing."""

    def __init__(self, checkpoint: Checkpoint | str | Path | None, identity: Mapping[str, str]):
        if not isinstance(checkpoint, Checkpoint | None):
            checkpoint = Checkpoint(checkpoint)
        self.checkpoint, self._identity = checkpoint, dict(identity)
        self._last_time = time.monotonic()
        self._last_step: int | None = None
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

    def save(self, snapshot: Snapshot) -> None:
        """Write a checkpoint. If that fails, warn and go on: the run is worth more than its checkpoint."""
        if self._manager is None or snapshot.step == self._last_step:
            return
        import orbax.checkpoint as ocp

        arrays = {
            "state": _numbered([_to_numpy(leaf) for leaf in _array_leaves((snapshot.state, snapshot.anchored))]),
            "history": _numbered(jax.tree.leaves(_stacked(snapshot.history))),
        }
        meta: dict[str, Any] = {
            "step": snapshot.step,
            "records": len(snapshot.history.get("step", [])),
            "seconds": snapshot.seconds,
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

    def restore(self, start: Snapshot, records: Mapping[str, PyTree]) -> Snapshot | None:
        """Return the newest snapshot that can be read, shaped as `start` and `records`; None in an empty folder.

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
            return _snapshot(meta, arrays, start, records)
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


def _snapshot(meta, arrays, start, records) -> Snapshot:
    leaves = [arrays["state"][name] for name in sorted(arrays["state"])]
    dynamic, static = eqx.partition((start.state, start.anchored), _is_saved)
    templates, structure = jax.tree.flatten(dynamic)
    restored = [_like(template, leaf) for template, leaf in zip(templates, leaves, strict=True)]
    state, anchored = eqx.combine(jax.tree.unflatten(structure, restored), static)

    history: dict[str, list] = {}
    if meta["records"]:
        columns = [arrays["history"][name] for name in sorted(arrays["history"])]
        tree = jax.tree.unflatten(jax.tree.structure({"step": 0, **records}), columns)
        history = {
            name: [jax.tree.map(lambda leaf, i=i: leaf[i], values) for i in range(meta["records"])]
            for name, values in tree.items()
        }
    return Snapshot(state, anchored, meta["step"], history, meta["seconds"])


def _stacked(history):
    return {name: jax.tree.map(lambda *leaves: np.stack(leaves), *values) for name, values in history.items()}


def _array_leaves(state):
    return jax.tree.leaves(eqx.filter(state, _is_saved))


def _is_saved(leaf) -> bool:
    return eqx.is_array(leaf) and leaf.size > 0  # orbax refuses empty arrays


def _to_numpy(leaf) -> np.ndarray:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)


def _like(template, leaf):
    """Return a saved array where the template lives."""
    if jnp.issubdtype(template.dtype, jax.dtypes.prng_key):
        return sharding.replicate(jax.random.wrap_key_data(as_array(leaf), impl=jax.random.key_impl(template)))
    return sharding.replicate(as_array(leaf, template.dtype))


def _numbered(leaves) -> dict[str, np.ndarray]:
    return {f"{i:06}": leaf for i, leaf in enumerate(leaves)}


def _digest(arrays, meta) -> str:
    digest = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for group in ("state", "history"):
        for name, leaf in sorted(arrays.get(group, {}).items()):
            digest.update(f"{group} {name} {leaf.shape} {leaf.dtype}".encode() + np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def _brief(error) -> str:
    text = " ".join(str(error).split())
    return text if len(text) < 200 else text[:200] + " ..."
