"""Settings of the service: artifacts, address, token and limits."""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from groupnoise.core.checks import MAX_ID_LENGTH, check_count, check_fraction, check_positive
from groupnoise.exceptions import ParameterError
from groupnoise.recall.lists import MAX_LIST_BYTES


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits on single requests, and on all of them together.

    Attributes
    ----------
    body_bytes : int, default=1_000_000
        Size of a request body; above it 413.
    histories : int, default=256
        Histories in one request; above it 422.
    history_length : int, default=200
        Clicks in one history; above it 422.
    top : int, default=500
        Items requested per history; above it 422.
    explain : int, default=1_000_000
        Weights in an explained answer, one per click and item, over all histories; above it 422.
    filter_items : int, default=10_000
        Ids in an allow or deny list, and categories in a filter; above it 422.
    list_bytes : int, default=67_108_864
        Size of the body that replaces a named list; above it 413.
    variety : int, default=10_000
        Items over all histories of an answer with diversity or interests; above it 422.
    query_length : int, default=1000
        Characters of a title search; above it 422.
    seconds : float, default=10.0
        From the first byte of a request to its answer; above it 408.
    concurrency : int, default=1024
        Requests being answered at a time; above it 429.
    feedback_rows : int, default=5000
        Rows of feedback a second; above it 429.
    feedback_bytes : int, default=64_000_000
        Size of a file of feedback; then another is begun.
    feedback_files : int, default=16
        Files of feedback that are kept.
    """

    body_bytes: int = 1_000_000
    histories: int = 256
    history_length: int = 200
    top: int = 500
    explain: int = 1_000_000
    filter_items: int = 10_000
    list_bytes: int = MAX_LIST_BYTES
    variety: int = 10_000
    query_length: int = MAX_ID_LENGTH
    seconds: float = 10.0
    concurrency: int = 1024
    feedback_rows: int = 5000
    feedback_bytes: int = 64_000_000
    feedback_files: int = 16

    def __post_init__(self) -> None:
        for limit in fields(self):
            if limit.name == "seconds":
                check_positive(limit.name, self.seconds)
            else:
                check_count(limit.name, getattr(self, limit.name))


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Settings of a recall service.

    Attributes
    ----------
    artifact : path
        The model; of a registry the promoted version, and whichever is promoted later.
    compare : path, optional
        A second model, served beside it for comparison.
    canary : str, optional
        A version of the registry and the share of the users that get it, such as "3f9a=5%".
    feedback : path, optional
        A folder for the impressions and clicks that clients report.
    host : str, default="127.0.0.1"
        The address to listen on.
    port : int, default=8000
        The port to listen on; 0 takes a free one.
    token : str, optional
        Token that clients send as `Authorization: Bearer ...`; required beyond loopback.
    least_recall : float, default=0.0
        Refuse an artifact whose faiss index has a lower measured recall.
    lists : path, optional
        Folder of the named lists, one text file each; by default they are kept in memory.
    limits : Limits
        Limits on requests.
    grace_seconds : float, default=15.0
        How long running requests may take to finish after SIGTERM.
    processes : int, default=1
        Number of worker processes; several map the artifact and share its memory, and divide the
        limits on concurrency and rows of feedback.
    """

    artifact: Path
    compare: Path | None = None
    canary: str | None = None
    feedback: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    least_recall: float = 0.0
    lists: Path | None = None
    limits: Limits = field(default_factory=Limits)
    grace_seconds: float = 15.0
    processes: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ParameterError(f"port must lie between 0 and 65535; got {self.port}.")
        if "[" in self.host or "]" in self.host:
            raise ParameterError(f"host is written without brackets; got {self.host!r}.")
        if self.token is not None and not self.token.strip():
            raise ParameterError("token must not be empty; leave it out to serve loopback only.")
        token = self.token or ""
        if not (token.isascii() and token.isprintable() and token == token.strip()):
            raise ParameterError(
                "token must be printable ASCII without space around it; a header carries no other."
            )
        if self.token is None and not is_loopback(self.host):
            raise ParameterError(
                f"listening on {self.host} lets other machines in, which needs a token; give "
                "--token or set GROUPNOISE_TOKEN, or listen on 127.0.0.1."
            )
        check_fraction("least_recall", self.least_recall)
        check_positive("grace_seconds", self.grace_seconds)
        check_count("processes", self.processes)
        if self.processes > 1 and os.name != "posix":
            raise ParameterError("several processes need a system that shares sockets; give 1.")

    def as_record(self) -> dict[str, Any]:
        """Return the settings as a JSON-serializable record.

        Returns
        -------
        dict
            It includes the token: it is meant for a worker process of the same service.
        """
        return {
            name: str(value) if isinstance(value, Path) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> ServiceSettings:
        """Return settings from their record.

        Parameters
        ----------
        record : dict
            From :meth:`as_record`.

        Returns
        -------
        ServiceSettings
        """
        paths = {
            name: Path(record[name])
            for name in ("artifact", "compare", "feedback", "lists")
            if record[name] is not None
        }
        return cls(**{**record, **paths, "limits": Limits(**record["limits"])})


@dataclass(frozen=True)
class Canary:
    """A version that is served to a share of the users.

    `version`: a version of the registry, or a prefix of it.
    `share`: above 0 and at most 1.
    """

    version: str
    share: float

    @classmethod
    def parse(cls, word: str) -> Canary:
        """Parse a canary such as `3f9a=5%`.

        >>> Canary.parse("3f9a=5%")
        Canary(version='3f9a', share=0.05)
        """
        match = re.fullmatch(r"([0-9a-f]+)=(\d+(?:\.\d+)?)(%?)", word)
        share = 0.0 if match is None else float(match[2]) / (100 if match[3] else 1)
        # A bare 1 may be meant as one percent, and would be all users.
        if match is None or not 0 < share <= 1 or (share == 1 and not match[3]):
            raise ParameterError(
                f"a canary is a version and its share of the users, such as 3f9a=5%; got {word!r}."
            )
        return cls(match[1], share)

    def takes(self, user: int | str) -> bool:
        """Return whether a user gets this version; deterministic per user."""
        # The version is hashed too, so that canaries go to different users.
        digest = hashlib.sha256(f"{self.version}:{user}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.share * 2**64


def is_loopback(host: str) -> bool:
    """Return whether a host name is a loopback address.

    >>> is_loopback("localhost"), is_loopback("127.0.0.9"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
