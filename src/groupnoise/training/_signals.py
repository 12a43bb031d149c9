"""Signals that let a training save itself before it ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from groupnoise.training._checkpoints import Checkpoints

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals(checkpoints: Checkpoints) -> Iterator[None]:
    """Inside the block Ctrl-C and SIGTERM make the training save and raise TrainingStopped.

    A second signal acts at once, as it would have without the block. In threads other than the
    main one, where Python allows no handlers, nothing changes.

    Parameters
    ----------
    checkpoints : Checkpoints
        What the training saves to.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(number: int, frame: FrameType | None) -> None:
        checkpoints.stop(number)
        restore()

    for number in SIGNALS:
        signal.signal(number, ask)
    try:
        yield
    finally:
        restore()
