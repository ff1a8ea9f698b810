"""Ctrl-C, and the SIGTERM that batch systems send before they kill: a run is told, and ends by itself.

An exception in the middle of a compiled chunk would leave the chunk running while its caller goes on, or while the
interpreter shuts down; in the middle of compiling it would leave JAX's caches and imports half made. So the first
signal raises nothing: it is noted, and the loop looks at the note between chunks, which take half a second.
"""

import signal
import threading
import types
from collections.abc import Callable


class Interruption:
    """Notes whether this run is to end. A second signal raises KeyboardInterrupt at once.

    Only the main thread can handle signals, and handlers that somebody else has installed stay.

    Args:
        by_sigterm: whether SIGTERM counts too, which otherwise ends the process.
    """

    def __init__(self, *, by_sigterm: bool):
        self.requested = False
        self._signals: dict[int, Callable | int] = {signal.SIGINT: signal.default_int_handler}
        if by_sigterm:
            self._signals[signal.SIGTERM] = signal.SIG_DFL
        self._replaced: dict[int, Callable | int] = {}

    def __enter__(self) -> "Interruption":
        if threading.current_thread() is threading.main_thread():
            for number, default in self._signals.items():
                if signal.getsignal(number) is default:
                    self._replaced[number] = default
                    signal.signal(number, self._note)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._replaced.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise KeyboardInterrupt if the run is to end: for the time before there is a result."""
        if self.requested:
            raise KeyboardInterrupt

    def _note(self, number: int, frame: types.FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
