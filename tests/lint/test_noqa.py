"""Comments that silence a finding."""

import pytest

from linted import linted

TEXT = "import jax\n{before}\nx.at[0].set(1){comment}\n"


@pytest.mark.parametrize(
    ("comment", "silent"),
    [
        ("  # noqa", True),
        ("  # NOQA", True),
        ("  #noqa", True),
        ("  # noqa: CX401", True),
        ("  # noqa:CX401", True),
        ("  # noqa: E501, CX401", True),
        ("  # noqa: E501 CX401", True),
        ("  # noqa: cx401", True),
        ("  # noqa: CX4", True),
        ("  # why  # noqa: CX401", True),
        ("  # noqa: CX401 it raises", True),
        ("  # noqa: CX101", False),
        ("  # noqa: E501", False),
        ("  # noqaCX401", False),
        ("  # no qa", False),
        ("; y = '# noqa'", False),
        ("", False),
    ],
)
def test_a_comment_at_the_line(comment: str, silent: bool) -> None:
    found = linted(TEXT.format(before="", comment=comment))
    assert (found == []) is silent


@pytest.mark.parametrize(
    ("comment", "silent"),
    [
        ("# cachax: noqa", True),
        ("# cachax: noqa: CX401", True),
        ("# cachax: noqa: CX101", False),
        ("# noqa", False),
        ("# ruff: noqa", False),
    ],
)
def test_a_comment_for_the_file(comment: str, silent: bool) -> None:
    found = linted(TEXT.format(before=comment, comment=""))
    assert (found == []) is silent


def test_a_comment_at_the_last_line_of_a_statement() -> None:
    text = "import jax\nx.at[0].set(\n    1,\n)  # noqa: CX401\n"
    assert linted(text) == []
    assert linted(
        text.replace("    1,\n", "    1,  # noqa: CX401\n").replace(")  #", ") #x")
    )


def test_a_comment_at_a_decorator() -> None:
    text = """
    import functools
    import equinox, jax.numpy as jnp

    class Foo(equinox.Module):
        @functools.cached_property  # noqa: CX101
        def b(self):
            return jnp.ones(3)
    """
    assert linted(text) == []
    assert len(linted(text.replace("  # noqa: CX101", ""))) == 1
