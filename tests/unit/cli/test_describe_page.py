"""A description as one HTML page."""

import re
from html.parser import HTMLParser

from groupnoise.cli.data import description_page
from groupnoise.io import describe, load_dataset
from groupnoise.io.description import Description, Histogram, format_fact
from groupnoise.io.registry import find_dataset


class Balanced(HTMLParser):
    """Collects tags and checks that every one is closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parsed(page):
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    return parser.seen


def test_the_page_is_whole_and_has_a_bar_for_every_count():
    description = describe(load_dataset("digit-bags"))
    tags = parsed(description_page(description, find_dataset("digit-bags")))
    n_bars = sum(len(histogram.counts) for histogram in description.histograms)
    assert tags.count("rect") == n_bars
    assert tags.count("svg") == len(description.histograms)


def test_the_page_needs_nothing_from_elsewhere():
    page = description_page(describe(load_dataset("shop")), find_dataset("shop"))
    assert not re.search(r"""<(script|link|img)|(src|href)=|url\(|@import""", page)


def test_names_from_the_data_cannot_break_the_page():
    histogram = Histogram("a < b", ("<script>alert(1)</script>",), (0,))
    hostile = Description("<b>x</b>", "mil", {"a & b": 1}, (histogram,), ("<i>odd</i>",))
    page = description_page(hostile)
    assert "<script>" not in page
    assert "&lt;b&gt;x&lt;/b&gt;" in page
    parsed(page)


def test_citation_and_terms_are_shown_for_named_sets_only():
    description = describe(load_dataset("digit-bags"))
    assert "CC BY 4.0" in description_page(description, find_dataset("digit-bags"))
    assert "Where it comes from" not in description_page(description)


def test_a_set_without_oddities_says_so():
    page = description_page(Description("x", "rs", {}, (Histogram("t", ("1",), (2,)),), ()))
    assert "Nothing odd was found." in page


def test_numbers_are_written_for_readers():
    assert [format_fact(value) for value in (1234567, 12345.6, 12.3456, 0.000123, "keep")] == [
        "1,234,567",
        "12,346",
        "12.3",
        "0.000123",
        "keep",
    ]
