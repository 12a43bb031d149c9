"""The JSON that goes in and out; a request is refused at the first thing wrong."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, FailFast, Field, StrictInt, StrictStr, ValidationError
from pydantic_core import from_json

from groupnoise.recall.http.answers import Refusal, about_errors
from groupnoise.recall.http.settings import Limits
from groupnoise.recall.options import MAX_INTERESTS

ItemId = StrictInt | StrictStr
# One mistake is enough to refuse a list; thousands of them take long to write down.
ItemIds = Annotated[list[ItemId], FailFast()]
ModelName = Literal["main", "compare"]
_LISTS = ("allow", "deny", "categories", "allow_lists", "deny_lists")
LONGEST_QUOTED = 40
"""Characters of a client's own text that a refusal repeats."""
_PLAIN_FIELDS = frozenset({"histories", "top", "user"})
_IDS = frozenset({int, str})


class RecallRequest(BaseModel):
    """Histories to answer, and how."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"histories": [["tea", "cup"], []], "top": 5}]},
    )

    histories: Annotated[
        list[ItemIds],
        FailFast(),
        Field(
            min_length=1,
            description="Each a list of item ids, oldest click first.",
            examples=[[["i12", "i7"], []]],
        ),
    ]
    top: Annotated[
        int,
        Field(
            ge=1,
            strict=True,
            description="Items per history; per interest, where interests are asked for.",
        ),
    ] = 10
    scope: Annotated[
        Literal["group", "last"] | None,
        Field(
            description="Score by the latest clicks, as many as the model was trained on, or by "
            "the last alone; by default as the model was trained."
        ),
    ] = None
    exclude_seen: Annotated[bool, Field(description="Leave out the history's own items.")] = True
    allow: Annotated[
        ItemIds, Field(description="Recall only these, if any.", examples=[["i7", "i30"]])
    ] = []
    deny: Annotated[ItemIds, Field(description="Never recall these.", examples=[["i12"]])] = []
    categories: Annotated[
        list[str],
        FailFast(),
        Field(
            description="Recall only from these, if any; an item of one of them is enough, where "
            "`filter` may ask for several things at once.",
            examples=[["kitchen", "tools"]],
        ),
    ] = []
    per_category: Annotated[
        int | None, Field(ge=1, description="At most this many items of one category.")
    ] = None
    user: Annotated[
        ItemId | None,
        Field(
            description="Who asks; decides who gets the canary, and is neither kept nor logged.",
            examples=["u7"],
        ),
    ] = None
    filter: Annotated[
        dict[str, Any] | None,
        Field(
            description="Attributes an item must have: a value or a list of which one is enough; "
            "several names must all hold; `and` and `or` hold lists of filters, `not` one.",
            examples=[{"brand": ["Acme", "Bolt"], "not": {"category": "tools"}}],
        ),
    ] = None
    allow_lists: Annotated[
        list[str],
        FailFast(),
        Field(description="Recall only what is on all of these lists.", examples=[["in-stock"]]),
    ] = []
    deny_lists: Annotated[
        list[str],
        FailFast(),
        Field(description="Recall nothing that is on any of these lists.", examples=[["recalled"]]),
    ] = []
    max_per: Annotated[
        dict[str, Annotated[int, Field(ge=1, strict=True)]],
        Field(
            description="For attributes, how many items may share a value.",
            examples=[{"brand": 2}],
        ),
    ] = {}
    diversity: Annotated[
        float,
        Field(ge=0, le=1, strict=True, description="How much unlikeness counts beside the score."),
    ] = 0.0
    min_score: Annotated[
        float | None, Field(strict=True, description="Leave out matching scores below this.")
    ] = None
    interests: Annotated[
        int | None,
        Field(ge=1, le=MAX_INTERESTS, strict=True, description="Answer for so many interests."),
    ] = None
    model: Annotated[ModelName, Field(description="The model, or the one beside it.")] = "main"
    explain: Annotated[bool, Field(description="Add which click matched, and weights.")] = False


class Match(BaseModel):
    """The click that matched a recalled item best."""

    item: int | str
    responsibility: Annotated[
        float, Field(description="Part of the item's score this click brought.")
    ]


class RankedItem(BaseModel):
    """A recalled item."""

    item: int | str
    score: float
    title: str | None
    category: str | None
    click: Annotated[
        int | str | None, Field(description="The click that stands for the item's interest.")
    ] = None
    matched: Match | None = None
    shares: Annotated[
        list[float] | None, Field(description="Part of the score each click brought, in order.")
    ] = None


class WeighedClick(BaseModel):
    """A click of the history, weighed by the others."""

    item: int | str
    title: str | None
    category: str | None
    weight: Annotated[float | None, Field(description="P(click | history).")]
    is_noise: Annotated[bool | None, Field(description="True where the others point away.")]


class RecallResult(BaseModel):
    """The answer to one history."""

    items: list[RankedItem]
    source: Literal["history", "popularity"]
    unknown: Annotated[list[int | str], Field(description="Ids the model does not know.")]
    clicks: list[WeighedClick] | None = None


class RecallAnswer(BaseModel):
    """The answer to a request, one result per history."""

    model: ModelName
    version: str
    results: list[RecallResult]


class SimilarAnswer(BaseModel):
    """The items that best follow one item."""

    item: int | str
    version: str
    items: list[RankedItem]


class FoundItem(BaseModel):
    """An item found by its title."""

    item: int | str
    title: str | None
    category: str | None
    popularity: float


class ItemsAnswer(BaseModel):
    """The items a title search found."""

    items: list[FoundItem]


class ModelDescription(BaseModel):
    """What an artifact says about itself."""

    version: str
    kind: str
    n_items: int
    dimension: int | None
    clicks_used: Annotated[str, Field(description="What an answer is made from by default.")]
    created: str | None
    categories: list[str]
    attributes: Annotated[
        dict[str, list[str]], Field(description="The values a filter may name, by attribute.")
    ]
    index: dict[str, Any] | None
    card: dict[str, Any]


class ServiceDescription(BaseModel):
    """The models in use and the limits of the service."""

    main: ModelDescription
    compare: ModelDescription | None
    canary: ModelDescription | None
    limits: dict[str, float]


class Switch(BaseModel):
    """A model before and after a reload."""

    before: str
    after: str


class ReloadAnswer(BaseModel):
    """What a reload changed."""

    main: Switch
    compare: Switch | None
    canary: Switch | None


class ErrorDetail(BaseModel):
    """Why a request was refused."""

    code: str
    message: str
    limit: float | None = None
    request_id: str


class ErrorAnswer(BaseModel):
    """The one shape of every refusal."""

    error: ErrorDetail


def checked_request(values: Any, limits: Limits) -> RecallRequest:
    """Return the request that the JSON of a body makes, or refuse it.

    `values`: what JSON held; see `RecallRequest`. `limits`: the most a request may ask for.
    """
    if isinstance(values, dict):
        _check_sizes(values, limits)
    try:
        request = RecallRequest.model_validate(values)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise Refusal(422, "invalid_request", about_errors(found)) from None
    check_limit(limits, "top", request.top, f"top is {request.top}")
    if request.interests or request.diversity:
        n_items = len(request.histories) * request.top * (request.interests or 1)
        what = f"an answer of {n_items} items with interests or diversity"
        check_limit(limits, "variety", n_items, what)
    if request.explain:
        n_shares = request.top * sum(len(history) for history in request.histories)
        what = f"clicks times top, over all histories, is {n_shares} with explain"
        check_limit(limits, "explain", n_shares, what)
    return request


class PlainRequest(NamedTuple):
    """One history and how many items it wants, asked without any other option."""

    history: list[int | str]
    top: int
    user: int | str | None


def plain_request(values: Any, limits: Limits) -> PlainRequest | None:
    """Return the request that most clients send; None for all others and for what is invalid.

    It accepts nothing that :func:`checked_request` would not, in a tenth of the time.
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
    """Return the JSON of a body, or refuse what is none."""
    if content_type != "application/json" and not _is_json(content_type):
        message = "send the body as JSON, with the header `Content-Type: application/json`."
        raise Refusal(422, "invalid_request", message)
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(422, "invalid_request", f"the body is not JSON: {error}.") from None


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
    n_filters = max(_length(values.get(name)) for name in _LISTS)
    check_limit(limits, "filter_items", n_filters, f"a filter holds {n_filters} entries")


def _length(value: Any) -> int:
    """Return the length of a list, 0 for what validation will refuse anyway."""
    return len(value) if isinstance(value, list) else 0


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == "application/json" or media_type.endswith("+json")
