"""cachax lint, as one types it."""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cachax.__main__ import main
from cachax.lint import known_rules
from cachax.lint._page import page
from cachax.lint._progress import Progress

Capture = pytest.CaptureFixture[str]
TRAP = "import jax\nx.at[0].set(1)\n"
CACHED = """\
import functools
import equinox as eqx
import jax.numpy as jnp


class Foo(eqx.Module):
    @functools.cached_property
    def b(self):
        return jnp.ones(3)
"""
UNKNOWN = CACHED.replace("jnp.ones(3)", "unknown()")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)


def lint(*arguments: str) -> int:
    try:
        return main(["lint", *arguments])
    except SystemExit as stopped:
        return int(stopped.code or 0)


def lines(capsys: Capture) -> list[str]:
    """What was printed, without the frames of code."""
    shown = capsys.readouterr().out.splitlines()
    return [line for line in shown if line and not re.match(r" *\d* [|=]", line)]


def test_a_finding_has_its_place_and_a_code_frame(capsys: Capture) -> None:
    write({"dir/a.py": TRAP, "b.py": "x = 1\n"})
    assert lint(".") == 1
    first, *frame = capsys.readouterr().out.splitlines()
    assert first.startswith("dir/a.py:2:1: CX401 ")
    assert frame == [
        "  |",
        "1 | import jax",
        "2 | x.at[0].set(1)",
        "  | ^^^^^^^^^^^^^^",
        "  |",
        "",
        "Found 1 error.",
    ]


def test_concise_is_a_line_for_each(capsys: Capture) -> None:
    write({"dir/a.py": TRAP, "b.py": "x = 1\n"})
    assert lint(".", "--output-format", "concise") == 1
    first, summary = capsys.readouterr().out.splitlines()
    assert first.startswith("dir/a.py:2:1: CX401 ")
    assert summary == "Found 1 error."


def test_without_a_path_it_checks_the_current_folder(capsys: Capture) -> None:
    write({"dir/a.py": TRAP, "b.py": "import jax\n"})
    assert lint() == 1
    assert lines(capsys)[0].startswith("dir/a.py:2:1: CX401")


def test_quiet_prints_findings_alone(capsys: Capture) -> None:
    write({"a.py": TRAP, "b.py": CACHED})
    assert lint("--quiet", "--fix", ".") == 1
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith("a.py:2:1: CX401")
    assert "Found" not in shown.out
    assert lint("-q", "b.py") == 0
    assert capsys.readouterr() == ("", "")
    write({"b.py": CACHED})
    assert lint("-q", "--diff", "b.py") == 1
    assert capsys.readouterr().err == ""


def test_exit_zero_is_for_findings_alone(capsys: Capture) -> None:
    write({"a.py": TRAP})
    assert lint("--exit-zero", "a.py") == 0
    assert "CX401" in capsys.readouterr().out
    assert lint("--exit-zero", "missing.py") == 2


def test_a_wrong_flag_shows_the_usage_of_lint(capsys: Capture) -> None:
    assert lint("--wrong") == 2
    error = capsys.readouterr().err
    assert error.startswith("usage: cachax lint ")
    assert error.endswith("cachax lint: error: unrecognized arguments: --wrong\n")


def test_colour_is_for_terminals_and_as_the_environment_says(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"a.py": TRAP})
    monkeypatch.setenv("TERM", "xterm")
    for terminal, no_color, force_color, coloured in [
        (False, "", "", False),
        (True, "", "", True),
        (True, "1", "", False),
        (False, "", "1", True),
        (True, "1", "1", False),
    ]:
        monkeypatch.setenv("NO_COLOR", no_color)
        monkeypatch.setenv("FORCE_COLOR", force_color)
        stream = Terminal() if terminal else io.StringIO()
        monkeypatch.setattr(sys, "stdout", stream)
        assert lint("a.py") == 1
        assert ("\x1b[1;31mCX401\x1b[0m" in stream.getvalue()) is coloured
        assert ("\x1b[" in stream.getvalue()) is coloured


