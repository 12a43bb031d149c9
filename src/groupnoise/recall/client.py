"""Clients of the recall service, waiting and asynchronous: timeouts, and retries that back off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar, cast

from groupnoise.core.words import inherit_docstring
from groupnoise.recall.client_requests import ClientAnswer, Flow, ServiceRequests
from groupnoise.recall.items import ItemId

_T = TypeVar("_T")


@inherit_docstring
class Client(ServiceRequests):
    """Asks a recall service and waits for its answers; connections are kept, threads may share it.

    Examples
    --------
    >>> with Client("http://127.0.0.1:8000") as client:  # doctest: +SKIP
    ...     answer = client.recall([["tea", "cup"]], top=5)
    """

    _kind = "Client"

    def recall(self, histories: Sequence[Sequence[ItemId]], **options: Any) -> ClientAnswer:
        """Return the answer to each history.

        Parameters
        ----------
        histories : sequence of sequences of item ids
            Clicks, oldest first.
        **options
            `top`, `scope`, `exclude_seen`, `allow`, `deny`, `categories`, `explain` and whatever
            else a request of the service may say.

        Returns
        -------
        ClientAnswer
            A list of dict: `items` (each with `item`, `score`, `title`), `source` and `unknown`.

        Raises
        ------
        ServiceError
            If the service refuses the request or cannot be reached.
        """
        return self._run(self._recall(histories, options))

    def feedback(
        self,
        answer: ClientAnswer,
        *,
        user: ItemId,
        shown: Sequence[ItemId] = (),
        clicked: Sequence[ItemId] = (),
        propensity: Sequence[float] | None = None,
    ) -> int:
        """Report the items of an answer that were shown and clicked.

        Parameters
        ----------
        answer : ClientAnswer
            What :meth:`recall` returned.
        user : int or str
            To whom.
        shown : sequence of item ids, default=()
            The items shown.
        clicked : sequence of item ids, default=()
            The items clicked, of those shown now or reported before.
        propensity : sequence of float, optional
            The chance of each item to be shown; equal by default.

        Returns
        -------
        int
            How many rows the service keeps of it.
        """
        return self._run(self._feedback(answer, user, shown, clicked, propensity))

    def similar(self, item: ItemId, *, top: int = 10) -> list[dict[str, Any]]:
        """Return the items that best follow one item.

        Parameters
        ----------
        item : int or str
            An item id.
        top : int, default=10
            How many items.

        Returns
        -------
        list of dict
            Each with `item`, `score`, `title`.
        """
        return self._run(self._similar(item, top))

    def model(self) -> dict[str, Any]:
        """Return the description of the model: version, items, card.

        Returns
        -------
        dict
        """
        return self._run(self._model())

    def lists(self) -> list[dict[str, Any]]:
        """Return the named lists of the service.

        Returns
        -------
        list of dict
            Each with `name`, `n_items`, `n_known` (items that the model knows), and `error` where
            its file can no longer be read.
        """
        return self._run(self._lists())

    def put_list(self, name: str, ids: Sequence[ItemId]) -> dict[str, Any]:
        """Replace a named list as a whole, or add it; requests name it in `allow_lists`.

        Parameters
        ----------
        name : str
            Letters, digits, - and _.
        ids : sequence of item ids
            All that is on it.

        Returns
        -------
        dict
            `name`, `n_items` and `n_known`.
        """
        return self._run(self._put_list(name, ids))

    def delete_list(self, name: str) -> None:
        """Forget a named list.

        Parameters
        ----------
        name : str
            Of a list that is there.
        """
        self._run(self._delete_list(name))

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, flow: Flow[_T]) -> _T:
        try:
            step = next(flow)
            while True:
                if isinstance(step, float):
                    time.sleep(step)
                    step = next(flow)
                    continue
                method, path, body = step
                try:
                    answer = self._http.request(method, path, content=body)
                except self._httpx.TransportError as error:
                    answer = error
                step = flow.send(answer)
        except StopIteration as end:
            return cast(_T, end.value)


@partial(inherit_docstring, like=Client)
class AsyncClient(ServiceRequests):
    """Asks a recall service without waiting; otherwise as :class:`Client`."""

    _kind = "AsyncClient"

    async def recall(self, histories: Sequence[Sequence[ItemId]], **options: Any) -> ClientAnswer:
        """Return the answer to each history."""
        return await self._run(self._recall(histories, options))

    async def feedback(
        self,
        answer: ClientAnswer,
        *,
        user: ItemId,
        shown: Sequence[ItemId] = (),
        clicked: Sequence[ItemId] = (),
        propensity: Sequence[float] | None = None,
    ) -> int:
        """Report the items of an answer that were shown and clicked."""
        return await self._run(self._feedback(answer, user, shown, clicked, propensity))

    async def similar(self, item: ItemId, *, top: int = 10) -> list[dict[str, Any]]:
        """Return the items that best follow one item."""
        return await self._run(self._similar(item, top))

    async def model(self) -> dict[str, Any]:
        """Return the description of the model."""
        return await self._run(self._model())

    async def lists(self) -> list[dict[str, Any]]:
        """Return the named lists of the service."""
        return await self._run(self._lists())

    async def put_list(self, name: str, ids: Sequence[ItemId]) -> dict[str, Any]:
        """Replace a named list as a whole, or add it; requests name it in `allow_lists`."""
        return await self._run(self._put_list(name, ids))

    async def delete_list(self, name: str) -> None:
        """Forget a named list."""
        await self._run(self._delete_list(name))

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, flow: Flow[_T]) -> _T:
        try:
            step = next(flow)
            while True:
                if isinstance(step, float):
                    await asyncio.sleep(step)
                    step = next(flow)
                    continue
                method, path, body = step
                try:
                    answer = await self._http.request(method, path, content=body)
                except self._httpx.TransportError as error:
                    answer = error
                step = flow.send(answer)
        except StopIteration as end:
            return cast(_T, end.value)
