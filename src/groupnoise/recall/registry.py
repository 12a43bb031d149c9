"""A registry: a folder of artifact versions, one of which is promoted and served."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from groupnoise.core.checks import check_count
from groupnoise.core.words import inherit_docstring
from groupnoise.exceptions import GroupNoiseError, ModelFileError, ParameterError
from groupnoise.io.files import (
    MANIFEST,
    convert_write_errors,
    locked_folder,
    new_folder,
    read_json,
    sync_folder,
    write_json,
)
from groupnoise.io.folders.array_folder import read_manifest

FORMAT = "groupnoise-registry"
FORMAT_VERSION = 1
POINTER = "registry.json"
"""Lists the promoted versions in order; the last one is served. Replaced atomically."""
VERSION = re.compile(r"[0-9a-f]{12}")
MIN_PREFIX = 4
"""Shortest prefix that names a version: a shorter one may match by chance."""
UNFINISHED = ".unfinished-"
"""Prefix of folders being written or removed; after a kill they are left over."""
ABANDONED_SECONDS = 86_400.0
MAX_PROMOTED = 100
"""Promotions that a registry records."""


@dataclass(frozen=True)
class Version:
    """One version of a registry.

    `name`: the digest that names its artifact.
    `folder`: the artifact.
    `is_current`: whether it is the promoted one.
    `manifest`: the manifest of the artifact; empty if it cannot be read.
    `problem`: why it cannot be served, in a sentence; None if it can.
    """

    name: str
    folder: Path
    is_current: bool
    manifest: dict[str, Any]
    problem: str | None


@inherit_docstring
class Registry:
    """A folder of artifact versions: adding one never deletes another.

    Parameters
    ----------
    path : path
        A registry; :meth:`create` makes one.

    Raises
    ------
    ModelFileError
        If the folder is no registry.

    Examples
    --------
    >>> import tempfile
    >>> Registry.create(tempfile.mkdtemp()).versions()
    []
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._promoted()

    @classmethod
    def create(cls, path: Path | str) -> Registry:
        """Return the registry in a folder, made there if the folder is missing or empty.

        Parameters
        ----------
        path : path
            Where.

        Returns
        -------
        Registry

        Raises
        ------
        ParameterError
            If the folder holds something else.
        """
        path = Path(path)
        if not is_registry(path):
            if path.is_file() or (path.is_dir() and os.listdir(path)):
                raise ParameterError(
                    f"{path} exists and is no registry; give one, or a new or empty folder for it."
                )
            with new_folder(path):
                _write_pointer(path, [])
        return cls(path)

    def versions(self, *, every_byte: bool = False) -> list[Version]:
        """Return all versions, oldest first, with what is wrong with the damaged ones.

        Parameters
        ----------
        every_byte : bool, default=False
            Check every byte of every version, and not only that its files are there.

        Returns
        -------
        list of Version
        """
        current = self.current
        found = []
        for folder in self.path.iterdir():
            if not VERSION.fullmatch(folder.name) or not folder.is_dir():
                continue
            manifest: dict[str, Any] = {}
            problem = None
            try:
                manifest = read_manifest(folder)
                _check(folder, every_byte=every_byte)
            except GroupNoiseError as error:
                problem = str(error)
            is_current = folder.name == current
            found.append(Version(folder.name, folder, is_current, manifest, problem))
        return sorted(found, key=_age)

    @property
    def current(self) -> str | None:
        """The promoted version; None where none is."""
        promoted = self._promoted()
        return promoted[-1] if promoted else None

    @contextmanager
    def adding(self) -> Iterator[Path]:
        """Yield a folder to write an artifact in; it becomes a version where the block succeeds.

        A version with the same content takes its new description, and what was damaged of it is
        repaired. After a failure nothing remains.

        Yields
        ------
        Path
            An empty folder.
        """
        staged = self.path / f"{UNFINISHED}{secrets.token_hex(8)}"
        with convert_write_errors(self.path):
            staged.mkdir()
        try:
            yield staged
            _check(staged, every_byte=False, is_staged=True)
            name = str(read_manifest(staged)["version"])
            with convert_write_errors(self.path), locked_folder(self.path):
                _move_version(staged, self.path / name)
        finally:
            shutil.rmtree(staged, ignore_errors=True)

    def promote(self, version: str | None = None) -> str:
        """Make a version the one that is served, after checking every byte of it.

        Parameters
        ----------
        version : str, optional
            Its name or the beginning of it; by default the newest.

        Returns
        -------
        str
            The full name.

        Raises
        ------
        ModelFileError
            If the version is damaged; what was promoted stays.
        ParameterError
            If there is no such version, or more than one.
        """
        name = self.find(version)
        _check(self.path / name, every_byte=True)
        with locked_folder(self.path):
            promoted = self._promoted()
            if not promoted or promoted[-1] != name:
                _write_pointer(self.path, [*promoted, name])
        return name

    def rollback(self) -> tuple[str, list[str]]:
        """Go back to the version promoted before, skipping missing and damaged ones.

        Returns
        -------
        version : str
            The version promoted now.
        passed_over : list of str
            A sentence on each version that was skipped.

        Raises
        ------
        ModelFileError
            If no version promoted before is whole; what is promoted stays.
        """
        passed_over = []
        with locked_folder(self.path):
            earlier = self._promoted()[:-1]
            while earlier:
                try:
                    _check(self.path / earlier[-1], every_byte=True)
                except GroupNoiseError as error:
                    passed_over.append(f"passed over {earlier.pop()}: {error}")
                    continue
                _write_pointer(self.path, earlier)
                return earlier[-1], passed_over
        raise ModelFileError(
            f"{self.path} has no whole version that was promoted before; promote one by name."
        )

    def prune(self, *, keep: int = 5) -> list[str]:
        """Delete old and damaged versions.

        The newest `keep` whole ones stay, as do the promoted one and the one promoted before it.

        Parameters
        ----------
        keep : int, default=5
            How many of the newest.

        Returns
        -------
        list of str
            The versions deleted, oldest first.
        """
        check_count("keep", keep)
        with locked_folder(self.path):
            versions = self.versions()
            whole = [version.name for version in versions if version.problem is None]
            promoted = self._promoted()
            earlier = [name for name in promoted[:-1] if name in whole and name != promoted[-1]]
            kept = {*whole[-keep:], *promoted[-1:], *earlier[-1:]}
            removed = [version for version in versions if version.name not in kept]
            with convert_write_errors(self.path):
                for version in removed:
                    # Renamed first, so that a kill leaves no version with half its files.
                    version.folder.rename(self.path / f"{UNFINISHED}{secrets.token_hex(8)}-old")
                for left in self.path.glob(f"{UNFINISHED}*"):
                    is_abandoned = time.time() - left.stat().st_mtime > ABANDONED_SECONDS
                    if left.name.endswith("-old") or is_abandoned:
                        shutil.rmtree(left, ignore_errors=True)
        return [version.name for version in removed]

    def find(self, version: str | None = None) -> str:
        """Return the full name of a version.

        Returns
        -------
        str

        Raises
        ------
        ParameterError
            If there is no such version, or more than one.
        """
        if version is None:
            versions = self.versions()
            if not versions:
                raise ParameterError(
                    f"{self.path} holds no version; add one with `groupnoise export`."
                )
            return versions[-1].name
        names = [name.name for name in self.path.iterdir() if VERSION.fullmatch(name.name)]
        fitting = [name for name in names if version and name.startswith(version)]
        if fitting and len(version) < MIN_PREFIX:
            raise ParameterError(
                f"{version!r} is too short to name a version; give at least {MIN_PREFIX} letters "
                f"of it, such as {fitting[0][:MIN_PREFIX]!r}."
            )
        if len(fitting) != 1:
            what = "several versions begin" if fitting else "no version begins"
            raise ParameterError(
                f"{what} with {version!r} in {self.path}; see `groupnoise versions list "
                f"{self.path}`."
            )
        return fitting[0]

    def _promoted(self) -> list[str]:
        path = self.path / POINTER
        try:
            pointer = read_json(path)
        except (FileNotFoundError, NotADirectoryError):
            raise ModelFileError(
                f"{self.path} is no registry; make one with `groupnoise export MODEL --registry -o "
                "FOLDER`, an empty or new folder."
            ) from None
        except (OSError, ValueError) as error:
            raise ModelFileError(f"{path} cannot be read ({error}); restore it.") from None
        is_ours = isinstance(pointer, dict) and pointer.get("format") == FORMAT
        if not is_ours or pointer.get("format_version") != FORMAT_VERSION:
            raise ModelFileError(f"{path} is not of a registry that this release reads.")
        promoted = pointer.get("promoted")
        if not isinstance(promoted, list) or not all(
            isinstance(name, str) and VERSION.fullmatch(name) for name in promoted
        ):
            raise ModelFileError(f"{path} names no versions in `promoted`; restore it.")
        return promoted


