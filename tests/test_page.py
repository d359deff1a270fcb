"""The page of a report, in a browser."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import cachax
from browser import browser as browser
from browser import opened

from models import Process


@pytest.fixture(scope="module")
def report() -> cachax.Report:
    plain = jax.jit(lambda p: p.weights)
    use = cachax.jit(lambda p: p.weights)
    with cachax.record() as report:
        for _ in range(3):
            one = Process(jnp.arange(4.0), jnp.ones(4))
            use(one), use(one)
        plain(one)
    return report


@pytest.fixture(params=["desktop", "phone"])
def page(
    browser: Any,
    report: cachax.Report,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Any]:
    report.save(tmp_path / "report.html")
    with opened(browser, tmp_path / "report.html", request.param) as page:
        yield page


def test_it_fits(page: Any) -> None:
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= page.viewport_size["width"]


def test_what_to_fix_comes_first(page: Any, report: cachax.Report) -> None:
    assert page.locator("summary").first.inner_text() == "What to fix"
    assert page.locator("article").count() == len(report.fixes) > 0
    assert "use cachax.jit" in page.locator("main").inner_text()


def test_the_timeline_has_every_event(page: Any, report: cachax.Report) -> None:
    drawn = page.locator("svg[aria-label^=Timeline]")
    marks = drawn.locator("rect, circle").count()
    assert marks == len(report.events) - report.count("traced")
    title = drawn.locator("rect.computed title").first.text_content()
    assert title.startswith("Process.factor: computed in")


def test_what_depends_on_what(page: Any) -> None:
    graph = page.locator(
        "svg[aria-label='What the properties of Process are computed from']"
    )
    assert graph.locator(".field text").all_text_contents() == ["x", "y"]
    assert graph.locator(".property text").all_text_contents() == ["factor", "weights"]
    assert graph.locator(".edge").count() == 3


def test_everything_can_be_unfolded(page: Any, report: cachax.Report) -> None:
    last = page.locator("details").last
    assert not last.locator("table").is_visible()
    last.locator("summary").click()
    assert last.locator("tbody tr").count() == len(report.events)


def test_names_are_escaped(browser: Any, tmp_path: Path) -> None:
    class Odd:
        @cachax.cached_property
        def value(self) -> int:
            return 1

    Odd.__qualname__ = "<script>alert(1)</script>"
    with cachax.record() as report:
        Odd().value  # noqa: B018
    report.save(tmp_path / "report.html")
    with opened(browser, tmp_path / "report.html", "desktop") as page:
        assert page.locator("main script").count() == 0
        assert "<script>" in page.locator("main").inner_text()
    assert "<script>" in json.dumps(report.to_dict())
    assert "<script>" not in report._repr_html_()
