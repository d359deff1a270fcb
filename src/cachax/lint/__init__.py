"""Finds mistakes with cached values in code that uses JAX, without importing JAX."""

from ._check import check as check
from ._finding import Edit as Edit
from ._finding import Finding as Finding
from ._finding import Fix as Fix
from ._finding import Place as Place
from ._finding import Severity as Severity
from ._rule import Rule as Rule
from ._rule import known_rules as known_rules
from ._run import Checked as Checked
from ._run import run as run
from ._settings import Settings as Settings
from ._source import Source as Source