def is_registry(path: Path | str) -> bool:
    """Return whether a folder is a registry."""
    return (Path(path) / POINTER).is_file()


def promotion_stamp(path: Path | str) -> tuple[int, int] | None:
    """Return a stamp that changes when a version is promoted; None if this is not a registry."""
    try:
        found = (Path(path) / POINTER).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def served_folder(path: Path | str, version: str | None = None) -> Path:
    """Return the artifact that a path stands for: itself, or a version of a registry."""
    if not is_registry(path):
        if version is not None:
            raise ParameterError(f"{path} is no registry, so it has no version {version}.")
        return Path(path)
    registry = Registry(path)
    if version is not None:
        return registry.path / registry.find(version)
    if registry.current is None:
        raise ModelFileError(
            f"nothing is promoted in {path}; run `groupnoise versions promote {path}`."
        )
    return registry.path / registry.current


def _check(folder: Path, *, every_byte: bool, is_staged: bool = False) -> None:
    """Refuse a version that cannot be served."""
    from groupnoise.recall.artifact import open_artifact  # which finds versions by this module

    version = open_artifact(folder, memory_map=not every_byte).version
    if not is_staged and version != folder.name:
        raise ModelFileError(
            f"{folder} holds version {version}: it was changed in place; export it again."
        )


def _age(version: Version) -> tuple[str, int, str]:
    created, written = str(version.manifest.get("created", "")), 0
    with suppress(OSError):
        written = (version.folder / MANIFEST).stat().st_mtime_ns
    if not created and written:
        # Without a date it would sort as the oldest.
        created = datetime.fromtimestamp(written / 1e9, timezone.utc).isoformat()
    return created, written, version.name


def _write_pointer(path: Path, promoted: list[str]) -> None:
    content = {"format": FORMAT, "format_version": FORMAT_VERSION}
    write_json(path / POINTER, {**content, "promoted": promoted[-MAX_PROMOTED:]})


def _move_version(staged: Path, folder: Path) -> None:
    """Move an artifact into the registry, replacing one with the same content."""
    if not folder.exists():
        staged.rename(folder)
    else:
        # Files are named by their content and the manifest is moved last, so it is always complete.
        for path in sorted(staged.iterdir(), key=lambda path: path.name == MANIFEST):
            path.replace(folder / path.name)
    sync_folder(folder)
    sync_folder(folder.parent)