def test_the_frame_is_of_the_fixed_file(capsys: Capture) -> None:
    line = "    jnp.ones(3).at[0].set(1)\n    @functools.cached_property\n"
    write({"a.py": CACHED.replace("    @functools.cached_property\n", line)})
    assert lint("--fix", "a.py") == 1
    shown = capsys.readouterr().out
    assert "     @cachax.cached_property" in shown
    assert "functools" not in shown


def test_exit_codes(capsys: Capture) -> None:
    write({"trap.py": TRAP, "fine.py": "import jax\n", "note.py": UNKNOWN})
    assert lint("fine.py") == 0
    assert lint("note.py") == 0
    assert "(information)" in capsys.readouterr().out
    assert lint("trap.py") == 1
    assert lint("missing.py") == 2
    assert lint("--select", "E501", "fine.py") == 2
    assert "no rule begins with 'E501'" in capsys.readouterr().err


def test_select_and_ignore(capsys: Capture) -> None:
    write({"a.py": TRAP + CACHED})
    for arguments, expected in [
        ([], {"CX101", "CX401"}),
        (["--select", "CX1"], {"CX101"}),
        (["--select", "CX1,CX401"], {"CX101", "CX401"}),
        (["--select", "ALL", "--ignore", "CX4"], {"CX101"}),
        (["--ignore", "CX1", "--ignore", "CX4"], set()),
        (["--ignore", "CX", "--select", "CX401"], {"CX401"}),
    ]:
        lint("a.py", "--output-format", "json", *arguments)
        found = json.loads(capsys.readouterr().out)
        assert {one["code"] for one in found} == expected


def test_settings_in_pyproject(capsys: Capture) -> None:
    write(
        {
            "pyproject.toml": """
[tool.cachax.lint]
ignore = ["CX401"]
extend-exclude = ["generated"]
[tool.cachax.lint.per-file-ignores]
"tests/*" = ["CX1"]
""",
            "a.py": TRAP + CACHED,
            "tests/a.py": CACHED,
            "generated/a.py": CACHED,
        }
    )
    assert lint(".") == 1
    assert [line.split(":")[0] for line in lines(capsys)[:-2]] == ["a.py"]
    assert lint("tests") == 0
    assert lint("generated/a.py") == 1
    assert lint("--force-exclude", "generated/a.py") == 0
    assert lint("--select", "CX401", "a.py") == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("select = 'CX'", "'select' must be a list of strings"),
        ("selct = ['CX']", "has no 'selct', only: select, ignore"),
        ("select = ['XC']", "no rule begins with 'XC'"),
        ("per-file-ignores = ['a']", "must be a table of lists of strings"),
        ("per-file-ignores = {a = ['ZZ']}", "no rule begins with 'ZZ'"),
        ("select = [", "pyproject.toml: "),
    ],
)
def test_wrong_settings_are_refused(settings: str, words: str, capsys: Capture) -> None:
    write({"pyproject.toml": f"[tool.cachax.lint]\n{settings}\n", "a.py": TRAP})
    assert lint("a.py") == 2
    assert words in capsys.readouterr().err


def test_settings_from_a_named_file(capsys: Capture) -> None:
    write({"other.toml": "[tool.cachax.lint]\nselect=['CX1']\n", "a.py": TRAP})
    assert lint("--config", "other.toml", "a.py") == 0
    assert lint("--config", "missing.toml", "a.py") == 2


def test_explain(capsys: Capture) -> None:
    assert lint("--explain", "cx101") == 0
    assert capsys.readouterr().out == page(known_rules()["CX101"])
    assert lint("--explain", "CX999") == 2
    assert "there is no rule 'CX999'. Known: CX001" in capsys.readouterr().err


def test_statistics(capsys: Capture) -> None:
    write({"a.py": CACHED, "b.py": TRAP + "x.at[0].set(1)\n"})
    assert lint("--statistics", ".") == 1
    assert lines(capsys) == [
        "2  CX401  [ ]  update-thrown-away",
        "1  CX101  [*]  cached-property-on-pytree",
    ]
    lint("--statistics", "--output-format", "json", ".")
    assert json.loads(capsys.readouterr().out)[0] == {
        "code": "CX401",
        "name": "update-thrown-away",
        "count": 2,
        "fixable": False,
    }


