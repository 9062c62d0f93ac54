"""Columns of a table in sentences: by their names where they have some, or by their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
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


def of_frame(x: Any) -> list[str] | None:
    """The names of the columns of a data frame; None for anything else."""
    return [str(name) for name in x.columns] if hasattr(x, "iloc") and hasattr(x, "columns") else None


def _name(names: list[str], place: int) -> str:
    return spelled(names, place) if place < len(names) else "not there"


def names_of(columns: Sequence[str] | None, x: Any, inputs: Any, test: Any = None) -> tuple[str, ...] | None:
    """The names of the columns of the inputs: those given, or those of a data frame `x`, which `test` must have too."""
    ours, theirs = of_frame(x), of_frame(test)
    if ours is not None and theirs is not None and ours != theirs:
        place = next(i for i, pair in enumerate(zip_longest(ours, theirs)) if len(set(pair)) > 1)
        raise SubjectError(
            f"the test columns must be the training columns in their order: column {place} is "
            f"{_name(theirs, place)}, in training {_name(ours, place)}."
        )
    columns = ours if columns is None else columns
    if columns is None:
        return None
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise SubjectError(f"columns must be names, one for each column of the inputs, got {columns!r:.60}.")
    if not isinstance(inputs, jax.Array) or inputs.ndim != 2:
        raise SubjectError("columns are names of the columns of a table: the inputs must be one array (n, columns).")
    if len(columns) != inputs.shape[1]:
        raise SubjectError(
            f"columns must name each of the {inputs.shape[1]} columns of the inputs, got {len(columns)} names."
        )
    return tuple(columns)
