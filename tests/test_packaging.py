"""What is built, what it says of itself, and what it asks people to install."""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dist
import matrix
import version
from pages import ROOT


def project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return project["project"]  # type: ignore[no-any-return]


TRACKED = [
    "src/cachax/_jit.py",
    "src/cachax/py.typed",
    "README.md",
    "recipe/recipe.yaml",
]


@pytest.mark.parametrize(
    ("archive", "package"),
    [
        ("cachax-0.1.0-py3-none-any.whl", "cachax/"),
        ("cachax-0.1.0.tar.gz", "cachax-0.1.0/src/cachax/"),
    ],
)
def test_a_file_too_many_and_one_too_few_are_found(archive: str, package: str) -> None:
    right = dist.expected(archive, TRACKED)
    assert f"{package}_jit.py" in right
    assert not any("recipe" in name for name in right)
    assert dist.compare(right, right) == []
    wrong = right - {f"{package}py.typed"} | {f"{package}notes.txt"}
    assert dist.compare(wrong, right) == [
        f"  missing: {package}py.typed",
        f"  unexpected: {package}notes.txt",
    ]


def test_the_options_without_uv_are_those_of_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    parser = pytest.importorskip("build.__main__").main_parser()
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(dist, "UV", None)
    monkeypatch.setattr(dist, "run", lambda *command: commands.append(command))
    assert dist.build(tmp_path) == []
    (command,) = commands
    assert command[1:3] == ("-m", "build")
    options = parser.parse_args(command[3:])
    assert (options.outdir, options.srcdir) == (str(tmp_path), str(ROOT))


def test_uv_builds_with_the_python_that_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It need not be on the PATH; uv would look there, and else download one."""
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(dist, "UV", "uv")
    monkeypatch.setattr(dist, "run", lambda *command: commands.append(command))
    dist.build(tmp_path)
    (command,) = commands
    assert command[:2] == ("uv", "build")
    assert command[command.index("--python") + 1] == sys.executable


@pytest.mark.parametrize(
    "change",
    [
        "```diff\n-a = jax.jit(\n+a = cachax.jit(\n```",
        "```python\na = cachax.jit(f)\n```",
    ],
)
def test_the_program_of_the_readme_is_found(change: str) -> None:
    readme = f"# x\n\n```python\na = jax.jit(f)\n```\n\n{change}\n\n```python\nb\n```\n"
    before, after = dist.readme_programs(readme)
    assert before == "a = jax.jit(f)\n"
    assert after.startswith("a = cachax.jit(f)\n")


def test_what_messages_tell_people_to_install_exists() -> None:
    extras = project()["optional-dependencies"]
    source = [f for f in (ROOT / "src").rglob("*") if f.suffix in (".py", ".html")]
    pages = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    told = [
        extra
        for file in [*source, *pages]
        for names in re.findall(r"cachax\[([\w, -]+)\]", file.read_text())
        for extra in names.split(",")
    ]
    assert "lab" in told
    assert set(told) <= set(extras)


def test_the_classifiers_name_the_pythons_that_are_tested() -> None:
    classifiers = " ".join(project()["classifiers"])
    named = re.findall(r"Python :: (3\.\d+)", classifiers)
    assert named == sorted({row.python for row in matrix.ROWS})
    assert project()["requires-python"] == f">={named[0]}"


def test_the_oldest_jax_is_the_same_everywhere() -> None:
    (required,) = project()["dependencies"]
    pinned = (ROOT / "requirements" / "oldest.in").read_text()
    oldest = matrix.ROWS[0].jax
    assert required == f"jax>={oldest}"
    assert f"jax=={oldest}\n" in pinned


def test_the_newest_jax_of_each_python_is_in_the_matrix() -> None:
    pins = (ROOT / "requirements" / "newest.txt").read_text()
    newest = set(re.findall(r"^jax==(\S+)", pins, flags=re.MULTILINE))
    assert len(newest) == 2
    assert newest <= {row.jax for row in matrix.ROWS}


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("", "no output"),
        ("no tests ran in 0.01s", "no tests ran in 0.01s"),
        ("ERROR: file not found", "ERROR: file not found"),
    ],
)
def test_a_run_without_tests_is_a_problem(output: str, problem: str) -> None:
    assert matrix.counted(output).problem == problem


def test_the_table_has_a_row_for_each_environment() -> None:
    row = matrix.Row("3.11", "0.5.3")
    rows = [
        (row, matrix.Result(3, 1, 2, 60)),
        (row, matrix.Result(problem="no Python")),
    ]
    assert matrix.table(rows).splitlines()[2:] == [
        "| 3.11 | 0.5.3 | 3 | 1 | 2 | 60 |",
        "| 3.11 | 0.5.3 | no Python | | |  |",
    ]


def test_the_page_about_stability_has_the_table_of_the_matrix() -> None:
    page = (ROOT / "docs" / "stability.md").read_text()
    shown = re.findall(
        r"^\| (3\.\d+) \| ([\d.]+) \| \d+ \| (\d+) \|", page, re.MULTILINE
    )
    assert shown == [(row.python, row.jax, "0") for row in matrix.ROWS]


def test_the_version_is_the_same_everywhere() -> None:
    import cachax

    found = version.versions()
    assert "docs/lint.md" in found
    assert set(found.values()) == {cachax.__version__}


def test_the_notes_of_a_release_are_its_section() -> None:
    changelog = (
        "## [Unreleased]\n\n## [1.0.1] - 2030-02-03\n\n- b\n\n[1.0.1]: https://x\n"
    )
    assert version.notes(changelog, "1.0.1") == "- b\n"
    with pytest.raises(SystemExit, match=r"no section '## \[1.0.0\]"):
        version.notes(changelog, "1.0.0")


def test_a_tag_that_is_not_the_version_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"the tag is v99, but .* says"):
        version.main("v99")


def workflow(name: str) -> str:
    path = ROOT / ".github" / "workflows" / f"{name}.yml"
    if not path.exists():
        pytest.skip("the sdist has no workflows")
    return path.read_text()


def test_the_workflow_tests_every_row_of_the_matrix() -> None:
    text = workflow("test")
    in_full = re.search(r"python: \[(.*)\]", text)
    assert in_full
    assert re.findall(r"[\d.]+", in_full[1]) == sorted({r.python for r in matrix.ROWS})
    in_part = re.findall(r'python: "([\d.]+)", jax: "([\d.]+)"', text)
    assert in_part == [(row.python, row.jax) for row in matrix.ROWS if not row.pins]
