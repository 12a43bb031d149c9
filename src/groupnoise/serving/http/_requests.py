"""From the bytes of a recall request to what is asked, refused at the first thing wrong.

The sizes are compared with the limits before anything is validated: a megabyte of small mistakes
would otherwise become a gigabyte of error messages that nobody reads.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from groupnoise.serving.http._errors import Refusal, sentence_of
from groupnoise.serving.http._schemas import RecallRequest
from groupnoise.serving.http._settings import Limits

LONGEST_QUOTED = 40
"""Characters of a client's own text that a refusal repeats."""


def parse_recall_request(body: bytes, content_type: str, limits: Limits) -> RecallRequest:
    """Return the request in a body, or refuse it.

    Parameters
    ----------
    body : bytes
        JSON; see `RecallRequest`.
    content_type : str
        The header of that name, empty where there was none.
    limits : Limits
        The most a request may ask for.
    """
    if not _is_json(content_type):
        message = "send the body as JSON, with the header `Content-Type: application/json`."
        raise Refusal(422, "invalid_request", message)
    try:
        values = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(422, "invalid_request", f"the body is not JSON: {error}.") from None
    if isinstance(values, dict):
        _check_sizes(values, limits)
    try:
        request = RecallRequest.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise Refusal(422, "invalid_request", sentence_of(first)) from None
    check_limit(limits, "top", request.top, f"top is {request.top}")
    if request.explain:
        n_shares = request.top * sum(len(history) for history in request.histories)
        what = f"clicks times top, over all histories, is {n_shares} with explain"
        check_limit(limits, "explain", n_shares, what)
    return request


def check_limit(limits: Limits, name: str, value: float, what: str) -> None:
    """Refuse a value above the named limit, saying what it is."""
    limit = getattr(limits, name)
    if value > limit:
        message = f"{what}; this service allows at most {limit}."
        raise Refusal(422, f"{name}_limit", message, limit=limit)


def _check_sizes(values: dict[str, Any], limits: Limits) -> None:
    unknown = next((key for key in values if key not in RecallRequest.model_fields), None)
    if unknown is not None:
        message = f"{unknown[:LONGEST_QUOTED]}: a request has no field of this name."
        raise Refusal(422, "invalid_request", message)
    n_histories = _length(values.get("histories"))
    check_limit(limits, "histories", n_histories, f"the request holds {n_histories} histories")
    if n_histories:
        longest = max(_length(history) for history in values["histories"])
        check_limit(limits, "history_length", longest, f"a history holds {longest} items")
    n_filters = max(_length(values.get(name)) for name in ("allow", "deny", "categories"))
    check_limit(limits, "filter_items", n_filters, f"a filter holds {n_filters} entries")


def _length(value: Any) -> int:
    """Return the length of a list, 0 for what validation will refuse anyway."""
    return len(value) if isinstance(value, list) else 0


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")
