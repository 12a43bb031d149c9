"""The JSON that goes in and out, as the OpenAPI page shows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field, StrictInt, StrictStr

ItemId = StrictInt | StrictStr
# One mistake is enough to refuse a list; thousands of them take long to write down.
ItemIds = Annotated[list[ItemId], FailFast()]
ModelName = Literal["main", "compare"]


class RecallRequest(BaseModel):
    """Histories to answer, and how."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"histories": [["tea", "cup"], []], "top": 5}]},
    )

    histories: Annotated[
        list[ItemIds],
        FailFast(),
        Field(min_length=1, description="Each a list of item ids, oldest click first."),
    ]
    top: Annotated[int, Field(ge=1, strict=True, description="Items per history.")] = 10
    method: Annotated[
        Literal["mm+", "mm"], Field(description="Score by all clicks, or by the last alone.")
    ] = "mm+"
    exclude_seen: Annotated[bool, Field(description="Leave out the history's own items.")] = True
    allow: Annotated[ItemIds, Field(description="Recall only these, if any.")] = []
    deny: Annotated[ItemIds, Field(description="Never recall these.")] = []
    categories: Annotated[
        list[str], FailFast(), Field(description="Recall only from these, if any.")
    ] = []
    per_category: Annotated[
        int | None, Field(ge=1, description="At most this many items of one category.")
    ] = None
    model: Annotated[ModelName, Field(description="The model, or the one beside it.")] = "main"
    explain: Annotated[bool, Field(description="Add which click matched, and weights.")] = False


class Match(BaseModel):
    """The click that matched a recalled item best."""

    item: int | str
    share: Annotated[float, Field(description="Part of the item's score this click brought.")]


class RankedItem(BaseModel):
    """A recalled item."""

    item: int | str
    score: float
    title: str | None
    category: str | None
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
    created: str | None
    categories: list[str]
    index: dict[str, Any] | None
    card: dict[str, Any]


class ServiceDescription(BaseModel):
    """The models in use and the limits of the service."""

    main: ModelDescription
    compare: ModelDescription | None
    limits: dict[str, float]


class Switch(BaseModel):
    """A model before and after a reload."""

    before: str
    after: str


class ReloadAnswer(BaseModel):
    """What a reload changed."""

    main: Switch
    compare: Switch | None


class ErrorDetail(BaseModel):
    """Why a request was refused."""

    code: str
    message: str
    limit: float | None = None
    request_id: str


class ErrorAnswer(BaseModel):
    """The one shape of every refusal."""

    error: ErrorDetail
