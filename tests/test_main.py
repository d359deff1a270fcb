"""The command line, before any command."""

import subprocess
import sys

import pytest

import cachax
from cachax.__main__ import COMMANDS, main

Capture = pytest.CaptureFixture[str]


def test_the_version(capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"cachax {cachax.__version__}\n"


def test_alone_it_prints_help(capsys: Capture) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: cachax ")
    assert all(f"  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lnt", "."], "there is no command 'lnt'. Did you mean lint?"),
        (["zzz"], "there is no command 'zzz'. Known: lint, explain, lab."),
        (["--wrong"], "the following arguments are required: COMMAND"),
    ],
)
def test_a_wrong_command(arguments: list[str], words: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_flag_shows_the_usage_of_its_command(
    name: str, capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([name, "--wrong", "x"])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"usage: cachax {name} ")
    assert "unrecognized arguments: --wrong" in error


@pytest.mark.parametrize(
    "command", ["lint --explain CX101", "lint --help", "--help", "lab --list"]
)
def test_a_closed_pipe_is_not_a_traceback(command: str) -> None:
    """The reader is gone before the first byte is written."""
    words = [sys.executable, "-m", "cachax", *command.split()]
    script = f"exec 3>&1; ({' '.join(words)}; echo $? >&2) | true"
    ended = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in ended.stderr
    assert "BrokenPipe" not in ended.stderr
    assert ended.stderr.strip() in {"0", "1"}
