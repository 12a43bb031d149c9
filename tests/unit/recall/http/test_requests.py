"""What a recall request is refused for, and in which words."""

import json

import pytest
from hypothesis import given, strategies as st

from groupnoise.recall.http import Limits
from groupnoise.recall.http.answers import Refusal
from groupnoise.recall.http.feedback import FeedbackRequest
from groupnoise.recall.http.requests import (
    RecallRequest,
    parse_plain_request,
    parse_recall_request,
    read_body,
    validate_request,
)

JSON = "application/json"


def read_request(body, content_type, limits):
    return parse_recall_request(read_body(body, content_type), limits)


def refusal_of(body, content_type=JSON, **limits):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(Refusal) as refused:
        read_request(content, content_type, Limits(**limits))
    assert refused.value.status == 422
    return refused.value


@pytest.mark.parametrize("content_type", [JSON, "Application/JSON; charset=utf-8", "a/b+json"])
def test_json_by_any_of_its_names_is_read(content_type):
    request = read_request(b'{"histories": [["tea", 5]]}', content_type, Limits())
    assert request.histories == [["tea", 5]]
    assert request.top == 10


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/x-www-form-urlencoded"])
def test_another_content_type_names_the_header_to_send(content_type):
    refusal = refusal_of({"histories": [[]]}, content_type)
    assert "`Content-Type: application/json`" in refusal.message


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"histories": [[NaN]]}', b"[" * 5000])
def test_what_is_no_json_is_said_to_be_none(body):
    message = refusal_of(body).message
    assert message.startswith("the body is not JSON: ")
    assert "line 1 column" in message


@pytest.mark.parametrize("escape", [r"\ud800", r"\udc00", r"\ud800\ud800"])
@pytest.mark.parametrize("body", ['{"histories": [["%s"]]}', '{"histories": [[]], "%s": 1}'])
def test_half_a_character_is_refused(body, escape):
    assert "is not JSON" in refusal_of((body % escape).encode()).message


def test_an_unknown_field_is_named_and_cut_to_a_readable_length():
    assert refusal_of({"tops": 3}).message.startswith("tops: ")
    assert "did you mean 'histories'?" in refusal_of({"history": [["tea"]]}).message
    assert len(refusal_of({"x" * 10_000: 3}).message) < 100


def test_every_field_gets_one_sentence_in_plain_words():
    body = {"histories": [["tea", 1.5]], "top": 0, "scope": "best", "exclude_seen": "maybe"}
    assert refusal_of({**body, "filter": 5}).message == (
        "histories.0.1: must be a whole number or text. top: must be a number of at least 1. "
        "scope: must be 'group' or 'last'. exclude_seen: must be true or false. filter: must be an "
        'object, such as {"brand": ["Acme", "Bolt"]}.'
    )
    assert refusal_of({}).message == "histories: it is missing."
    assert refusal_of({"histories": []}).message == "histories: must be a list of 1 or more."
    assert refusal_of(5).message == "the body: must be an object."


def test_what_feedback_must_name_is_said_in_words():
    with pytest.raises(Refusal) as caught:
        validate_request(FeedbackRequest, {"request_id": "a b", "user": "u7", "version": "newest"})
    assert caught.value.message == (
        "request_id: must be 1 to 64 letters, digits, dots, _ and -. version: must be a version as "
        "answers name it, such as 3f9a0c1d2e4b."
    )


def test_the_first_of_many_mistakes_is_told():
    assert refusal_of({"histories": [["tea"], ["tea", None, None]]}).message.startswith(
        "histories.1.1"
    )
    assert refusal_of([]).message.startswith("the body: ")


def test_reasons_are_limited_by_clicks_times_items():
    body = {"histories": [["tea"] * 3, ["cup"] * 2], "top": 4}
    assert read_request(json.dumps(body).encode(), JSON, Limits(explain=19)).top == 4
    assert refusal_of({**body, "interests": 3, "explain": True}, explain=59).limit == 59
    body["explain"] = True
    assert read_request(json.dumps(body).encode(), JSON, Limits(explain=20)).explain
    refusal = refusal_of(body, explain=19)
    assert (refusal.code, refusal.limit) == ("explain_limit", 19)
    assert "20 with explain" in refusal.message


def test_sizes_are_checked_before_what_is_inside():
    assert refusal_of({"histories": [[None] * 9]}, history_length=8).code == "history_length_limit"
    assert refusal_of({"histories": [None] * 9}, histories=8).code == "histories_limit"
    assert refusal_of({"allow": [None] * 9}, filter_items=8).limit == 8


ENTRIES = st.sampled_from([None, True, -1, 0, 3, 21, 2**70, 1.5, "", "tea"])
VALUES = st.one_of(ENTRIES, st.lists(st.one_of(ENTRIES, st.lists(ENTRIES, max_size=4)), max_size=3))


@given(st.dictionaries(st.sampled_from(["histories", "top", "user", "deny"]), VALUES))
def test_a_plain_request_is_one_that_the_schema_reads_the_same_way(values):
    limits = Limits(history_length=3, top=20)
    plain = parse_plain_request(values, limits)
    if plain is not None:
        request = parse_recall_request(values, limits)
        assert request == RecallRequest(histories=[plain.history], top=plain.top, user=plain.user)


def test_what_most_clients_send_is_a_plain_request():
    plain = parse_plain_request({"histories": [["tea", 5]], "top": 3, "user": "u"}, Limits())
    assert plain == (["tea", 5], 3, "u")
    assert parse_plain_request({"histories": [[]]}, Limits()) == ([], 10, None)
    assert parse_plain_request({"histories": [[], []]}, Limits()) is None
    assert parse_plain_request({"histories": [[]], "explain": False}, Limits()) is None
