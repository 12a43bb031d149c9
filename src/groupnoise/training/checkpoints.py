"""Checkpoints: where and how often a training is saved, and stop signals."""

from __future__ import annotations

import shutil
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from numpy.typing import NDArray

from groupnoise.core.checks import check_count, check_positive
from groupnoise.exceptions import CheckpointError, ModelFileError
from groupnoise.io.files import sync_folder, write_error_message
from groupnoise.io.folders.model_files import read_model, write_model
from groupnoise.training.folder_lock import FolderLock

KIND = "checkpoint"
SAVED, PARTIAL = "checkpoint-", "partial-"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Checkpoints:
    """Saves of a training in a folder, each of them whole or not there at all.

    Parameters
    ----------
    folder : path
        Created if needed; holds the saves of one training.
    every_seconds : float, default=300.0
        Save when this much time has passed; None leaves it to `every_steps`.
    every_steps : int, optional
        Save after this many steps.
    keep : int, default=2
        How many saves are kept; the oldest go first.
    resume : bool, default=False
        Whether to resume from the newest save that can be read, if there is any. Without it a
        folder that holds saves is refused.
    report : callable, optional
        Called with a sentence when a damaged save is passed over; a warning by default.

    Notes
    -----
    While a training runs its folder is locked (see `held`), so that no other saves itself there.

    Examples
    --------
    >>> import tempfile
    >>> from groupnoise import MaxMatchingRecommender
    >>> histories = [["tea", "milk", "jam"], ["nail", "saw", "nail"]] * 20
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoints(folder, every_seconds=60, resume=True)
    ...     model = MaxMatchingRecommender(normalization="click", random_state=0)
    ...     model = model.fit(histories, checkpoint=checkpoint)
    ...     [path.name for path in checkpoint.saves()]
    ['checkpoint-000001']
    """

    def __init__(
        self,
        folder: Path | str,
        *,
        every_seconds: float | None = 300.0,
        every_steps: int | None = None,
        keep: int = 2,
        resume: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> None:
        if every_seconds is not None:
            check_positive("every_seconds", every_seconds)
        if every_steps is not None:
            check_count("every_steps", every_steps)
        check_count("keep", keep)
        self.folder = Path(folder)
        self.every_seconds = every_seconds
        self.every_steps = every_steps
        self.keep = keep
        self.resume = resume
        self.report = report or _warn
        self.announces_resume = False
        self.stop_signal: int | None = None
        self._parent: Checkpoints | None = None
        self._lock: FolderLock | None = None

    def member(self, number: int) -> Checkpoints:
        """Return the checkpoints of one of several models that are trained in turn.

        Parameters
        ----------
        number : int
            Which of the models, from 0.

        Returns
        -------
        Checkpoints
            With a folder of their own inside this one.
        """
        part = self.part(f"member-{number}")
        part._parent = self
        return part

    def part(self, name: str) -> Checkpoints:
        """Return the checkpoints of another training of the same fit.

        Parameters
        ----------
        name : str
            Of their folder.

        Returns
        -------
        Checkpoints
            With a folder of their own inside this one.
        """
        return Checkpoints(
            self.folder / name,
            every_seconds=self.every_seconds,
            every_steps=self.every_steps,
            keep=self.keep,
            resume=self.resume,
            report=self.report,
        )

    def announce_resume(self) -> None:
        """Report once that a fit resumes from a save, if `announces_resume` is set."""
        whole = self if self._parent is None else self._parent
        if whole.announces_resume:
            whole.announces_resume = False
            whole.report(f"resuming the training saved in {whole.folder}")

    def stop(self, signal_number: int = 0) -> None:
        """Ask the training to save and stop after the step under way; safe in signal handlers.

        Parameters
        ----------
        signal_number : int, default=0
            The signal that asked for it; 0 where none did.
        """
        self.stop_signal = signal_number

    @property
    def requested_stop(self) -> int | None:
        """The signal that asked for a stop, 0 for a plain wish, None while nobody asked."""
        return self._parent.requested_stop if self._parent else self.stop_signal

    @contextmanager
    def held(self) -> Iterator[FolderLock]:
        """Keep other trainings out of the folder inside the block; blocks may be nested.

        The lock is the operating system's, so that a process that is killed leaves none behind.
        Members share that of the whole, which is theirs until the last one is trained.

        Yields
        ------
        FolderLock
            The lock, taken.

        Raises
        ------
        CheckpointError
            If another training holds the folder and keeps it for some seconds.
        """
        root = self._parent or self
        if root._lock is not None:
            yield root._lock
            return
        if root.folder.exists() and not root.folder.is_dir():
            raise CheckpointError(f"{root.folder} is a file; give a folder for the checkpoints.")
        lock = FolderLock(root.folder)
        lock.acquire()
        root._lock = lock
        try:
            yield lock
        finally:
            root._lock = None
            lock.release()

    def saves(self) -> list[Path]:
        """Return the folders of the saves, oldest first.

        Returns
        -------
        list of Path
            Empty where nothing was saved.
        """
        return sorted(self.folder.glob(f"{SAVED}[0-9]*"))

    def clear(self) -> None:
        """Remove all saves, and the folder if nothing else is in it."""
        if not self.folder.is_dir():
            return
        with self.held() as lock:
            rest = [*self.folder.glob(f"{PARTIAL}*"), *self.folder.glob("member-*")]
            for path in [*self.saves(), *rest]:
                shutil.rmtree(path, ignore_errors=True)
            if any(self.folder.iterdir()):
                lock.keeps_folder = False  # all that is left may be the lock itself
            else:
                self.folder.rmdir()

    def check_resumed(self) -> None:
        """Refuse to begin where checkpoints are, unless they are to be resumed."""
        if not self.resume:
            raise CheckpointError(
                f"{self.folder} holds checkpoints already; resume from them (--resume, or "
                "resume=True), or give another folder."
            )


def prepare_folder(checkpoints: Checkpoints) -> None:
    """Raise if the folder holds saves of another training; remove partial saves of a killed one."""
    # Members save in folders of their own, where one model would not look for its saves.
    whole, folder = checkpoints._parent, checkpoints.folder
    if whole is not None:
        root, other, kind = whole.folder, whole.saves(), "one model"
    else:
        root, other, kind = folder, [*folder.glob("member-*")], "several members"
    if other:
        raise CheckpointError(
            f"{root} holds the checkpoints of {kind}; resume with the same n_members or give "
            "another folder."
        )
    if checkpoints.saves():
        checkpoints.check_resumed()
    for path in folder.glob(f"{PARTIAL}*"):
        shutil.rmtree(path, ignore_errors=True)


def next_number(checkpoints: Checkpoints) -> int:
    """Return the number of the next save, from 1."""
    saves = checkpoints.saves()
    return 1 + int(saves[-1].name.removeprefix(SAVED)) if saves else 1


@contextmanager
def writing_save(checkpoints: Checkpoints, number: int) -> Iterator[Path]:
    """Yield a partial folder to write a save to; it is removed on failure."""
    partial = checkpoints.folder / f"{PARTIAL}{number:06d}"
    try:
        partial.mkdir(parents=True, exist_ok=True)
        yield partial
    except Exception as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, CheckpointError):
            raise
        last = checkpoints.saves()
        kept = f" The last good one, {last[-1]}, is untouched." if last else ""
        raise CheckpointError(write_error_message(partial, error) + kept) from error


