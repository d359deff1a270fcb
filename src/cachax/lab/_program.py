"""A cell of the lab as one program that can be copied and run."""

from ._entry import Entry, joined

RUN = """\
found = measure(way)
print(f"{found.verdict.value}: {found.what_happened}")
"""


def program(strategy: Entry, probe: Entry) -> str:
    """The approach, the probe, and a line that prints the result. The page of the lab
    puts the same parts together."""
    return (
        f"# {strategy.title}. {probe.title}.\n"
        f"# Needs: pip install 'cachax[lab,peers]'\n"
        f"{joined([*strategy.imports, *probe.imports])}\n\n\n"
        f"{strategy.body}\n\n{probe.body}\n\n{RUN}"
    )
