"""Work done one step ahead, in a second thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

T = TypeVar("T")


def prefetch(values: Iterable[T]) -> Iterator[T]:
    """Yield `values` in order while the next one is already being made.

    What making a value raises is raised where it would have been yielded.
    """
    source, done = iter(values), object()
    with ThreadPoolExecutor(max_workers=1) as thread:

        def make_next() -> Any:
            return next(source, done)

        coming = thread.submit(make_next)
        while (value := coming.result()) is not done:
            coming = thread.submit(make_next)
            yield cast(T, value)
