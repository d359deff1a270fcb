"""The lab's page in a real browser: Debian's chromium, headless."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import browser as browser
from browser import opened
from cachax.lab import Matrix, known_probes, known_strategies
from cachax.lab._page import page as page_of
from cachax.lab._program import program

Page = Any


@pytest.fixture(params=["desktop", "phone"])
def page(
    browser: Any, matrix: Matrix, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Page]:
    """Loaded, with an empty console and without a request to a network."""
    file = tmp_path / "lab.html"
    file.write_text(page_of(matrix), encoding="utf-8")
    with opened(browser, file, request.param) as page:
        yield page


def rows(page: Page) -> list[str]:
    return page.locator("tbody th b").all_inner_texts()


def test_it_shows_every_cell(page: Page, matrix: Matrix) -> None:
    assert page.locator(".cell").count() == len(matrix.cells)
    assert page.locator(".cell.silently-wrong").count() == 1
    assert rows(page) == [entry.name for entry in matrix.ranked]
    assert "hold on this JAX" in page.locator("#published").inner_text()


def test_it_is_not_wider_than_the_screen(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_click_shows_the_result_and_the_program(page: Page) -> None:
    page.locator(".cell.silently-wrong").click()
    dialog = page.locator("dialog[open]")
    shown = dialog.inner_text()
    assert "silently wrong: [0., 0., 0.] instead of [2., 4., 6.]" in shown
    assert "the gradient is zero" in shown
    assert dialog.locator("pre .k").count() > 0  # the code is coloured
    dialog.get_by_role("button", name="Close").click()
    assert page.locator("dialog[open]").count() == 0


def test_a_published_count_is_named(page: Page) -> None:
    page.get_by_label("field, flax PyTreeNode; Used in jit twice").click()
    assert "as in the published experiment" in page.locator(".happened").inner_text()


def test_the_filter_keeps_matching_rows(page: Page) -> None:
    box = page.get_by_label("Filter the approaches")
    box.fill("functools")
    assert rows(page) == ["functools_flax"]
    assert page.locator("#shown").inner_text() == "1 of 3 approaches shown"
    box.fill("nothing like it")
    assert rows(page) == []
    box.fill("")
    assert len(rows(page)) == 3


def test_a_click_on_a_verdict_isolates_it(page: Page) -> None:
    errors = page.get_by_role("button", name="error (")
    errors.click()
    assert errors.get_attribute("aria-pressed") == "true"
    assert page.locator(".cell.error.off").count() == 0
    assert page.locator(".cell:not(.error):not(.off)").count() == 0
    correct = page.get_by_role("button", name="correct (")
    correct.click()
    assert errors.get_attribute("aria-pressed") == "false"
    assert page.locator(".cell.correct.off").count() == 0
    assert page.locator(".cell.error:not(.off)").count() == 0
    correct.click()
    assert page.locator(".cell.off").count() == 0


def test_a_verdict_that_no_cell_has_is_not_offered(page: Page) -> None:
    assert page.get_by_role("button", name="not installed").count() == 0


def test_cachax_is_first(page: Page) -> None:
    assert rows(page)[0] == "cachax_flax"


def test_columns_are_in_groups_with_tips(page: Page) -> None:
    groups = page.locator("thead .group")
    assert groups.all_inner_texts() == [
        "How often is it computed?",
        "Is the value correct?",
        "What does it cost?",
    ]
    spans = [groups.nth(i).get_attribute("colspan") for i in range(3)]
    assert spans == ["1", "2", "1"]
    tip = page.locator("#tip")
    assert not tip.is_visible()
    groups.first.locator("button").hover()
    assert "The best is 1" in tip.inner_text()
    page.locator("thead .probe button").first.hover()
    assert tip.inner_text().startswith("Used in jit twice")


def test_the_headers_stay_in_view(page: Page, matrix: Matrix) -> None:
    page.set_viewport_size({"width": 300, "height": 250})
    page.locator(".scroll").evaluate("node => node.scrollTo(60, 60)")
    assert page.locator(".scroll").evaluate("node => node.scrollTop > 0")
    box = page.locator(".scroll").bounding_box()
    head = page.locator("thead").bounding_box()
    name = page.locator("tbody th").first.bounding_box()
    assert abs(head["y"] - box["y"]) <= 1
    assert abs(name["x"] - box["x"]) <= 1


def test_the_first_screen_shows_data(page: Page) -> None:
    height = page.viewport_size["height"]
    cell = page.locator(".cell").first.bounding_box()
    assert cell["y"] + cell["height"] < 0.6 * height


def test_the_program_of_a_cell_is_shown_and_copied(page: Page, matrix: Matrix) -> None:
    strategy, probe = known_strategies()["field"], known_probes()["grad_warm"]
    page.locator(".cell.silently-wrong").click()
    shown = page.locator("#program").evaluate("node => node.textContent")
    assert shown == program(strategy, probe)
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()


def test_rows_can_be_sorted(page: Page) -> None:
    page.get_by_label("sort").select_option("name")
    assert rows(page) == ["cachax_flax", "field", "functools_flax"]
    page.get_by_label("sort").select_option("wrong")
    assert rows(page)[0] == "field"
    page.get_by_label("sort").select_option("name")
    page.get_by_role(
        "button", name="Gradient with respect to a warm object", exact=True
    ).click()
    assert rows(page)[0] == "field"
    assert page.locator("th[aria-sort]").count() == 1
    assert page.get_by_label("sort").input_value() == "grad_warm"
    page.get_by_label("sort").select_option("closure")
    assert rows(page)[-1] == "cachax_flax"


def focused(page: Page) -> str:
    return page.evaluate("document.activeElement.getAttribute('aria-label') ?? ''")


def wait_for_focus(page: Page, words: str) -> None:
    """A dialog that is closed says so a moment later, and then the focus is moved."""
    label = "document.activeElement.getAttribute('aria-label') ?? ''"
    page.wait_for_function(f"words => ({label}).includes(words)", arg=words)


def test_all_of_it_works_from_the_keyboard(page: Page) -> None:
    page.get_by_label("Filter the approaches").focus()
    stops = 0
    while "Used in jit twice" not in focused(page) and stops < 10:
        page.keyboard.press("Tab")
        stops += 1
    assert stops < 10  # the order, and one stop for the whole grid
    first = focused(page)
    assert "Used in jit twice" in first
    page.keyboard.press("ArrowRight")
    assert "Gradient with respect to a warm object" in focused(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    assert "pickle" in focused(page)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    assert focused(page) == first
    page.keyboard.press("ArrowUp")
    assert focused(page) == first
    page.keyboard.press("Enter")
    assert page.locator("dialog[open]").count() == 1
    page.keyboard.press("ArrowRight")
    assert (
        "Gradient with respect to a warm object"
        in page.locator("#dialog-title").inner_text()
    )
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    wait_for_focus(page, "Gradient with respect to a warm object")


def test_a_cell_can_be_linked_to(page: Page) -> None:
    page.goto(page.url + "#field/closure")
    assert "UnexpectedTracerError" in page.locator("dialog[open]").inner_text()
    assert page.locator(".details").inner_text().count("\n") > 2
    page.reload()
    assert page.locator("dialog[open]").count() == 1