def test_fix_and_diff(capsys: Capture) -> None:
    write({"a.py": CACHED})
    assert lint("--diff", "a.py") == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("--- a/a.py\n+++ b/a.py\n")
    assert (
        "\n-    @functools.cached_property\n+    @cachax.cached_property\n" in shown.out
    )
    assert "Would fix 1 in 1 file." in shown.err
    assert Path("a.py").read_text() == CACHED
    assert lint("--fix", "a.py") == 0
    assert "Fixed 1 in 1 file." in capsys.readouterr().err
    assert "@cachax.cached_property" in Path("a.py").read_text()
    assert lint("--diff", "a.py") == 0


def test_fix_keeps_the_encoding_and_the_line_ends() -> None:
    text = "# coding: latin-1\r\n# ä\r\n" + CACHED.replace("\n", "\r\n")
    Path("a.py").write_bytes(text.encode("latin-1"))
    Path("b.py").write_bytes(b"\xef\xbb\xbf" + CACHED.encode())
    assert lint("--fix", ".") == 0
    assert b"\xe4\r\n" in Path("a.py").read_bytes()
    assert b"import cachax\r\n" in Path("a.py").read_bytes()
    assert Path("b.py").read_bytes().startswith(b"\xef\xbb\xbfimport")


def test_the_input(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def give(text: str) -> None:
        stream = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)

    give(TRAP)
    assert lint("-") == 1
    assert lines(capsys)[0].startswith("-:2:1: CX401")
    give(TRAP)
    assert lint("-", "--stdin-filename", "src/a.py") == 1
    assert lines(capsys)[0].startswith("src/a.py:2:1: CX401")
    give(CACHED)
    assert lint("-", "--fix") == 0
    assert "@cachax.cached_property" in capsys.readouterr().out


def test_a_file_that_does_not_parse_is_reported_and_the_rest_checked(
    capsys: Capture,
) -> None:
    write({"a.py": "def f(:\n", "b.py": TRAP})
    Path("c.py").write_bytes(b"\xff\xfe")
    assert lint(".") == 1
    shown = lines(capsys)
    assert [line.split(" ")[1] for line in shown[:-1]] == ["CX001", "CX401", "CX001"]
    assert shown[0].startswith("a.py:1:7: CX001 cannot be parsed: ")
    assert "c.py:1:1: CX001 cannot be decoded" in shown[2]
    assert lint("--ignore", "CX001", "a.py", "c.py") == 0


def test_a_huge_file_is_reported_as_information(capsys: Capture) -> None:
    write({"a.py": "x = 1\n" * 400_000})
    assert lint("a.py") == 0
    assert (
        "too big to be parsed: 2,400,000 characters (information)" in lines(capsys)[0]
    )


def test_what_is_left_out_by_default(capsys: Capture) -> None:
    names = [".venv/a.py", ".git/a.py", "node_modules/a.py", "build/a.py", "a.txt"]
    write(dict.fromkeys([*names, "b.py", "sub/c.py"], TRAP))
    lint(".")
    shown = [line.split(":")[0] for line in lines(capsys)[:-1]]
    assert shown == ["b.py", "sub/c.py"]
    lint(".", "--exclude", "sub")
    assert [line.split(":")[0] for line in lines(capsys)[:-1]] == ["b.py"]
    assert lint("a.txt") == 1  # a file that is named is checked


def test_links_that_go_round_end(capsys: Capture) -> None:
    write({"dir/a.py": TRAP})
    Path("dir/up").symlink_to("..", target_is_directory=True)
    Path("dir/self").symlink_to(".", target_is_directory=True)
    Path("dir/nowhere.py").symlink_to("missing.py")
    Path("dir/b.py").symlink_to("a.py")
    assert lint(".") == 1
    assert len(lines(capsys)) == 2


