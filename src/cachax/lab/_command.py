"""cachax lab: the options, and where the results go."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from .._terminal import check_writable
from ._entry import Entry, chosen, unknown
from ._matrix import Matrix, known_probes, known_strategies, run


def add_to(parser: argparse.ArgumentParser) -> None:
    parser.usage = "cachax lab [OPTIONS]"
    parser.description = (
        "Runs every known approach to caching a derived value on the installed JAX, "
        "and reports how often the value is computed and whether it is correct under "
        "grad, vmap, scan and after updates."
    )
    add = parser.add_argument
    add("--strategy", action="append", metavar="NAME", help="only this approach")
    add("--probe", action="append", metavar="NAME", help="only this question")
    add("--list", action="store_true", help="list approaches and questions, and exit")
    for kind, what in [
        ("json", "write everything, for a program to read"),
        ("html", "write a page with the program and the result of each cell"),
        ("svg", "write a picture of the matrix"),
        ("summary", "write a small picture of the main results"),
    ]:
        add(f"--{kind}", type=Path, metavar="FILE", help=what)
    parser.set_defaults(parser=parser, run=main)


def main(options: argparse.Namespace) -> int:
    parser: argparse.ArgumentParser = options.parser
    strategies, probes = known_strategies(), known_probes()
    for known, given in [(strategies, options.strategy), (probes, options.probe)]:
        for name in given or ():
            if name not in known:
                parser.error(unknown(name, known))
    if options.summary and (options.strategy or options.probe):
        parser.error("--summary needs all strategies and probes")
    if options.list:
        _list("strategies", strategies)
        _list("probes", probes)
        return 0
    try:
        import rich.console  # noqa: F401
    except ImportError:
        parser.error("the lab needs rich: pip install 'cachax[lab]'")
    files = [options.json, options.html, options.svg, options.summary]
    for path in filter(None, files):
        try:
            check_writable(path)
        except OSError as error:
            parser.error(f"{path}: {error.strerror}")
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    matrix = _run_with_a_bar(
        chosen(strategies, options.strategy), chosen(probes, options.probe)
    )
    _write(matrix, options)
    return 0


def _list(kind: str, known: dict[str, Entry]) -> None:
    print(f"{kind}:")
    width = max(map(len, known))
    for name, entry in known.items():
        print(f"  {name:{width}}  {entry.title}")


def _run_with_a_bar(strategies: list[Entry], probes: list[Entry]) -> Matrix:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        cells = bar.add_task("measuring", total=len(strategies) * len(probes))

        def advance(strategy: str, probe: str) -> None:
            bar.update(cells, advance=1, description=strategy)

        return run([s.name for s in strategies], [p.name for p in probes], advance)


def _write(matrix: Matrix, options: argparse.Namespace) -> None:
    from ._page import page
    from ._picture import picture
    from ._summary import summary
    from ._table import show

    files: list[tuple[Path | None, Callable[[Matrix], str]]] = [
        (options.json, _json),
        (options.html, page),
        (options.svg, picture),
        (options.summary, summary),
    ]
    for path, text in files:
        if path:
            path.write_text(text(matrix), encoding="utf-8")
    show(matrix)
    for path, _ in files:
        if path:
            print(f"written: {path}")


def _json(matrix: Matrix) -> str:
    return json.dumps(matrix.to_dict(), indent=1) + "\n"
