"""The schemas of requests and answers, and the parsing and validation of requests."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, FailFast, Field, StrictInt, StrictStr, ValidationError
from pydantic_core import from_json

from groupnoise.core.checks import did_you_mean
from groupnoise.core.words import counted
from groupnoise.recall.http.answers import MAX_QUOTED, Refusal, validation_message
from groupnoise.recall.http.settings import Limits
from groupnoise.recall.options import MAX_INTERESTS

ItemId = StrictInt | StrictStr
# One error is enough to refuse a list; thousands would take long to report.
ItemIds = Annotated[list[ItemId], FailFast()]
ModelName = Literal["main", "compare"]
_Request = TypeVar("_Request", bound=BaseModel)
_LISTS = ("allow", "deny", "categories", "allow_lists", "deny_lists")
_PLAIN_FIELDS = frozenset({"histories", "top", "user"})
_IDS = frozenset({int, str})


class DocumentedModel(BaseModel):
    """A model whose fields are described by the docstrings below them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class RecallRequest(DocumentedModel):
    """Histories to answer, and how."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"histories": [["tea", "cup"], []], "top": 5}]},
    )

    histories: Annotated[
        list[ItemIds], FailFast(), Field(min_length=1, examples=[[["i12", "i7"], []]])
    ]
    """Each a list of item ids, oldest click first."""
    top: Annotated[int, Field(ge=1, strict=True)] = 10
    """Items per history; per interest, where interests are asked for."""
    scope: Annotated[
        Literal["group", "last"] | None,
        Field(
            description="Score by the latest clicks, as many as the model was trained on, or by "
            "the last alone; by default as the model was trained."
        ),
    ] = None
    exclude_seen: bool = True
    """Leave out the history's own items."""
    allow: Annotated[ItemIds, Field(examples=[["i7", "i30"]])] = []
    """Recall only these, if any."""
    deny: Annotated[ItemIds, Field(examples=[["i12"]])] = []
    """Never recall these."""
    categories: Annotated[
        list[str],
        FailFast(),
        Field(
            description="Recall only from these, if any; an item of one of them is enough, where "
            "`filter` may ask for several things at once.",
            examples=[["kitchen", "tools"]],
        ),
    ] = []
    per_category: Annotated[int | None, Field(ge=1)] = None
    """At most this many items of one category."""
    user: Annotated[ItemId | None, Field(examples=["u7"])] = None
    """The user, which decides who gets the canary; neither stored nor logged."""
    filter: Annotated[
        dict[str, Any] | None,
        Field(
            description="Attributes an item must have: a value or a list of which one is enough; "
            "several names must all hold; `and` and `or` hold lists of filters, `not` one.",
            examples=[{"brand": ["Acme", "Bolt"], "not": {"category": "tools"}}],
        ),
    ] = None
    allow_lists: Annotated[list[str], FailFast(), Field(examples=[["in-stock"]])] = []
    """Recall only what is on all of these lists."""
    deny_lists: Annotated[list[str], FailFast(), Field(examples=[["recalled"]])] = []
    """Recall nothing that is on any of these lists."""
    max_per: Annotated[
        dict[str, Annotated[int, Field(ge=1, strict=True)]], Field(examples=[{"brand": 2}])
    ] = {}
    """For attributes, how many items may share a value."""
    diversity: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.0
    """How much dissimilarity counts beside the score."""
    min_score: Annotated[float | None, Field(strict=True)] = None
    """Leave out matching scores below this."""
    interests: Annotated[int | None, Field(ge=1, le=MAX_INTERESTS, strict=True)] = None
    """Answer for so many interests."""
    model: ModelName = "main"
    """The model, or the one beside it."""
    explain: bool = False
    """Add which click matched, and weights."""


class Match(DocumentedModel):
    """The click that matched a recalled item best."""

    item: int | str
    responsibility: float
    """The click's share of the item's score."""


class RankedItem(DocumentedModel):
    """A recalled item."""

    item: int | str
    score: float
    title: str | None
    category: str | None
    click: int | str | None = None
    """The click that stands for the item's interest."""
    matched: Match | None = None
    shares: list[float] | None = None
    """Each click's share of the score, in order; with `interests` of the score by `click` alone."""


class WeighedClick(DocumentedModel):
    """A click of the history with its weight."""

    item: int | str
    title: str | None
    category: str | None
    weight: float | None
    """P(click | history); of a plain `fit` the mean of its shares over the items."""
    is_noise: bool | None
    """True if the other clicks do not support it; null if the model does not judge clicks."""


class RecallResult(DocumentedModel):
    """The answer to one history."""

    items: list[RankedItem]
    source: Literal["history", "popularity"]
    unknown: list[int | str]
    """Ids the model does not know."""
    clicks: list[WeighedClick] | None = None


class RecallAnswer(DocumentedModel):
    """The answer to a request, one result per history."""

    model: ModelName
    version: str
    results: list[RecallResult]


class SimilarAnswer(DocumentedModel):
    """The items that best follow one item."""

    item: int | str
    version: str
    items: list[RankedItem]


class FoundItem(DocumentedModel):
    """An item found by its title."""

    item: int | str
    title: str | None
    category: str | None
    popularity: float


