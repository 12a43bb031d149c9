"""A lock on a folder that the operating system frees, however the process that held it ended."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

from groupnoise.exceptions import CheckpointError
from groupnoise.io.files import HAS_LOCKS, write_error_message

if HAS_LOCKS:
    import fcntl

LOCK_FILE = ".lock"
WAIT_SECONDS = 5.0
"""A process that was killed holds its locks until its memory is freed, which takes a moment."""

PAUSE_SECONDS = 0.05
TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
WITHOUT_LOCKS = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS)
"""Said by file systems that know no locks; they are trained on as if there were none."""

NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


class FolderLock:
    """Keeps all others out of a folder, in this process too, from `acquire` to `release`.

    `acquire` makes the folder if needed; `release` then removes it if nothing was put into it,
    unless `keeps_folder` says to leave it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_FILE
        self._missing: OSError | None = None
        self._descriptor: int | None = None
        self.keeps_folder = True

    def acquire(self) -> None:
        """Take the lock, waiting a moment for it.

        Raises CheckpointError if another holds it, or nothing can be written there.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while not self._try():
            if time.monotonic() > deadline:
                if self._missing is not None:
                    raise CheckpointError(
                        write_error_message(self.path.parent, self._missing)
                    ) from self._missing
                raise CheckpointError(
                    f"another training saves itself in {self.path.parent}; wait until it has "
                    "ended, or give another folder."
                )
            time.sleep(PAUSE_SECONDS)

    def release(self) -> None:
        """Give the lock back and leave no trace of it."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        self._remove(descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # closing alone would leave it to forked children
        os.close(descriptor)

    def _try(self) -> bool:
        """Take the lock if it is free; return whether there is nothing to wait for."""
        if not HAS_LOCKS:
            return True
        descriptor = self._missing = None
        try:
            self._make_folder()
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if descriptor is None:
                return self._is_beyond_writing(error)
            os.close(descriptor)
            if error.errno in WITHOUT_LOCKS:
                return True
            if error.errno in TAKEN:
                return False
            raise CheckpointError(write_error_message(self.path, error)) from error
        if not self._is_at_path(descriptor):
            # The last holder removed the file between the two calls; another may lock a new one.
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True)
            self.keeps_folder = False
        except FileExistsError:
            if not self.path.parent.is_dir():
                raise

    def _is_beyond_writing(self, error: OSError) -> bool:
        """Tell a folder that nobody can save in from one that is being removed right now."""
        if isinstance(error, FileNotFoundError):
            self._missing = error  # for good, if it stays so: some file systems make no folder
            return False
        if error.errno in NOT_WRITABLE:
            return True  # a finished training may still be read; a save is refused by itself
        raise CheckpointError(write_error_message(self.path.parent, error)) from error

    def _is_at_path(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _remove(self, descriptor: int) -> None:
        """Remove the file while it is locked, unless it is somebody else's by now."""
        try:
            if self._is_at_path(descriptor):
                self.path.unlink()
            if not self.keeps_folder:
                self.path.parent.rmdir()
        except OSError:
            pass  # the folder holds saves, or may no longer be written: a free lock harms nobody
