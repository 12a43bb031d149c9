"""The page of an audit in a real Chromium: filters that need no server."""

from dataclasses import replace

import numpy as np
import pytest

from groupnoise import MaxMatchingMILClassifier, find_group_issues
from groupnoise.audit import write_audit_page
from groupnoise.bags import load_digit_bags

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    bags = load_digit_bags(120, random_state=0)
    model = MaxMatchingMILClassifier(background=True, max_epochs=20, random_state=0)
    model.fit(bags.bags, bags.labels.argmax(axis=1))
    labels = bags.labels.copy()
    labels[::3] = np.roll(labels[::3], 1, axis=1)  # now these look wrong
    bags = replace(bags, labels=labels)
    issues = find_group_issues(model, bags)
    path = tmp_path_factory.mktemp("audit") / "report.html"
    write_audit_page(path, issues, bags, how="One model judged.", command="groupnoise audit")
    return path


@pytest.fixture(params=[(1200, "light"), (390, "dark")], ids=["wide light", "phone dark"])
def page(request, browser, report):
    """The report, opened from disk; anything it says in the console fails the test."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened, messages = context.new_page(), []
    opened.on("console", lambda message: messages.append(message.text))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    opened.on("request", lambda asked: messages.append(asked.url) if _leaves(asked.url) else None)
    opened.goto(report.as_uri())
    yield opened
    context.close()
    assert messages == []


def _leaves(address):
    return not address.startswith(("file:", "data:"))


def cards(page):
    return page.locator(".case:visible")


def test_every_case_is_shown_with_its_pictures_and_nothing_sticks_out(page):
    assert cards(page).count() == 40
    assert page.locator("#count").inner_text() == "40 of 40 cases shown"
    assert page.evaluate("document.images.length") > 200
    assert page.evaluate("[...document.images].every((image) => image.naturalWidth === 8)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_list_can_be_singled_out_by_its_count_and_by_the_field(page):
    page.locator('.summary a[data-kind="no_credible_object"]').click()
    assert cards(page).count() == 20
    assert page.locator("#kind").input_value() == "no_credible_object"
    assert page.locator("details:visible").count() == 1
    assert "20 of 40" in page.locator("#count").inner_text()


def test_filters_add_up_and_can_be_cleared(page):
    page.locator("#label").select_option("3")
    of_three = cards(page).count()
    assert 0 < of_three < 40
    assert all("labelled 3" in text for text in cards(page).locator("figcaption").all_inner_texts())
    scores = [float(text) for text in cards(page).locator(".score").all_inner_texts()]
    limit = sorted(scores)[len(scores) // 2]
    page.locator("#least").fill(f"{limit:.2f}")
    assert 0 < cards(page).count() <= of_three
    assert page.locator("#least-shown").inner_text() == f"{limit:.2f}"
    page.locator("#filters button").click()
    page.wait_for_function("document.querySelectorAll('.case:not([hidden])').length === 40")


def test_search_finds_cards_and_rows_of_the_lists(page):
    first = page.locator(".case").first.get_attribute("data-words").split()[0]
    page.locator("#words").fill(f"{first} labelled")
    assert 0 < cards(page).count() < 40
    page.locator("#words").fill("nothing like this")
    assert cards(page).count() == 0
    assert page.locator("tbody tr:visible").count() == 0