class ItemsAnswer(DocumentedModel):
    """The items a title search found."""

    items: list[FoundItem]


class ModelDescription(DocumentedModel):
    """The description of a model."""

    version: str
    kind: str
    n_items: int
    dimension: int | None
    clicks_used: str
    """The clicks that are used by default."""
    created: str | None
    categories: list[str]
    attributes: dict[str, list[str]]
    """The values a filter may name, by attribute."""
    index: dict[str, Any] | None
    card: dict[str, Any]


class ServiceDescription(DocumentedModel):
    """The models in use and the limits of the service."""

    main: ModelDescription
    compare: ModelDescription | None
    canary: ModelDescription | None
    limits: dict[str, float]


class Switch(DocumentedModel):
    """A model before and after a reload."""

    before: str
    after: str


class ReloadAnswer(DocumentedModel):
    """What a reload changed."""

    main: Switch
    compare: Switch | None
    canary: Switch | None


class ErrorDetail(DocumentedModel):
    """Why a request was refused."""

    code: str
    message: str
    limit: float | None = None
    request_id: str


class ErrorAnswer(DocumentedModel):
    """The answer to every refused request."""

    error: ErrorDetail


def validate_request(kind: type[_Request], values: Any) -> _Request:
    """Return a validated request of a kind, or refuse it in one sentence."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise Refusal(422, "invalid_request", validation_message(found)) from None


def parse_recall_request(values: Any, limits: Limits) -> RecallRequest:
    """Return the recall request in the JSON of a body, or refuse it."""
    if isinstance(values, dict):
        _check_sizes(values, limits)
    request = validate_request(RecallRequest, values)
    check_limit(limits, "top", request.top, f"top is {request.top}")
    n_items_each = request.top * (request.interests or 1)
    if request.interests or request.diversity:
        n_items = len(request.histories) * n_items_each
        what = f"an answer of {counted(n_items, 'items')} with interests or diversity"
        check_limit(limits, "variety", n_items, what)
    if request.explain:
        n_shares = n_items_each * sum(len(history) for history in request.histories)
        what = f"clicks times items, over all histories, is {n_shares} with explain"
        check_limit(limits, "explain", n_shares, what)
    return request


class PlainRequest(NamedTuple):
    """A request of one history without options beside `top`."""

    history: list[int | str]
    top: int
    user: int | str | None


def parse_plain_request(values: Any, limits: Limits) -> PlainRequest | None:
    """Return a request of the most common form; None for any other and for invalid ones.

    It accepts a subset of :func:`parse_recall_request`, in a tenth of the time.
    """
    if type(values) is not dict or not values.keys() <= _PLAIN_FIELDS:
        return None
    histories, top, user = values.get("histories"), values.get("top", 10), values.get("user")
    if type(histories) is not list or len(histories) != 1 or type(top) is not int:
        return None
    history = histories[0]
    is_valid = (
        type(history) is list
        and len(history) <= limits.history_length
        and 1 <= top <= limits.top
        and _IDS.issuperset(map(type, history))
        and (user is None or type(user) in _IDS)
    )
    return PlainRequest(history, top, user) if is_valid else None


def read_body(body: bytes, content_type: str) -> Any:
    """Return the parsed JSON of a body, or refuse another content type or invalid JSON."""
    if content_type != "application/json" and not _is_json(content_type):
        message = "send the body as JSON, with the header `Content-Type: application/json`."
        raise Refusal(422, "invalid_request", message)
    return parse_json(body)


def parse_json(body: bytes) -> Any:
    """Return the parsed JSON of a body of any content type, or refuse invalid JSON."""
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(422, "invalid_request", f"the body is not JSON: {error}.") from None


def check_limit(limits: Limits, name: str, value: float, what: str) -> None:
    """Refuse a value above the named limit; `what` describes it in the message."""
    limit = getattr(limits, name)
    if value > limit:
        message = f"{what}; this service allows at most {limit}."
        raise Refusal(422, f"{name}_limit", message, limit=limit)


def _check_sizes(values: dict[str, Any], limits: Limits) -> None:
    fields = list(RecallRequest.model_fields)
    unknown = next((key for key in values if key not in fields), None)
    if unknown is not None:
        named = unknown[:MAX_QUOTED]
        meant = did_you_mean(named, fields) or "; /docs lists them"
        message = f"{named}: a request has no field of this name{meant}."
        raise Refusal(422, "invalid_request", message)
    n_histories = _length(values.get("histories"))
    check_limit(
        limits, "histories", n_histories, f"the request holds {counted(n_histories, 'histories')}"
    )
    if n_histories:
        longest = max(_length(history) for history in values["histories"])
        check_limit(limits, "history_length", longest, f"a history holds {longest} items")
    n_filters = max(_length(values.get(name)) for name in _LISTS)
    check_limit(
        limits, "filter_items", n_filters, f"a filter holds {counted(n_filters, 'entries')}"
    )


def _length(value: Any) -> int:
    """Return the length of a list, 0 for values that validation refuses."""
    return len(value) if isinstance(value, list) else 0


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")
