"""Columns of a table in sentences: by their names where they have some, or by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from corollary.audit._errors import SubjectError

# characters of a name that a sentence has room for
MOST = 40


def spelled(names: Sequence[str] | None, column: int) -> str:
    """What stands behind the word "column": a name in quotation marks, or a number counted from 0."""
    if names is None:
        return str(int(column))
    name = " ".join(names[int(column)].split())
    return f"'{name if len(name) <= MOST else name[: MOST - 1] + '…'}'"


def names_of(columns: Sequence[str] | None, x: Any, inputs: Any) -> tuple[str, ...] | None:
    """The names of the columns of the inputs: those given, or those of a data frame `x`."""
    if columns is None:
        if not (hasattr(x, "iloc") and hasattr(x, "columns")):
            return None
        columns = [str(name) for name in x.columns]
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise SubjectError(f"columns must be names, one for each column of the inputs, got {columns!r:.60}.")
    if not isinstance(inputs, jax.Array) or inputs.ndim != 2:
        raise SubjectError("columns are names of the columns of a table: the inputs must be one array (n, columns).")
    if len(columns) != inputs.shape[1]:
        raise SubjectError(
            f"columns must name each of the {inputs.shape[1]} columns of the inputs, got {len(columns)} names."
        )
    return tuple(columns)
