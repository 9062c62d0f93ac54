"""The rows of the five texts as data, and who covers them.

Light on purpose: nothing here imports JAX; who covers what is read from the sources.
"""

from corollary.catalog._coverage import Covered, Summary, coverage, summary, unknown_rows
from corollary.catalog._registry import IMPLEMENTED, implements
from corollary.catalog._rows import KINDS, TEXTS, Row, rows, waived

__all__ = [
    "IMPLEMENTED",
    "KINDS",
    "TEXTS",
    "Covered",
    "Row",
    "Summary",
    "coverage",
    "implements",
    "rows",
    "summary",
    "unknown_rows",
    "waived",
]
