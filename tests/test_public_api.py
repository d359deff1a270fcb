"""What is public does not change unnoticed (docs/stability.md)."""

import difflib
import re
from types import ModuleType

import pytest

import cachax

import public_api

TOLD = """The public API is not what tests/public_api.txt says:

{difference}
If the change is intended, write it down in CHANGELOG.md (a breaking one with an upgrade
note), then run `make api`."""


def test_what_is_public_is_as_it_was_written_down() -> None:
    written, now = public_api.FILE.read_text().splitlines(), public_api.lines()
    difference = "\n".join(
        difflib.unified_diff(written, now, "written", "now", "", "", 0)
    )
    assert written == now, TOLD.format(difference=difference)


def test_what_is_written_down_is_the_same_in_every_process() -> None:
    assert not re.search(r" at 0x|<object", public_api.FILE.read_text())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(x): ...", "def f(x, y): ..."),
        ("def f(x, *, y=1): ...", "def f(x, *, y=2): ..."),
        ("def f(x, y): ...", "def f(x, /, y): ..."),
        ("class f(ValueError): ...", "class f(TypeError): ..."),
    ],
)
def test_a_change_of_a_name_changes_its_line(before: str, after: str) -> None:
    def line(source: str) -> list[str]:
        module = ModuleType("module")
        exec(source, vars(module))
        return list(public_api.of_module(module, ["f"]))

    assert line(before) != line(after)


def test_a_new_name_is_a_new_line(monkeypatch: pytest.MonkeyPatch) -> None:
    before = public_api.lines()
    monkeypatch.setattr(cachax, "__all__", [*cachax.__all__, "__version__"])  # type: ignore[attr-defined]
    monkeypatch.setattr(cachax, "__version__", lambda x: x)
    assert set(public_api.lines()) - set(before) == {"cachax.__version__(x)"}
