"""Named columns or arrays of a file, as inputs, targets and weights."""

import re
from os import PathLike

import numpy as np
import psutil

from corollary.audit._errors import SubjectError

TARGET, WEIGHTS = "y", "weights"
# data beyond this (8 GiB) are not read: an audit looks at a part of them anyway
MOST = 2**33
# names of what a file holds that a sentence has room for
SHOWN = 6
# what to do about data, and about a network, that are larger
FEWER, SMALLER = "give a part of the data, some thousand examples drawn at random", "give a smaller network"


def numbered(name: str) -> str:
    """What to do about words that are targets."""
    return ": number the classes from 0" if re.fullmatch(r"y\d*", name) else ""


def require_room(path: str | PathLike, size: int, memory_limit: float | None = None, instead: str = FEWER) -> None:
    """One sentence for what would fill the memory, or what of a limit (in bytes) is left to this process."""
    most, more = MOST, ""
    if memory_limit is not None:
        # they are held as they were read, and in the precision of the network
        most = min(most, max(0.0, memory_limit - psutil.Process().memory_info().rss) / 2)
        more = ", or a greater --memory-limit" if most < MOST else ""
    if size > most:
        raise SubjectError(
            f"{path} holds {size / 2**30:.1f} GiB, more than the {most / 2**30:.2g} GiB that are read: {instead}{more}."
        )


def chosen(path: PathLike, columns: dict, inputs=None, *, stacked: bool = False, known=None) -> tuple:
    """`(x, y)`, or `(x, y, weights)`, of named arrays.

    `y` is the target, or `y0`, `y1`, ... side by side; `weights` those of the examples; `x` the input. Without `x` all
    others are inputs by their names, or, in tables (`stacked`), the columns of one input: in their order, or in that of
    the columns `known` from the training data, which then must be the same. `inputs` maps the names of inputs to names
    of arrays.
    """
    several = _targets_among(columns)
    if TARGET in columns:
        y = columns[TARGET]
    elif several and stacked:
        y = np.column_stack([columns[name] for name in several])
    else:
        raise SubjectError(f"{path} must hold the targets as y, and holds {held(columns)}.")
    others = inputs_among(columns, stacked)
    if stacked and known is not None and inputs is None:
        others = _in_order(path, others, inputs_among(known, stacked))
    x = _inputs(path, columns, inputs, others, stacked)
    return (x, y, columns[WEIGHTS]) if WEIGHTS in columns else (x, y)


def inputs_among(names, stacked: bool = True) -> list[str]:
    """The names that are no targets and no weights, in their order."""
    taken = {TARGET, WEIGHTS, *(_targets_among(names) if stacked and TARGET not in names else ())}
    return [name for name in names if name not in taken]


def _targets_among(names) -> list[str]:
    """Targets side by side: y0, y1 and so on."""
    return sorted((name for name in names if re.fullmatch(r"y\d+", name)), key=lambda name: int(name[1:]))


def held(names) -> str:
    """The first of the names of what a file holds, and how many more there are."""
    first = [repr(name) for name in names]
    more = f" and {len(first) - SHOWN} more" if len(first) > SHOWN else ""
    return ", ".join(first[:SHOWN]) + more or "nothing"


def require_arrays(path, names, inputs) -> None:
    """One sentence unless each input has its array."""
    for name, array in inputs.items():
        if array not in names:
            raise SubjectError(f"{path} has no {array!r} for the input {name!r}: it holds {held(names)}.")


def _in_order(path, names, known):
    """The names in the order of the training data; one sentence if they are others."""
    for wanted, there, said in ((known, names, "has no column"), (names, known, "has the column")):
        for name in wanted:
            if name not in there:
                which = "have" if wanted is known else "do not have"
                raise SubjectError(f"{path} {said} {name!r}, which the training data {which}.")
    return known


def _inputs(path, columns, inputs, others, stacked):
    if inputs is not None:
        require_arrays(path, columns, inputs)
        return {name: columns[array] for name, array in inputs.items()}
    if "x" in others:
        return columns["x"]
    if not others:
        raise SubjectError(f"{path} must hold inputs beside the targets: an array x, or columns of numbers.")
    if stacked and all(columns[name].ndim == 1 for name in others):
        return np.column_stack([columns[name] for name in others])
    return {name: columns[name] for name in others}
