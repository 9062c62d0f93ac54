"""Columns of a table that say the same: none of them can be given its share."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from corollary.audit._names import spelled
from corollary.audit.finding import Finding, Premise, short

SAME = "columns that say the same"
# Two columns with less than 0.2 % of their variance apart are one column, written twice.
COPY = 0.999
# numbers that are looked at, columns whose pairs are, and how many examples must have another value than the usual one:
# of fewer a correlation is that of a few points
NUMBERS, COLUMNS, LEAST, RARE = 2**23, 2048, 10, 0.01


class Alike(NamedTuple):
    """The pair of columns with the largest correlation, that correlation, and columns that copy an earlier one."""

    first: int
    second: int
    correlation: float
    copies: tuple[tuple[int, int], ...]
    columns: int
    names: tuple[str, ...] | None = None

    @property
    def told(self) -> tuple[str, float]:
        first, second = (spelled(self.names, i) for i in (self.first, self.second))
        return f"columns {first} and {second}", self.correlation


def measure_alike(subject) -> Alike | None:
    """Correlations of the columns on the training data; None where the inputs are no table of numbers."""
    x = subject.train[0]
    if not isinstance(x, jax.Array) or x.ndim != 2 or not jnp.issubdtype(x.dtype, np.floating):
        return None
    if not 2 <= x.shape[1] <= COLUMNS:
        return None
    table = np.asarray(x[: max(2, NUMBERS // x.shape[1])], float)
    usual = np.median(table, 0)
    varied = (table != usual).sum(0) >= max(LEAST, RARE * len(table))
    columns = np.flatnonzero(varied)
    if len(columns) < 2:
        return None
    centred = table[:, columns] - table[:, columns].mean(0)
    centred /= np.linalg.norm(centred, axis=0)
    upper = np.triu(centred.T @ centred, 1)
    i, j = np.unravel_index(np.abs(upper).argmax(), upper.shape)
    pairs = np.argwhere(np.abs(upper) >= COPY)
    seen: dict[int, int] = {}
    for a, b in pairs:  # each copy once, beside the first column that it repeats
        seen.setdefault(int(columns[b]), int(columns[a]))
    copies = tuple((first, second) for second, first in sorted(seen.items()) if first not in seen)
    return Alike(int(columns[i]), int(columns[j]), float(upper[i, j]), copies, len(columns), subject.columns)


def judge_alike(numbers: Alike | None) -> Finding:
    facts = dict(
        theorem="Where two inputs say the same, shuffling one of them alone costs next to nothing, and what a network "
        "takes from which of them is chance; Shapley values divide the credit.",
        claim="attribution.permutation.copies_share_the_credit",
    )
    if numbers is None:
        why = "The inputs are no table of two or more columns that vary."
        return Finding(SAME, "not applicable", why, **facts)
    n = len(numbers.copies)
    if n:
        pairs = [[spelled(numbers.names, i) for i in pair] for pair in numbers.copies[:5]]
        said = "; ".join(f"column {b} repeats column {a}" for a, b in pairs)
        more = f", and {n - 5} more pairs" if n > 5 else ""
        text = f"{said[0].upper()}{said[1:]}{more}. What either is worth by itself cannot be told: keep one of them."
    else:
        text = (
            f"No column repeats another; the nearest are {numbers.told[0]} with a correlation of "
            f"{short(numbers.correlation)}."
        )
    seen = Premise(f"told apart by correlations below {COPY}", True, f"{numbers.columns} columns that vary")
    mark = "look" if n else "fine"
    headline = "Two columns say the same" if n == 1 else f"{n} columns repeat others"
    given = dict(exact=True, unit="columns", premises=(seen,), headline=headline)
    return Finding(SAME, mark, text, float(n), **given, **facts)