def publish_save(checkpoints: Checkpoints, number: int) -> None:
    """Publish a written save atomically, and remove the oldest."""
    folder = checkpoints.folder
    (folder / f"{PARTIAL}{number:06d}").rename(folder / f"{SAVED}{number:06d}")
    sync_folder(folder)
    for old in checkpoints.saves()[: -checkpoints.keep]:
        drop_save(old)


def drop_save(saved: Path) -> None:
    """Remove a save; an interruption leaves only a partial one."""
    gone = saved.with_name(f"{PARTIAL}{saved.name}")
    saved.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def write_part(
    folder: Path, rank: int, content: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write the part of one worker."""
    part = folder / f"worker-{rank}"
    write_model(part, kind=KIND, manifest=content, arrays=arrays)
    sync_folder(part)


def read_part(saved: Path, rank: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the part of one worker, after verifying its checksum."""
    part = saved / f"worker-{rank}"
    if not part.is_dir():
        raise ModelFileError(f"{saved} holds nothing of worker {rank}.")
    return read_model(part, kind=KIND)


def _warn(sentence: str) -> None:
    warnings.warn(sentence, RuntimeWarning, stacklevel=2)


@contextmanager
def stop_on_signals(checkpoints: Checkpoints) -> Iterator[None]:
    """Inside the block Ctrl-C and SIGTERM make the training save and raise TrainingStopped.

    A second signal acts at once, as it would have without the block. In threads other than the
    main one, where Python allows no handlers, nothing changes.

    Parameters
    ----------
    checkpoints : Checkpoints
        What the training saves to.

    Yields
    ------
    None
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
