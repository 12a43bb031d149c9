"""The recall page in a real Chromium."""

import os
import re
from pathlib import Path

import pytest

from serving_support import TITLES, running_service, write_neighbour_shop, write_shop

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect
pytestmark = pytest.mark.browser
SCREENSHOTS = os.environ.get("GROUPNOISE_SCREENSHOTS")
"""A folder to keep screenshots in; they go to a temporary one where it is not set."""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    main, compare = write_shop(folder / "main"), write_neighbour_shop(folder / "compare")
    with running_service(folder, main, compare=compare) as running:
        yield running


@pytest.fixture
def page(browser):
    """A page that fails its test on any message in the console."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    messages = []
    opened.on("console", lambda message: messages.append(message.text))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    opened.messages = messages
    yield opened
    context.close()


def titles(page, model="main"):
    return page.locator(f"#list-{model} .item .title").all_inner_texts()


def clicked(page):
    return page.locator("#clicks .title").all_inner_texts()


def open_with(page, service, items):
    page.goto(f"{service.address}/#items={','.join(items)}")
    page.wait_for_selector("#lists:not([aria-busy]) .item")


@pytest.mark.slow
def test_it_opens_with_the_example_and_both_models(page, service, tmp_path):
    page.goto(service.address)
    page.wait_for_selector("#list-compare .item")
    assert clicked(page) == ["Green Tea", "Steel Hammer"]
    assert "Tea Cup" in titles(page)
    assert titles(page, "compare") == ["Tea Cup", "Long Nail"]
    card = page.locator("#cards .card").first.inner_text()
    assert "Six items" in card
    assert "hit@10" in card
    assert page.messages == []
    page.screenshot(path=Path(SCREENSHOTS or tmp_path) / "recall_page_test.png")


def test_an_item_is_searched_and_picked_by_keyboard_alone(page, service):
    page.goto(f"{service.address}/#items=tea")
    page.wait_for_selector("#list-main .item")
    page.focus("#search")
    page.keyboard.type("na")
    page.wait_for_selector("#suggestions [aria-selected=true] >> text=Long Nail")
    page.keyboard.press("Enter")
    page.wait_for_selector("#clicks .title >> text=Long Nail")
    assert clicked(page) == ["Green Tea", "Long Nail"]
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("#suggestions li")
    first = page.locator("#suggestions [aria-selected=true]").inner_text()
    page.keyboard.press("ArrowDown")
    assert page.locator("#suggestions [aria-selected=true]").inner_text() != first
    page.keyboard.press("Escape")
    assert page.locator("#suggestions").is_hidden()
    assert page.messages == []


def test_removing_and_clearing_clicks(page, service):
    open_with(page, service, ["tea", "hammer"])
    page.get_by_role("button", name="Remove Steel Hammer").press("Enter")
    expect(page.locator("#clicks li")).to_have_count(1)
    page.wait_for_selector("#lists:not([aria-busy])")
    assert titles(page)[:2] == ["Tea Cup", "Tea Spoon"]
    page.get_by_role("button", name="Clear").click()
    page.wait_for_selector("text=No known click yet")
    assert titles(page)[0] == "Tea Cup"
    assert "#" not in page.url


def test_why_names_the_match_and_the_noise(page, service):
    open_with(page, service, ["tea", "hammer", "cup"])
    assert page.locator("#clicks .is-noise .title").all_inner_texts() == ["Steel Hammer"]
    row = page.locator("#list-main .item").first
    assert row.locator("button").first.get_attribute("aria-expanded") == "true"
    assert re.search(r"Matched by (Green Tea|Tea Cup)", row.locator(".why").inner_text())
    assert row.locator(".share").count() == 3
    row.locator("button").first.focus()
    assert page.locator("#clicks .is-matched").count() == 1
    row.get_by_role("button", name="Click this item too").click()
    expect(page.locator("#clicks li")).to_have_count(4)
    assert page.messages == []


def test_options_change_what_is_recalled(page, service):
    open_with(page, service, ["tea"])
    page.select_option("#category", "tools")
    expect(page.locator("#list-main .item .title").first).not_to_contain_text("Tea")
    assert set(titles(page)) == {"Steel Hammer", "Long Nail", "Hand Saw"}
    assert page.locator("#list-compare").inner_text().endswith("Nothing passes these filters.")


def test_a_search_without_result_says_so(page, service):
    open_with(page, service, ["tea"])
    page.fill("#search", "zebra")
    page.wait_for_selector("text=No title holds “zebra”.")
    page.keyboard.press("Enter")
    assert clicked(page) == ["Green Tea"]


def test_unknown_items_are_reported(page, service):
    open_with(page, service, ["tea", "ghost"])
    assert "Not known to the model: ghost." in page.locator("#clicks-note").inner_text()


def test_text_from_the_artifact_is_never_run(page, tmp_path):
    titled = ["<img src=x onerror=alert(1)>", "b", "c", "d", "e", "f"]
    with running_service(tmp_path, write_shop(tmp_path / "a", titles=titled)) as service:
        open_with(page, service, ["tea"])
        assert clicked(page) == [titled[0]]
        assert page.locator("main img").count() == 0
        assert page.messages == []


def test_ids_with_signs_of_an_address_in_them_survive_a_reload(page, tmp_path):
    ids = ["50%", "a,b", "c&d=e#f", "ü +", "%2C", "g"]
    artifact = write_shop(tmp_path / "a", ids=ids, titles=ids, card={"example": ids[:5]})
    with running_service(tmp_path, artifact) as service:
        page.goto(service.address)
        page.wait_for_selector("#lists:not([aria-busy]) .item")
        assert clicked(page) == ids[:5]
        page.reload()
        page.wait_for_selector("#lists:not([aria-busy]) .item")
        assert clicked(page) == ids[:5]
        page.goto("about:blank")
        open_with(page, service, ["50%", "g"])
        assert clicked(page) == ["50%", "g"]
        assert page.messages == []


@pytest.mark.parametrize(
    "card",
    [
        {"metrics": None, "data": [None], "name": None, "example": None},
        {"metrics": {"hit@10": None}, "nested": {"a": {"b": None}}, "example": "tea"},
        {"metrics": 0.5, "summary": ["x"], "example": [None, {}, "tea"]},
    ],
)
def test_any_card_is_shown(page, tmp_path, card):
    with running_service(tmp_path, write_shop(tmp_path / "a", card=card)) as service:
        page.goto(service.address)
        page.wait_for_selector("#lists:not([aria-busy]) .item")
        assert "version" in page.locator("#cards .card").inner_text()
        assert page.locator("#banner").is_hidden()
        assert page.messages == []


def test_a_fault_of_the_page_is_shown_in_the_banner(page, service):
    page.route("**/v1/model", lambda route: route.fulfill(json={"main": {"card": {}}}))
    page.goto(service.address)
    page.wait_for_selector("#banner >> text=Cannot read")
    page.unroute("**/v1/model")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("#lists:not([aria-busy]) .item")


def test_a_silent_service_is_reported_and_can_be_tried_again(page, tmp_path):
    with running_service(tmp_path, write_shop(tmp_path / "a")) as service:
        open_with(page, service, ["tea"])
        page.route("**/v1/**", lambda route: route.abort())
        page.get_by_role("button", name="Clear").click()
        page.wait_for_selector("#banner >> text=The service does not answer.")
        page.unroute("**/v1/**")
        page.get_by_role("button", name="Try again").click()
        page.wait_for_selector("#banner", state="hidden")


def test_a_refusal_is_shown_in_its_own_words(page, service):
    page.goto(f"{service.address}/#items={','.join(['tea'] * 201)}")
    page.wait_for_selector("#banner >> text=A history holds 201 items")


def test_a_token_is_asked_for_and_used(page, tmp_path):
    with running_service(tmp_path, write_shop(tmp_path / "a"), token="s3cret") as service:
        page.goto(service.address)
        page.fill("#token", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_timeout(200)
        assert page.locator("#token-form").is_visible()
        page.fill("#token", "s3cret")
        page.keyboard.press("Enter")
        page.wait_for_selector("#list-main .item")
        assert page.locator("#token-form").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_follow_the_system_and_the_button(browser, service, scheme):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    open_with(page, service, ["tea"])
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == scheme
    page.click("#theme")
    assert page.evaluate(theme) != scheme
    context.close()


def test_a_phone_needs_no_sideways_scrolling(browser, service):
    context = browser.new_context(viewport={"width": 360, "height": 740}, is_mobile=True)
    page = context.new_page()
    open_with(page, service, ["tea", "hammer", "cup"])
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    context.close()


def test_many_categories_stay_inside_their_list_and_equal_names_are_told_apart(browser, tmp_path):
    labels = [[f"category{n}", "brand=Acme and Sons", "price=55.15"] for n in range(6)]
    main = write_shop(tmp_path / "main", categories=labels, card={"name": "Next item"})
    other = write_neighbour_shop(tmp_path / "compare")
    with running_service(tmp_path, main, compare=other) as service:
        for width in (360, 1100):
            context = browser.new_context(viewport={"width": width, "height": 740})
            page = context.new_page()
            open_with(page, service, ["tea"])
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert not page.evaluate(
                "[...document.querySelectorAll('.list')].some((e) => e.scrollWidth > e.clientWidth)"
            )
            assert "category1 · brand=Acme and Sons" in page.locator("#list-main").inner_text()
            names = page.locator("#cards h3").all_inner_texts()
            assert len(set(names)) == 2
            assert all(name.startswith("Next item ") for name in names)
            context.close()


def test_each_interest_is_headed_by_its_click_however_long_its_title(browser, tmp_path):
    words = "The large green tea of the second flush, loose and organic, in a tin with a lid"
    titles = [words, *TITLES[1:]]
    artifact = write_shop(tmp_path / "main", titles=titles)
    with running_service(tmp_path, artifact) as service:
        for width in (360, 1100):
            context = browser.new_context(viewport={"width": width, "height": 740})
            page = context.new_page()
            open_with(page, service, ["tea", "hammer"])
            page.select_option("#interests", "2")
            heads = page.locator("#list-main .led-by")
            expect(heads).to_have_count(2)
            assert set(heads.all_inner_texts()) == {f"for {words}", "for Steel Hammer"}
            ranks = [int(rank) for rank in page.locator("#list-main .rank").all_inner_texts()]
            assert ranks.count(1) == 2
            assert max(ranks) < len(ranks)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            context.close()


def test_nothing_is_loaded_from_elsewhere(page, service):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    open_with(page, service, ["tea"])
    foreign = [url for url in asked if not url.startswith((service.address, "data:"))]
    assert foreign == []


def test_filters_variety_interests_and_lists_are_asked_from_the_page(page, tmp_path):
    labels = [["kitchen", "brand=Acme"], ["kitchen", "brand=Bolt"], ["kitchen"]]
    labels += [["tools", "brand=Acme"], ["tools", "brand=Bolt"], ["tools"]]
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "stock.txt").write_text("cup\nnail\n")
    artifact = write_shop(tmp_path / "artifact", categories=labels)
    with running_service(tmp_path, artifact, lists=lists) as service:
        open_with(page, service, ["tea", "hammer"])
        page.select_option("#interests", "2")
        expect(page.locator("#list-main .led-by").first).to_have_text(re.compile("^for "))
        assert set(page.locator("#list-main .led-by").all_inner_texts()) == {
            "for Green Tea",
            "for Steel Hammer",
        }
        page.select_option("#interests", "")
        page.select_option("#list", "stock")
        expect(page.locator("#list-main .item")).to_have_count(2)
        page.select_option("#deny", "stock")
        expect(page.locator("#list-main .empty")).to_be_visible()
        page.select_option("#list", "")
        page.select_option("#deny", "")
        # Without either list, four items: two on the way to this would look like the two below.
        expect(page.locator("#list-main .item")).to_have_count(4)
        page.select_option("#cap", "1")
        expect(page.locator("#list-main .item")).to_have_count(2)
        expect(page.locator("#cap-name")).to_have_text("Per category")
        page.select_option("#cap-of", "brand")  # one of two, and two items without one
        expect(page.locator("#list-main .item")).to_have_count(3)
        expect(page.locator("#cap-name")).to_have_text("Per brand")
        page.select_option("#cap", "")
        page.fill("#filter", '{"brand": "Bolt"}')
        page.keyboard.press("Tab")
        expect(page.locator("#list-main .item")).to_have_count(2)
        assert set(titles(page)) == {"Tea Cup", "Long Nail"}
        page.fill("#filter", "brand")
        page.keyboard.press("Tab")
        expect(page.locator("#banner")).to_contain_text("A filter is written as JSON")
        page.fill("#filter", "")
        page.select_option("#diversity", "0.7")
        page.fill("#min-score", "1000")
        page.keyboard.press("Tab")
        expect(page.locator("#list-main .empty")).to_be_visible()
        assert page.messages == []
