"""CX401: updates of arrays that are thrown away, and what only looks like one."""

import pytest

from linted import codes, linted


@pytest.mark.parametrize(
    "statement",
    [
        "for i in range(3):\n    x.at[i].set(0)",
        "self.x.at[0, :].multiply(2.0, mode='drop')",
        "x.at[0].set(0) if y else None",
        "y and x.at[0].add(1)",
        "[x.at[i].set(0) for i in range(3)]",
        "async def f(x):\n    def g():\n        x.at[0].max(1)",
        "match y:\n    case 1:\n        x.at[0].set(1)",
    ],
)
def test_an_update_that_is_not_used(statement: str) -> None:
    assert codes(statement) == ["CX401"]


@pytest.mark.parametrize(
    "statement",
    [
        "x = x.at[0].set(0)",
        "_ = x.at[0].set(0)",
        "f(x.at[0].set(0))",
        "x.at[0].get()",
        "x.at(0).set(1)",
        "event.set()",
        "[x := x.at[i].set(0) for i in range(3)]",
        "y if x.at[0].add(1).any() else None",
        "np.zeros(3).at[0].add(1)",
    ],
)
def test_what_is_taken_or_no_update(statement: str) -> None:
    assert codes(statement) == []


@pytest.mark.parametrize(
    "statement",
    [
        'table.at[row, "tags"].add(1)',
        'table.at[row, f"tags{n}"].add(1)',
        "tags.at[row].add(1)",
        "tags.at[row].apply(print)",
    ],
)
@pytest.mark.parametrize("head", ["", "import pandas as pd\nimport jax\n"])
def test_a_table_of_pandas_holds_sets(head: str, statement: str) -> None:
    assert linted(head + statement) == []


def test_nothing_else_is_set_so() -> None:
    assert [f.code for f in linted("def f(x):\n    x.at[0].set(1)\n")] == ["CX401"]