def test_an_unreadable_file_is_reported_and_the_rest_checked(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"a.py": TRAP, "shut/b.py": TRAP, "secret.py": TRAP, "list/c.py": TRAP})

    def refusing(real: Callable[..., Any], *names: str) -> Callable[..., Any]:
        """Root may read everything, so the system's word does not do for a test."""

        def maybe(path: Any = ".", *arguments: Any, **options: Any) -> Any:
            if str(path).endswith(names):
                raise PermissionError(13, "Permission denied", str(path))
            return real(path, *arguments, **options)

        return maybe

    monkeypatch.setattr(os, "scandir", refusing(os.scandir, "shut"))
    monkeypatch.setattr(os, "stat", refusing(os.stat, "c.py"))
    monkeypatch.setattr(
        Path, "read_bytes", refusing(Path.read_bytes, "shut", "secret.py")
    )
    assert lint(".") == 1
    found = [line.split(" ")[:2] for line in lines(capsys)[:-1]]
    assert found == [
        ["a.py:2:1:", "CX401"],
        ["list/c.py:1:1:", "CX001"],
        ["secret.py:1:1:", "CX001"],
        ["shut:1:1:", "CX001"],
    ]


def test_a_file_that_cannot_be_written_is_reported_and_the_rest_is_fixed(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write({"a.py": CACHED, "b.py": CACHED})
    real = Path.write_bytes

    def refusing(path: Path, content: bytes) -> int:
        if path.name == "a.py":
            raise PermissionError(13, "Permission denied", "a.py")
        return real(path, content)

    monkeypatch.setattr(Path, "write_bytes", refusing)
    assert lint("--fix", ".") == 2
    said = capsys.readouterr().err
    assert "a.py: not fixed: [Errno 13]" in said
    assert "Fixed 1 in 1 file." in said
    assert "cachax" in Path("b.py").read_text()


def test_many_files_in_several_processes(capsys: Capture) -> None:
    write({f"dir/a{n:03}.py": TRAP for n in range(210)})
    assert lint("dir") == 1
    shown = lines(capsys)
    assert shown[-1] == "Found 210 errors."
    assert shown[:-1] == sorted(shown[:-1])


def test_a_crash_in_a_rule_is_reported_and_the_rest_checked(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cachax.lint._check as checking

    real = checking.silenced

    def fails(text: str) -> object:
        if "broken" in text:
            raise KeyError("a mistake")
        return real(text)

    monkeypatch.setattr(checking, "silenced", fails)
    write({"a.py": TRAP + "# broken\n", "b.py": TRAP})
    assert lint(".") == 2
    shown = capsys.readouterr()
    assert "a.py: cachax lint itself failed:" in shown.err
    assert "KeyError: 'a mistake'" in shown.err
    assert shown.out.startswith("b.py:2:1: CX401")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_a_terminal_alone() -> None:
    for stream, drawn in ((Terminal(), True), (io.StringIO(), False)):
        with Progress(3, stream) as progress:
            progress.advance()
        assert ("1/3 files" in stream.getvalue()) is drawn


def test_it_runs_without_jax_and_numpy() -> None:
    """And without anything else that is not of Python itself."""
    code = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top != "cachax":
            raise ImportError(f"{name} is refused")
sys.meta_path.insert(0, Refuse())
sys.argv = ["cachax", "lint", "--output-format", "json", "."]
from cachax.__main__ import main
code = main()
assert not {"jax", "numpy", "rich"} & set(sys.modules)
raise SystemExit(code)
"""
    write({"a.py": CACHED})
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.returncode == 1
    assert json.loads(done.stdout)[0]["code"] == "CX101"


def test_the_hook_runs_a_command_that_there_is() -> None:
    root = Path(__file__).parent.parent.parent
    hook = (root / ".pre-commit-hooks.yaml").read_text()
    entry = next(x for x in hook.splitlines() if x.strip().startswith("entry:"))
    command = entry.partition(":")[2].split()
    write({"a.py": TRAP})
    assert command[0] == "cachax"
    assert main([*command[1:], "a.py"]) == 1
