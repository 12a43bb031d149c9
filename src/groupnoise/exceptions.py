"""The errors groupnoise raises on purpose; each message is one sentence a user can act on."""

from __future__ import annotations


class GroupNoiseError(Exception):
    """Base of every deliberate error; the command line turns it into exit code 2."""


class DataError(GroupNoiseError, ValueError):
    """The data given cannot be used as it is."""


class DataTypeError(DataError, TypeError):
    """The data is of a kind that cannot be used at all."""


class MissingColumnError(DataError):
    """A table lacks the column that was named for a part.

    `message`: the sentence.
    `part`: the part that the column was to play.
    `columns`: the columns that there are.
    """

    def __init__(self, message: str, part: str = "", columns: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.part = part
        self.columns = columns


class EmptyGroupError(DataError):
    """A group holds no object, so there is nothing to select."""


class UnknownTargetError(DataError):
    """A target, label or item was never seen in training."""


class ParameterError(GroupNoiseError, ValueError):
    """A parameter lies outside what is allowed."""


class ConfigError(ParameterError):
    """A configuration file holds an unknown key or a value of the wrong kind."""


class TrainingError(GroupNoiseError, RuntimeError):
    """Training cannot go on, for example because the loss is no longer finite."""


class CheckpointError(GroupNoiseError, RuntimeError):
    """A checkpoint cannot be written, read, or belongs to another training."""


class TrainingStopped(GroupNoiseError, RuntimeError):
    """Training was asked to stop, and its state is saved.

    `where`: how far it came and what it was saved as.
    `signal_number`: the signal that asked for it.
    """

    def __init__(self, where: str, signal_number: int | None = None) -> None:
        super().__init__(f"{where}; fit again with the same data and resume=True to resume.")
        self.where = where
        self.signal_number = signal_number


class ModelFileError(GroupNoiseError, RuntimeError):
    """A model or artifact on disk is missing, truncated, altered or of a foreign kind."""


class OutputError(GroupNoiseError, OSError):
    """A file or folder cannot be written."""

    def __str__(self) -> str:
        """Return the sentence alone, also where the number of the system's error is set."""
        return str(self.args[0])


class ServiceError(GroupNoiseError, ConnectionError):
    """A recall service refused a request, or could not be reached.

    `message`: what it said.
    `status`: the HTTP status of its last answer, if it gave one.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class MissingExtraError(GroupNoiseError, ImportError):
    """An optional package is needed; the message names the extra that brings it."""


class MissingDataError(GroupNoiseError, FileNotFoundError):
    """A named data set is not in any directory searched; the message says where to get it."""


class CalibrationWarning(UserWarning):
    """There were too few groups, or known labels, to calibrate probabilities."""
