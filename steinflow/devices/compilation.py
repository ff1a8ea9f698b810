"""Compiled functions of a tree whose arrays are arguments, and all else constants; quick to compile and to call."""

import functools
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from steinflow.typing import PyTree

_LEVEL = "xla_backend_optimization_level"
_MAPS, _MOST_MAPS = Path("/proc/self/maps"), 40_000


class Rest:
    """All of a tree that is not an array, as a constant of compiled functions.

    Its hash is taken once. `eqx.filter_jit` splits and hashes at every call, a millisecond, ten steps of a small run.
    """

    def __init__(self, tree: PyTree):
        leaves, structure = jax.tree.flatten(tree)
        self._identity = (structure, tuple(leaves))
        self._hash = hash(self._identity)
        self.tree = tree

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        return self is other or (isinstance(other, Rest) and self._identity == other._identity)


def split(tree: PyTree) -> tuple[Rest, PyTree]:
    """Return the two parts of a tree with which a compiled function is called: what is no array, and its arrays."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return Rest(rest), arrays


class Program:
    """A function of a tree and further arguments, compiled; it is called with the two parts of the tree.

    Args:
        function: to compile.
        static: which of its arguments are constants, counted with the two parts.
        once: it runs once or twice, on few numbers: what takes time is its compilation.
    """

    def __init__(self, function: Callable[..., PyTree], *, static: tuple[int, ...] = (), once: bool = False):
        functools.update_wrapper(self, function)
        self._function, self._static, self._once = function, static, once
        _PROGRAMS.append(self)

    def __call__(self, rest: Rest, arrays: PyTree, *arguments: Any) -> Any:
        return self.jitted(rest, arrays, *arguments)

    @functools.cached_property  # at the first call: before, nobody knows what it will run on
    def jitted(self) -> Any:
        """The function as JAX compiles it, to lower it or to ask for shapes."""

        @functools.wraps(self._function)
        def joined(rest, arrays, *arguments):
            return self._function(eqx.combine(rest.tree, arrays), *arguments)

        return jax.jit(joined, static_argnums=(0, *self._static), compiler_options=_options(once=self._once))


_PROGRAMS: list[Program] = []


def make_room() -> None:
    """Forget what was compiled before there is too much of it.

    A program is mapped into memory some hundred times, and Linux allows a process 65,530 maps. Beyond, after about
    eighty models, XLA would fail.
    """
    if _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MOST_MAPS:
        for program in _PROGRAMS:
            program.jitted.clear_cache()
        gc.collect()


def compiled(*, static: tuple[int, ...] = (), once: bool = False) -> Callable[[Callable[..., PyTree]], Program]:
    """Decorate a function to be a `Program`."""
    return functools.partial(Program, static=static, once=once)


def _options(*, once: bool) -> dict[str, int] | None:
    """Return how hard XLA optimises: not at all what runs once, which halves the time to compile it.

    On CPUs LLVM's first level takes 60 to 85% of the time of its third, and steps are as fast: their time goes into
    matrix products, which are compiled already, and into loops, which are vectorised at either level.
    """
    users = _LEVEL in os.environ.get("XLA_FLAGS", "")
    return None if users or jax.default_backend() != "cpu" else {_LEVEL: 0 if once else 1}
