"""Check that a tag, the version and the changelog agree.

`python .ci/version.py v1.2.3` fails if not. With `--notes` it prints the section
of the changelog.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

PLACES = {
    "src/cachax/__init__.py": r'^__version__ = "(.*)"$',
    "CITATION.cff": r"^version: (.*)$",
    "recipe/recipe.yaml": r'^  version: "(.*)"$',
    "docs/lint.md": r"^ *rev: v(.*)$",
}
"""Where the version stands, and how."""


def versions(root: Path = ROOT) -> dict[str, str]:
    found = {}
    for name, pattern in PLACES.items():
        path = root / name
        if path.exists():  # the sdist has no recipe
            (found[name],) = re.findall(pattern, path.read_text(), re.MULTILINE)
    return found


def notes(changelog: str, version: str) -> str:
    """The section of a version, without its title.

    >>> notes("## [0.2.0] - 2030-01-01\\n\\nNew.\\n\\n## [0.1.0]", "0.2.0")
    'New.\\n'
    """
    title = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    _, *rest = re.split(title, changelog, maxsplit=1, flags=re.MULTILINE)
    if not rest:
        raise SystemExit(f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'")
    section = re.split(r"^(?:## |\[[^]]*\]: )", rest[0], maxsplit=1, flags=re.MULTILINE)
    return section[0].strip() + "\n"


def main(tag: str, *options: str) -> None:
    for name, version in versions().items():
        if tag != f"v{version}":
            raise SystemExit(f"the tag is {tag}, but {name} says {version}")
    section = notes((ROOT / "CHANGELOG.md").read_text(), tag.removeprefix("v"))
    if "--notes" in options:
        sys.stdout.write(section)


if __name__ == "__main__":
    main(*sys.argv[1:])
