"""How many threads NumPy's products take: one, where they are small.

XLA's threads go on looking for work for a moment after every call, and other programs have theirs. On few cores a
second thread of NumPy's waits for all of these: the products of a hundred particles then take five times as long.
"""

import contextlib
import functools

from threadpoolctl import ThreadpoolController

_SMALL = 3e7  # multiplications in a product, about a millisecond for one thread


def threads_for(multiplications: float) -> contextlib.AbstractContextManager:
    """Let products take one thread while this lasts, if none of them needs more multiplications than a few."""
    if multiplications > _SMALL:
        return contextlib.nullcontext()
    return _controller().limit(limits=1, user_api="blas")


@functools.cache  # to look for the libraries takes as long as hundreds of small products
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
