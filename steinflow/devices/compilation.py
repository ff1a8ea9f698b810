"""Compiled functions of a tree whose arrays are arguments, and all else constants; quick to compile and to call."""

import functools
import gc
import itertools
import os
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from steinflow.devices.work import numbers_of
from steinflow.typing import PyTree

_LEVEL, _EMITTERS = "xla_backend_optimization_level", "xla_cpu_use_fusion_emitters"
_REPAYS = 3.5e9  # numbers from which on some ten runs repay better code, which takes 1.5 s longer to compile
_MAPS, _MOST_MAPS = Path("/proc/self/maps"), 40_000
_EVERY, _CALLS = 10, itertools.count()  # runs, of which one counts the maps


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
        self._static, self._once = static, once

        @functools.wraps(function)
        def joined(rest, arrays, *arguments):
            return function(eqx.combine(rest.tree, arrays), *arguments)

        self._joined = joined
        _PROGRAMS.append(self)

    def __call__(self, rest: Rest, arrays: PyTree, *arguments: Any) -> Any:
        return self.jitted(rest, arrays, *arguments)

    @property
    def jitted(self) -> Any:
        """The function as JAX compiles it, to lower it or to ask for shapes."""
        return self._quick if self._once else self._good

    def for_passes(self, times: int, *arguments: Any) -> Any:
        """Return the same for so many passes, through it or its loop: compiled well only where they repay that."""
        return self._quick if times * self.work(*arguments) < _REPAYS else self.jitted

    def work(self, *arguments: Any) -> float:
        """Return how many numbers a pass computes one by one."""
        return numbers_of(self.jitted.trace(*arguments).jaxpr.jaxpr)

    @functools.cached_property  # at the first call: before, nobody knows what it will run on
    def _good(self) -> Any:
        return self._compiled(_options(once=False))

    @functools.cached_property
    def _quick(self) -> Any:
        return self._compiled(_options(once=True))

    def _compiled(self, options: dict[str, Any] | None) -> Any:
        return jax.jit(self._joined, static_argnums=(0, *self._static), compiler_options=options)

    def forget(self) -> None:
        """Forget what was compiled."""
        self._good.clear_cache()
        self._quick.clear_cache()


_PROGRAMS: list[Program] = []


def make_room() -> None:
    """Forget what was compiled before there is too much of it.

    A program is mapped into memory some hundred times, and Linux allows a process 65,530 maps. Beyond, after about
    eighty models, XLA would fail. To count them takes milliseconds, and a few models more or less do not matter.
    """
    if next(_CALLS) % _EVERY == 0 and _MAPS.exists() and _MAPS.read_bytes().count(b"\n") > _MOST_MAPS:
        for program in _PROGRAMS:
            program.forget()
        gc.collect()


def compiled(*, static: tuple[int, ...] = (), once: bool = False) -> Callable[[Callable[..., PyTree]], Program]:
    """Decorate a function to be a `Program`."""
    return functools.partial(Program, static=static, once=once)


def _options(*, once: bool) -> dict[str, Any] | None:
    """Return how hard XLA optimises: not at all what runs once, which takes a quarter of the time to compile.

    On CPUs LLVM's first level takes 60 to 85% of the time of its third, and steps are as fast: their time goes into
    matrix products, which are compiled already, and into loops, which are vectorised at either level. Without
    optimisation the older way to emit loops is quicker than the newer one, which is the only one from JAX 0.12 on.
    """
    if _LEVEL in os.environ.get("XLA_FLAGS", "") or jax.default_backend() != "cpu":
        return None
    if not once:
        return {_LEVEL: 1}
    return {_LEVEL: 0} if _knows_only_emitters() else {_LEVEL: 0, _EMITTERS: False}


@functools.cache
def _knows_only_emitters() -> bool:
    return tuple(map(int, version("jaxlib").split(".")[:2])) >= (0, 12)
