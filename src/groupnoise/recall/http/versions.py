"""Two versions side by side: who gets the canary, and a service that follows its registry."""

from __future__ import annotations

import asyncio
import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from groupnoise.exceptions import GroupNoiseError, ParameterError
from groupnoise.recall.http.answers import Refusal
from groupnoise.recall.registry import POINTER, Registry, is_registry

if TYPE_CHECKING:
    from groupnoise.recall.http.service import RecallService

WATCH_SECONDS = 1.0


@dataclass(frozen=True)
class Canary:
    """A version that a share of the users get.

    `version`: a version of the registry, or how it begins.
    `share`: above 0 and at most 1.
    """

    version: str
    share: float

    @classmethod
    def parse(cls, word: str) -> Canary:
        """Return what a word such as `3f9a=5%` says.

        >>> Canary.parse("3f9a=5%")
        Canary(version='3f9a', share=0.05)
        """
        match = re.fullmatch(r"([0-9a-f]+)=(\d+(?:\.\d+)?)(%?)", word)
        share = 0.0 if match is None else float(match[2]) / (100 if match[3] else 1)
        if match is None or not 0 < share <= 1:
            raise ParameterError(
                f"a canary is a version and its share of the users, such as 3f9a=5%; got {word!r}."
            )
        return cls(match[1], share)

    def takes(self, user: int | str) -> bool:
        """Return whether a user gets this version: always the same answer for the same user."""
        # The version is hashed too, so that not the same users get every canary.
        digest = hashlib.sha256(f"{self.version}:{user}".encode()).digest()
        return int.from_bytes(digest[:8], "big") < self.share * 2**64


async def follow_promotions(service: RecallService, folder: Path) -> None:
    """Reload whenever another version is promoted, for as long as the service runs.

    A version that is refused is not tried again until another is promoted.
    """
    if not is_registry(folder):
        return
    seen: tuple[int, int] | None = None
    while True:
        with suppress(OSError, GroupNoiseError, Refusal):  # logged where it was refused
            found = (folder / POINTER).stat()
            stamp = found.st_ino, found.st_mtime_ns
            if stamp != seen:
                seen = stamp
                if Registry(folder).current != service.model().version:
                    await service.reload()
        await asyncio.sleep(WATCH_SECONDS)
