"""Whatever bytes come in, the text readers answer with data or with our own error."""

import gzip
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from groupnoise.bags import read_bags
from groupnoise.candidates import read_candidates
from groupnoise.clicks import convert_clicks, read_clicks
from groupnoise.exceptions import GroupNoiseError

words = st.one_of(
    st.sampled_from(["", "1", "007", "-3", "1e400", "nan", "inf", '"', '""', "a b", "é", "9" * 30]),
    st.text(max_size=6),
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(str),
)
headers = st.sampled_from(
    [
        "user,item", "user,item,time,rating", "bag,label,f1,f2", "bag,label,truth,f",
        "x,candidates,truth", "x,candidate_a,candidate_b", "user;item", "user\titem", "", "user",
    ]
)  # fmt: skip
separators = st.sampled_from([",", ";", "\t", " ", "  ", "|"])
line_ends = st.sampled_from(["\n", "\r\n", "\n\n", "\r"])


@st.composite
def almost_tables(draw):
    """Return text that is nearly a table: a usual header, then rows of odd cells."""
    separator, line_end = draw(separators), draw(line_ends)
    rows = draw(st.lists(st.lists(words, max_size=5), max_size=8))
    lines = [draw(headers), *(separator.join(row) for row in rows)]
    return line_end.join(lines).encode("utf-8", "surrogatepass")


def lists_and_objects(inner):
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lists_and_objects,
    max_leaves=6,
)


@st.composite
def almost_json_lines(draw):
    names = st.sampled_from(["user", "item", "items", "time", "bag", "label", "features", "f"])
    rows = draw(st.lists(st.dictionaries(names, json_values, max_size=4), max_size=5))
    return "\n".join(json.dumps(row) for row in rows).encode("utf-8", "surrogatepass")


contents = st.one_of(st.binary(max_size=80), almost_tables(), almost_json_lines())
# The same inputs in every run: a submission is not refused for what it did not touch. To look for
# new ones, take derandomize out.
often = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def outcome(read, *arguments, **options):
    """Return what was read, or None if it was refused in our own words."""
    try:
        return read(*arguments, **options)
    except GroupNoiseError:
        return None


@pytest.mark.parametrize("suffix", ["csv", "tsv", "txt", "jsonl", "csv.gz"])
@given(content=contents)
@often
@example(content=b"user,item\n1,2\n")
@example(content=b'{"user":1,"item":2}\n')
@example(content=b"\xff\xfe")
@example(content=b"user item\n1 \x1cx\n")
@example(content="1 a\u00a0b\n2 \u00a0c\n".encode())
def test_clicks_are_read_or_refused_the_same_way_whole_and_in_blocks(suffix, content):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / f"log.{suffix}"
        path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
        whole = outcome(read_clicks, path)
        streamed = outcome(convert_clicks, path, folder / "out", rows_at_once=2)
        if whole is not None and streamed is not None:
            assert streamed.histories.objects.tolist() == whole.histories.objects.tolist()
            assert streamed.item_ids.tolist() == whole.item_ids.tolist()
        if streamed is None:
            assert [entry.name for entry in folder.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
@given(content=contents)
@often
def test_bags_and_candidates_are_read_or_refused(suffix, content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{suffix}"
        path.write_bytes(content)
        outcome(read_bags, path)
        outcome(read_candidates, path)


@pytest.mark.parametrize("suffix", ["npz", "mat", "parquet", "arrow", "txt.gz"])
@given(content=st.binary(max_size=200))
@often
def test_binary_rubbish_is_refused(suffix, content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data.{suffix}"
        path.write_bytes(content)
        assert outcome(read_candidates, path) is None
        outcome(read_clicks, path)
