"""Requests of the recall clients, their parsed answers, and retries."""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Iterable, Sequence
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote

from groupnoise.core.checks import as_histories, check_count, check_positive, require
from groupnoise.exceptions import DataError, ParameterError, ServiceError
from groupnoise.recall.items import ItemId

RETRIED = frozenset({408, 429, 500, 502, 503, 504})
"""Status codes after which a request is retried: requests change nothing, and feedback that is
sent twice counts once."""
MAX_WAIT = 30.0
"""Most seconds between two attempts, whatever `Retry-After` says."""

_T = TypeVar("_T")
Flow = Generator[tuple[str, str, Any] | float, Any, _T]
"""Yields requests (method, path, body) and gets answers or errors; yields seconds to wait."""


class ClientAnswer(list[dict[str, Any]]):
    """The answer to each history, with the ids that feedback on it needs.

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


class ServiceRequests:
    """The requests of both clients.

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

    def _flow(self, method: str, path: str, body: Any = None) -> Flow[Any]:
        content = None if body is None else _as_json(body)
        for attempt in range(self._retries + 1):
            answer = yield method, path, content
            is_last = attempt == self._retries
            retry_after = None
            if isinstance(answer, Exception):
                problem = f"did not answer ({type(answer).__name__}: {answer})"
            elif answer.status_code < 400:
                return answer
            else:
                problem = f"answered {answer.status_code}: {_message(answer)}"
                is_last = is_last or answer.status_code not in RETRIED
                retry_after = answer.headers.get("Retry-After")
            if is_last:
                times = "once" if attempt == 0 else f"{attempt + 1} times"
                status = getattr(answer, "status_code", None)
                raise ServiceError(f"the service was asked {times} and {problem}.", status=status)
            yield self._wait(attempt, retry_after)

    def _wait(self, attempt: int, retry_after: str | None) -> float:
        # With jitter, so that clients that failed together do not retry together.
        wait = self._backoff * 2.0**attempt * (0.5 + random.random() / 2)
        if retry_after is not None and retry_after.isdecimal():
            wait = max(wait, float(retry_after))
        return min(wait, MAX_WAIT)

    def _recall(
        self, histories: Sequence[Sequence[ItemId]], options: dict[str, Any]
    ) -> Flow[ClientAnswer]:
        body = {"histories": [list(row) for row in as_histories(histories)], **options}
        answer = yield from self._flow("POST", "/v1/recall", body)
        content = answer.json()
        return ClientAnswer(
            content["results"],
            version=content.get("version", ""),
            request_id=answer.headers.get("X-Request-ID", ""),
        )

    def _feedback(
        self,
        answer: ClientAnswer,
        user: ItemId,
        shown: Sequence[ItemId],
        clicked: Sequence[ItemId],
        propensity: Sequence[float] | None,
    ) -> Flow[int]:
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
            body[name] = _ids(name, ids)
        if propensity is not None:
            body["propensity"] = list(propensity)
        return int((yield from self._flow("POST", "/v1/feedback", body)).json()["rows"])

    def _similar(self, item: ItemId, top: int) -> Flow[list[dict[str, Any]]]:
        path = f"/v1/similar/{quote(str(item), safe='')}?top={top}"
        return list((yield from self._flow("GET", path)).json()["items"])

    def _model(self) -> Flow[dict[str, Any]]:
        return dict((yield from self._flow("GET", "/v1/model")).json())

    def _lists(self) -> Flow[list[dict[str, Any]]]:
        return list((yield from self._flow("GET", "/v1/lists")).json()["lists"])

    def _put_list(self, name: str, ids: Sequence[ItemId]) -> Flow[dict[str, Any]]:
        path = f"/v1/lists/{quote(name, safe='')}"
        return dict((yield from self._flow("PUT", path, _ids("ids", ids))).json())

    def _delete_list(self, name: str) -> Flow[None]:
        yield from self._flow("DELETE", f"/v1/lists/{quote(name, safe='')}")


def _ids(name: str, ids: Sequence[ItemId]) -> list[ItemId]:
    if isinstance(ids, str):  # whose letters would be taken for ids
        raise DataError(f"{name} must be a sequence of item ids; got {ids!r}.")
    return list(ids)


def _as_json(body: Any) -> bytes:
    """Return a request body as JSON; numpy numbers become Python ones."""
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
