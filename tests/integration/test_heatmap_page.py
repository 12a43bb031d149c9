"""The page of heat maps in a real Chromium: classes, sorting and filters that need no server."""

import numpy as np
import pytest

from groupnoise.bags.embedding.sources import Sources
from groupnoise.bags.heatmap import heatmap_page
from groupnoise.bags.object_predictions import ObjectPredictions
from groupnoise.core.groups import Groups
from groupnoise.io.datasets import BagDataset

pytestmark = pytest.mark.browser
N_BAGS = 6


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    generator = np.random.default_rng(0)
    offsets = 4 * np.arange(N_BAGS + 1)
    first = np.linspace(0.1, 0.9, N_BAGS).repeat(4)
    places = np.tile([[0, 0], [64, 0], [0, 64], [64, 64]], (N_BAGS, 1)).astype(float)
    answers = ObjectPredictions(
        bag_ids=[f"bag_{number}" for number in range(N_BAGS)],
        offsets=offsets,
        class_names=["cat", "dog"],
        probability=np.stack([first, 1 - first], axis=1),
        background=np.zeros(4 * N_BAGS),
        responsibility=np.full((4 * N_BAGS, 2), 0.25),
        answered=(first < 0.5).astype(int),
        predicted=["dog"] * 3 + ["cat"] * 3,
        coordinates=places,
        coordinate_names=("x", "y"),
    )
    labels = np.array([[True, False]] + [[False, True]] * 2 + [[True, False]] * 3)
    bags = Groups(generator.normal(size=(4 * N_BAGS, 3)), offsets)
    path = tmp_path_factory.mktemp("heatmap") / "map.html"
    dataset = BagDataset("animals", bags, labels, ["cat", "dog"])
    path.write_text(heatmap_page(answers, dataset, Sources(), command="groupnoise"))
    return path


@pytest.fixture(params=[(1200, "light"), (390, "dark")], ids=["wide light", "phone dark"])
def page(request, browser, report):
    """The page, opened from disk; anything it says in the console fails the test."""
    width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    opened, messages = context.new_page(), []
    opened.on("console", lambda message: messages.append(message.text))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    opened.goto(report.as_uri())
    yield opened
    context.close()
    assert messages == []


def names(page):
    cards = page.locator(".bag:visible")
    return [cards.nth(number).get_attribute("data-name") for number in range(cards.count())]


def test_the_class_decides_which_layer_is_seen(page):
    assert page.locator(".layer:visible").count() == N_BAGS
    assert page.locator(".layer.probability-0:visible").count() == 4  # each bag's own label
    assert page.locator(".layer.probability-1:visible").count() == 2
    assert page.locator(".class-gallery:visible").count() == 2
    page.select_option("#class", label="cat")
    assert page.locator(".layer.probability-0:visible").count() == N_BAGS
    page.select_option("#class", label="dog")
    page.select_option("#value", "responsibility")
    assert page.locator(".layer:visible").count() == N_BAGS
    assert page.locator(".layer.responsibility-1:visible").count() == N_BAGS
    assert page.locator(".class-gallery:visible").count() == 1
    assert page.evaluate("[...document.images].every((image) => image.naturalWidth === 2)")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_bags_are_sorted_by_the_class_that_is_shown(page):
    page.select_option("#order", "highest")
    assert names(page)[0] == "bag_5"  # by its own label
    assert names(page)[-1] == "bag_0"
    page.select_option("#class", label="cat")
    assert names(page) == [f"bag_{number}" for number in reversed(range(N_BAGS))]
    page.select_option("#class", label="dog")
    assert names(page) == [f"bag_{number}" for number in range(N_BAGS)]
    page.select_option("#order", "wrong")
    assert names(page)[0] == "bag_0"


def test_filters_go_together_and_are_cleared(page):
    page.select_option("#given", "cat")
    assert names(page) == ["bag_0", "bag_3", "bag_4", "bag_5"]
    page.check("#mistakes")
    assert names(page) == ["bag_0"]
    assert page.locator("#count").inner_text() == f"1 of {N_BAGS} bags shown"
    page.click("button[type=reset]")
    page.wait_for_function(f"document.querySelectorAll('.bag:not([hidden])').length === {N_BAGS}")
    page.fill("#words", "BAG_4")
    assert names(page) == ["bag_4"]


def test_colours_can_be_made_fainter_and_cards_larger(page):
    layer = page.locator(".layer:visible").first
    card = page.locator(".bag").first
    assert layer.evaluate("(each) => getComputedStyle(each).opacity") == "1"
    page.locator("#strength").fill("30")
    assert layer.evaluate("(each) => getComputedStyle(each).opacity") == "0.3"
    width = card.bounding_box()["width"]
    page.locator("#size").fill("40")
    assert card.bounding_box()["width"] > width or page.viewport_size["width"] < 500
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.click("button[type=reset]")
    # The page is drawn anew a moment after the fields have their values back.
    page.wait_for_function(
        "each => getComputedStyle(each).opacity === '1'", arg=layer.element_handle()
    )
    assert page.input_value("#strength") == "100"
