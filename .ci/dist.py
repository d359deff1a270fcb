"""Build the wheel and the sdist, check what is in them, install each and try it.

`python .ci/dist.py [FOLDER]`. Without FOLDER, they are deleted afterwards. Needs a git
checkout: the files under version control determine what belongs into them.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = shutil.which("uv")
NOT_IN_SDIST = (".github/", "recipe/")
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}


def main(folder: Path) -> None:
    archives = build(folder)
    tracked = run("git", "ls-files", cwd=ROOT).split()
    for archive in archives:
        differences = compare(contents(archive), expected(archive.name, tracked))
        if differences:
            raise SystemExit("\n".join([f"{archive.name}:", *differences]))
        if relative := relative_links(description(archive)):
            raise SystemExit(f"{archive.name}: on PyPI these lead nowhere: {relative}")
        print(f"{archive.name}: {len(contents(archive))} files, as expected")
        try_out(archive)
        print(f"{archive.name}: installs, lints and runs the README's program")


def build(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("cachax-*.whl"), *folder.glob("cachax-*.tar.gz")]:
        old.unlink()
    python = sys.executable
    tool = [UV, "build", "-q", "--python", python] if UV else [python, "-m", "build"]
    run(*tool, "-o", str(folder), str(ROOT))  # (their long names differ)
    (folder / ".gitignore").unlink(missing_ok=True)  # uv's; it must not be published
    return [*folder.glob("cachax-*.whl"), *folder.glob("cachax-*.tar.gz")]


def contents(archive: Path) -> set[str]:
    """The files in an archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return {name for name in wheel.namelist() if not name.endswith("/")}
    with tarfile.open(archive) as sdist:
        return {member.name for member in sdist if not member.isdir()}


def expected(archive: str, tracked: Iterable[str]) -> set[str]:
    """The files that belong into an archive of this name.

    >>> sorted(expected("cachax-1.0.tar.gz", ["src/cachax/a.py", ".github/x.yml"]))
    ['cachax-1.0/PKG-INFO', 'cachax-1.0/src/cachax/a.py']
    """
    if archive.endswith(".whl"):
        stem = "-".join(archive.split("-")[:2])
        package = {n.removeprefix("src/") for n in tracked if n.startswith("src/")}
        return package | {f"{stem}.dist-info/{name}" for name in METADATA}
    stem = archive.removesuffix(".tar.gz")
    source = {name for name in tracked if not name.startswith(NOT_IN_SDIST)}
    return {f"{stem}/{name}" for name in source | {"PKG-INFO"}}


def compare(found: set[str], wanted: set[str]) -> list[str]:
    """What is missing and what should not be there."""
    return [f"  missing: {name}" for name in sorted(wanted - found)] + [
        f"  unexpected: {name}" for name in sorted(found - wanted)
    ]


def description(archive: Path) -> str:
    """The metadata, at whose end is the README as PyPI shows it."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            (name,) = [n for n in wheel.namelist() if n.endswith(".dist-info/METADATA")]
            return wheel.read(name).decode()
    with tarfile.open(archive) as sdist:
        file = sdist.extractfile(f"{archive.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert file, "PKG-INFO is no file"
        return file.read().decode()


def relative_links(markdown: str) -> list[str]:
    """
    >>> relative_links("[a](docs/a.md) [b](https://b.org) ![c](c.svg)")
    ['docs/a.md', 'c.svg']
    """
    return re.findall(r"\]\((?!https?:|#)([^)]+)\)", markdown)


def try_out(archive: Path) -> None:
    """In a separate environment, far from the checkout."""
    before, after = readme_programs((ROOT / "README.md").read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "before.py").write_text(before)
        (folder / "after.py").write_text(after)
        python = environment(folder / "env")
        cachax = python.with_name("cachax")
        install(python, "--no-deps", str(archive))
        run(cachax, "lint", "after.py", cwd=folder)  # without JAX
        found = run(cachax, "lint", "before.py", cwd=folder, status=1)
        assert "functools.cached_property" in found, found
        pins = ROOT / "requirements" / "newest.txt"
        install(python, "--constraint", str(pins), f"{archive}[lab]")
        told = run(python, "after.py", cwd=folder).splitlines()[-1]
        assert told.startswith(f"from {folder}"), told  # not from the checkout


def readme_programs(readme: str) -> tuple[str, str]:
    """The program the README begins with, and what it becomes with cachax.

    That is the next one, or the first with the changes of a diff.
    """
    setup = "".join(fenced(r"<!-- setup", "-->", readme))
    before, *others = fenced("```python", "```", readme)
    after = others[0] if others else before
    for diff in fenced("```diff", "```", readme)[:1]:
        after = before
        removed = re.findall(r"^-(.*)", diff, re.MULTILINE)
        added = re.findall(r"^\+(.*)", diff, re.MULTILINE)
        for old, new in zip(removed, added, strict=True):
            assert old in after, old
            after = after.replace(old, new)
    assert "cachax.jit" in after, "the README has no program with cachax"
    return setup + before, f"{setup}{after}\nprint('from', cachax.__file__)\n"


def fenced(begin: str, end: str, markdown: str) -> list[str]:
    """The texts between lines that begin and end a block."""
    return re.findall(rf"^{begin}\n(.*?)^{end}$", markdown, re.DOTALL | re.MULTILINE)


def environment(folder: Path) -> Path:
    if UV:
        run(UV, "venv", "-q", "--python", sys.executable, str(folder))
    else:
        run(sys.executable, "-m", "venv", str(folder))
    return folder / "bin" / "python"


def install(python: Path, *arguments: str) -> None:
    if UV:
        run(UV, "pip", "install", "-q", "--python", str(python), *arguments)
    else:
        run(python, "-m", "pip", "install", "-q", *arguments)


def run(*command: str | Path, cwd: Path | None = None, status: int = 0) -> str:
    """What a command prints. Any other exit status than `status` is an error."""
    ended = subprocess.run(
        command, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True
    )
    if ended.returncode != status:
        shown = " ".join(map(str, command))
        raise SystemExit(
            f"{shown}: exit status {ended.returncode}\n{ended.stdout}{ended.stderr}"
        )
    return ended.stdout


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
