"""The page in a real browser: Debian's chromium, headless."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import browser as browser
from browser import opened
from cachax.lab import Matrix
from cachax.lab._page import page as page_of

Page = Any


@pytest.fixture(params=["desktop", "phone"])
def page(
    browser: Any, matrix: Matrix, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Page]:
    """Loaded, with nothing said on the console and nothing asked of a network."""
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


def test_it_is_no_wider_than_the_screen(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_click_shows_code_and_what_happened(page: Page) -> None:
    page.locator(".cell.silently-wrong").click()
    dialog = page.locator("dialog[open]")
    shown = dialog.inner_text()
    assert "silently wrong: [0., 0., 0.] instead of [2., 4., 6.]" in shown
    assert "self.kept = derive(self.a)" in shown
    assert "way.gradient(way.jitted_b, foo)" in shown
    assert dialog.locator("pre .k").count() > 0  # the code is coloured
    dialog.get_by_role("button", name="Close").click()
    assert page.locator("dialog[open]").count() == 0


def test_a_published_count_is_named(page: Page) -> None:
    page.get_by_label("field, flax PyTreeNode; use(foo), use(foo)").click()
    assert "as in the published experiment" in page.locator(".happened").inner_text()


def test_the_filter_keeps_what_fits(page: Page) -> None:
    box = page.get_by_label("Filter the ways of caching")
    box.fill("functools")
    assert rows(page) == ["functools_flax"]
    assert page.locator("#shown").inner_text() == "1 of 3 ways shown"
    box.fill("nothing like it")
    assert rows(page) == []
    box.fill("")
    assert len(rows(page)) == 3


def test_verdicts_can_be_dimmed(page: Page) -> None:
    button = page.get_by_role("button", name="error (")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    errors = page.locator(".cell.error").count()
    assert page.locator(".cell.error.off").count() == errors > 0
    assert page.locator(".cell.right.off").count() == 0
    button.click()
    assert page.locator(".cell.off").count() == 0


def test_rows_can_be_sorted(page: Page) -> None:
    page.get_by_label("sort").select_option("name")
    assert rows(page) == ["cachax_flax", "field", "functools_flax"]
    page.get_by_label("sort").select_option("wrong")
    assert rows(page)[0] == "field"
    page.get_by_label("sort").select_option("name")
    page.get_by_role("button", name="Gradient by a warm object", exact=True).click()
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
    page.get_by_label("Filter the ways of caching").focus()
    stops = 0
    while "use(foo), use(foo)" not in focused(page) and stops < 10:
        page.keyboard.press("Tab")
        stops += 1
    assert stops < 10  # the order, the five verdicts, and one stop for the whole grid
    first = focused(page)
    assert "use(foo), use(foo)" in first
    page.keyboard.press("ArrowRight")
    assert "Gradient by a warm object" in focused(page)
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
    assert "Gradient by a warm object" in page.locator("#dialog-title").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0
    wait_for_focus(page, "Gradient by a warm object")


def test_a_cell_can_be_linked_to(page: Page) -> None:
    page.goto(page.url + "#field/closure")
    assert "UnexpectedTracerError" in page.locator("dialog[open]").inner_text()
    assert page.locator(".details").inner_text().count("\n") > 2
    page.reload()
    assert page.locator("dialog[open]").count() == 1
