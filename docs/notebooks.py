"""Runs the scripts in examples/, and makes notebooks and pictures of them.

`python docs/notebooks.py [NAME...]`
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ROOT / "docs" / "examples"


def notebook(script: Path) -> NotebookNode:
    """The cells of a script, not run yet."""
    made = jupytext.read(script)
    made.metadata = {
        "kernelspec": {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        }
    }
    for number, cell in enumerate(made.cells):
        cell.id = f"{script.stem}-{number}"  # jupytext's are random
        cell.metadata = {}
    return made


def run(made: NotebookNode, name: str) -> None:
    """Run it in a temporary folder and keep its picture. It must not use stderr."""
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            made,
            resources={"metadata": {"path": folder}},
            record_timing=False,
            coalesce_streams=True,
        ).execute()
        shutil.copy(Path(folder) / f"{name}.png", NOTEBOOKS)
    made.metadata.pop("language_info")  # the version of the Python that ran it
    for cell in made.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                raise RuntimeError(output.text)


if __name__ == "__main__":
    os.environ["COLUMNS"] = "84"  # as many as a page has
    os.environ["NO_COLOR"] = "1"  # the kernel sets FORCE_COLOR
    names = sys.argv[1:] or [path.stem for path in (ROOT / "examples").glob("*.py")]
    for name in sorted(names):
        made = notebook(ROOT / "examples" / f"{name}.py")
        run(made, name)
        jupytext.write(made, NOTEBOOKS / f"{name}.ipynb")
        print(f"docs/examples/{name}.ipynb")
