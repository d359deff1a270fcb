"""How often each rule applies."""

import json
from collections import Counter
from collections.abc import Sequence

from ._finding import Finding
from ._rule import known_rules


def statistics(findings: Sequence[Finding], as_json: bool = False) -> str:
    """A line for each rule, the most frequent first."""
    counted = Counter(finding.code for finding in findings)
    fixable = {finding.code for finding in findings if finding.fix}
    rows = [
        {
            "code": code,
            "name": known_rules()[code].name,
            "count": count,
            "fixable": code in fixable,
        }
        for code, count in sorted(counted.items(), key=lambda one: (-one[1], one[0]))
    ]
    if as_json:
        return json.dumps(rows, indent=2) + "\n"
    width = max((len(str(row["count"])) for row in rows), default=1)
    return "".join(
        f"{row['count']:>{width}}  {row['code']}  [{'*' if row['fixable'] else ' '}]"
        f"  {row['name']}\n"
        for row in rows
    )
