"""Clients of the recall service, waiting and asynchronous: timeouts, and retries that back off."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Generator, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar, cast
from urllib.parse import quote

from groupnoise.core.checks import as_histories, check_count, check_positive, require
from groupnoise.core.words import inherit_docstring
from groupnoise.exceptions import DataError, ParameterError, ServiceError
from groupnoise.recall.items import ItemId

RETRIED = frozenset({408, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed: what is asked here changes nothing, and
feedback that is sent twice counts once."""
MAX_WAIT = 30.0
"""Seconds between two attempts, whatever the service asks for."""

_T = TypeVar("_T")
_Flow = Generator[tuple[str, str, Any] | float, Any, _T]
"""Yields requests (method, path, body) and gets answers or errors; yields seconds to wait."""


class ClientAnswer(list[dict[str, Any]]):
    """The answer to each history, and what feedback on it must name.

    Parameters
    ----------
    results : iterable of dict
        The answer to each history.
    version : str, default=""
        The version of the model that gave it.
    request_id : str, default=""
        What the service calls the request.
    """

    def __init__(
        self, results: Iterable[dict[str, Any]] = (), *, version: str = "", request_id: str = ""
    ) -> None:
        super().__init__(results)
        self.version = version
        self.request_id = request_id


class _Requests:
    """What both clients ask, and what they make of the answers.

    Parameters
    ----------
    address : str
        Such as "http://127.0.0.1:8000".
    token : str, optional
        Of a service that asks for one.
    timeout : float, default=10.0
        Seconds for connecting, and for each read and write, of an attempt.
    retries : int, default=3
        Further attempts where the service cannot be reached, is busy or fails.
    backoff : float, default=0.1
        Seconds before the second attempt at most; twice as many before each that follows.
    """

    _kind: ClassVar[str]

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        timeout: float = 10.0,
        retries: int = 3,
        backoff: float = 0.1,
    ) -> None:
        check_count("retries", retries, least=0)
        check_positive("backoff", backoff, allow_zero=True)
        check_positive("timeout", timeout)
        if not str(address).startswith(("http://", "https://")):
            raise ParameterError(f"an address begins with http:// or https://; got {address!r}.")
        if token is not None and not token.isascii():
            raise ParameterError("token must be ASCII; a header carries no other.")
        self._retries = retries
        self._backoff = backoff
        self._httpx = require("httpx", extra="client")
        self._http = getattr(self._httpx, self._kind)(
            base_url=address,
            headers={
                "Content-Type": "application/json",
                **({} if token is None else {"Authorization": f"Bearer {token}"}),
            },
            timeout=timeout,
            trust_env=False,
        )

    def _flow(self, method: str, path: str, body: Any = None) -> _Flow[Any]:
        content = None if body is None else _as_json(body)
        for attempt in range(self._retries + 1):
            answer = yield method, path, content
            is_last = attempt == self._retries
            asked = None
            if isinstance(answer, Exception):
                said = f"did not answer ({type(answer).__name__}: {answer})"
            elif answer.status_code < 400:
                return answer
            else:
                said = f"answered {answer.status_code}: {_message(answer)}"
                is_last = is_last or answer.status_code not in RETRIED
                asked = answer.headers.get("Retry-After")
            if is_last:
                times = "once" if attempt == 0 else f"{attempt + 1} times"
                status = getattr(answer, "status_code", None)
                raise ServiceError(f"the service was asked {times} and {said}.", status=status)
            yield self._wait(attempt, asked)

    def _wait(self, attempt: int, asked: str | None) -> float:
        # Half of it by chance, or clients that failed together would come back together.
        wait = self._backoff * 2.0**attempt * (0.5 + random.random() / 2)
        if asked is not None and asked.isdecimal():
            wait = max(wait, float(asked))
        return min(wait, MAX_WAIT)

    def _recall(
        self, histories: Sequence[Sequence[ItemId]], options: dict[str, Any]
    ) -> _Flow[ClientAnswer]:
        body = {"histories": [list(row) for row in as_histories(histories)], **options}
        answer = yield from self._flow("POST", "/v1/recall", body)
        told = answer.json()
        return ClientAnswer(
            told["results"],
            version=told.get("version", ""),
            request_id=answer.headers.get("X-Request-ID", ""),
        )

    def _feedback(
        self,
        answer: ClientAnswer,
        user: ItemId,
        shown: Sequence[ItemId],
        clicked: Sequence[ItemId],
        propensity: Sequence[float] | None,
    ) -> _Flow[int]:
        if not isinstance(answer, ClientAnswer):
            raise ParameterError(
                "feedback is about a whole answer, as `recall` returned it; got a "
                f"{type(answer).__name__}."
            )
        body: dict[str, Any] = {
            "request_id": answer.request_id,
            "version": answer.version,
            "user": user,
        }
        for name, ids in (("shown", shown), ("clicked", clicked)):
            if isinstance(ids, str):  # whose letters would be taken for ids
                raise DataError(f"{name} must be a sequence of item ids; got {ids!r}.")
            body[name] = list(ids)
        if propensity is not None:
            body["propensity"] = list(propensity)
        return int((yield from self._flow("POST", "/v1/feedback", body)).json()["rows"])

    def _similar(self, item: ItemId, top: int) -> _Flow[list[dict[str, Any]]]:
        path = f"/v1/similar/{quote(str(item), safe='')}?top={top}"
        return list((yield from self._flow("GET", path)).json()["items"])

    def _model(self) -> _Flow[dict[str, Any]]:
        return dict((yield from self._flow("GET", "/v1/model")).json())


def _as_json(body: Any) -> bytes:
    """Return what is asked as JSON; numbers of numpy are what they are in Python."""
    try:
        return json.dumps(body, default=_plain, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise DataError(
            f"what is asked cannot be written as JSON ({error}); ids are whole numbers or text."
        ) from None


def _plain(value: Any) -> Any:
    if not hasattr(value, "tolist"):
        raise TypeError(f"{value!r} of type {type(value).__name__}")
    return value.tolist()


def _message(answer: Any) -> str:
    try:
        return str(answer.json()["error"]["message"]).rstrip(".")
    except (ValueError, KeyError, TypeError):
        return str(answer.text)[:200] or "nothing"


@inherit_docstring
class Client(_Requests):
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
        """Tell the service what was shown of an answer, and what was clicked.

        Parameters
        ----------
        answer : ClientAnswer
            What :meth:`recall` returned.
        user : int or str
            To whom.
        shown : sequence of item ids, default=()
            The items shown.
        clicked : sequence of item ids, default=()
            The items clicked, of those shown now or told of before.
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
        """Return what the service says of its model: version, items, card.

        Returns
        -------
        dict
        """
        return self._run(self._model())

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, flow: _Flow[_T]) -> _T:
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
class AsyncClient(_Requests):
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
        """Tell the service what was shown of an answer, and what was clicked."""
        return await self._run(self._feedback(answer, user, shown, clicked, propensity))

    async def similar(self, item: ItemId, *, top: int = 10) -> list[dict[str, Any]]:
        """Return the items that best follow one item."""
        return await self._run(self._similar(item, top))

    async def model(self) -> dict[str, Any]:
        """Return what the service says of its model."""
        return await self._run(self._model())

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, flow: _Flow[_T]) -> _T:
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
