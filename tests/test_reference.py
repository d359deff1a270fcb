"""Every public name is documented: parameters, types, what it returns and raises, and
an example."""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
import types
from pathlib import Path
from typing import Any

import pytest

import cachax

import public_api

PAGE = Path(__file__).parent.parent / "docs" / "api.md"

NAMES = {
    **{name: getattr(cachax, name) for name in cachax.__all__},  # type: ignore[attr-defined]
    **{
        f"testing.{name}": getattr(cachax.testing, name)
        for name in public_api.exported(cachax.testing)
    },
}

HELD = [
    "_report.sums.Value",
    "_report.sums.Function",
    "_report.sums.Fix",
    "_report.comparison.Comparison",
    "_report.comparison.Change",
    "_report.events.Event",
    "_where.Where",
    "_report.property.Property",
    "_report.memory.Memory",
    "_report.memory.Held",
]
"""Classes that public functions return, or that these hold."""

NEVER_RAISES = (
    {"cache", "is_jitted", "memory", "record", "warn_dropped"}
    | {f"testing.{name}" for name in ("altered", "arrays", "assigning", "computations")}
    | {f"testing.{name}" for name in ("fields", "looks", "variants")}
)
"""Functions that raise nothing on their own."""

SECTION = re.compile(r"^(Args|Returns|Raises|Warns|Yields|Example):$", re.MULTILINE)


def sections(doc: str | None) -> dict[str, str]:
    """The sections of a docstring, by their names; the first is ``."""
    parts = SECTION.split(inspect.cleandoc(doc or ""))
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> dict[str, str]:
    """`name: what it is`, in a section."""
    lines = re.split(r"^ {4}(?! )", section, flags=re.MULTILINE)[1:]
    pairs = [line.partition(":") for line in lines]
    return {name.strip("* "): " ".join(what.split()) for name, _, what in pairs}


def parameters(fun: Any) -> list[inspect.Parameter]:
    found = [*inspect.signature(fun).parameters.values()]
    return [p for p in found if p.name != "self"]


def missing_in(name: str, value: Any) -> list[str]:
    """What the documentation of a function or decorator lacks."""
    doc = sections(value.__doc__)
    wrong = []
    if not doc[""].strip():
        wrong.append("a sentence")
    if ">>> " not in doc.get("Example", ""):
        wrong.append("an example")
    if isinstance(value, type) and (
        issubclass(value, Exception) or dataclasses.is_dataclass(value)
    ):
        return wrong
    wanted = [p.name for p in parameters(value)]
    described = entries(doc.get("Args", ""))
    wrong += [f"the parameter {p}" for p in wanted if not described.get(p)]
    optional = {"options"} if "options" in wanted else set()
    extra = described.keys() - {*wanted}
    wrong += [f"not a parameter: {p}" for p in extra if not optional]
    function = value.__init__ if isinstance(value, type) else value
    hints = inspect.signature(function)
    wrong += [
        f"the type of {p.name}" for p in parameters(function) if p.annotation is p.empty
    ]
    if hints.return_annotation is inspect.Signature.empty:
        wrong.append("the type of the result")
    returns = hints.return_annotation not in (None, "None")
    if returns and not isinstance(value, type) and "Returns" not in doc:
        wrong.append("what it returns")
    if "Raises" not in doc and name not in NEVER_RAISES:
        wrong.append("what it raises")
    wrong += [
        f"no such error: {e}" for e in entries(doc.get("Raises", "")) if not _error(e)
    ]
    return wrong


def _error(name: str) -> bool:
    places = (cachax, cachax.testing, importlib.import_module("builtins"))
    return any(hasattr(place, name) for place in places)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_is_documented(name: str) -> None:
    assert missing_in(name, NAMES[name]) == []


def test_what_is_missing_is_found() -> None:
    def fun(x, y: int):  # type: ignore[no-untyped-def]
        """Add.

        Args:
            y: A number.
            z: A number.

        Raises:
            NoSuchError: Never.
        """

    assert missing_in("fun", fun) == [
        "an example",
        "the parameter x",
        "not a parameter: z",
        "the type of x",
        "the type of the result",
        "what it returns",
        "no such error: NoSuchError",
    ]


def attributes(cls: type) -> dict[str, str | None]:
    """The public fields, properties and methods of a class, with their docstrings."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    (node,) = tree.body
    assert isinstance(node, ast.ClassDef)
    found: dict[str, str | None] = {}
    for each, after in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            is_doc = isinstance(after, ast.Expr) and isinstance(
                after.value, ast.Constant
            )
            found[each.target.id] = ast.unparse(after) if is_doc and after else None
        if isinstance(each, ast.FunctionDef):
            found[each.name] = ast.get_docstring(each)
    return {name: doc for name, doc in found.items() if not name.startswith("_")}


def held() -> list[Any]:
    found: list[Any] = [cachax.Report, cachax.Explanation]
    found += [x for x in vars(cachax.testing).values() if _is_dataclass_of_testing(x)]
    for path in HELD:
        module, _, name = path.rpartition(".")
        found.append(getattr(importlib.import_module(f"cachax.{module}"), name))
    return found


def _is_dataclass_of_testing(x: Any) -> bool:
    is_here = getattr(x, "__module__", "") == "cachax.testing"
    return isinstance(x, type) and is_here and dataclasses.is_dataclass(x)


@pytest.mark.parametrize("cls", held(), ids=lambda cls: cls.__name__)
def test_every_attribute_of_a_result_is_documented(cls: Any) -> None:
    assert sections(cls.__doc__)[""].strip()
    found = attributes(cls)
    assert found
    assert [name for name, doc in found.items() if not doc] == []
    for name in found:
        member = inspect.getattr_static(cls, name, None)
        if isinstance(member, types.FunctionType):
            doc = sections(member.__doc__)
            described = entries(doc.get("Args", ""))
            assert {p.name for p in parameters(member)} == described.keys(), name
            returns = inspect.signature(member).return_annotation
            assert ("Returns" in doc) == (returns not in (None, "None")), name


def test_a_field_without_a_docstring_is_found() -> None:
    assert attributes(Undocumented) == {"x": None, "y": "'Documented.'"}


class Undocumented:
    x: int
    y: int
    """Documented."""


@pytest.mark.parametrize("name", [*NAMES, *HELD])
def test_a_public_name_is_on_the_page(name: str) -> None:
    directive = rf"^\.\. auto\w+:: (cachax\.)?{re.escape(name)}(\(.*\))?$"
    assert re.search(directive, PAGE.read_text(), re.MULTILINE)
