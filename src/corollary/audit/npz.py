"""Arrays from NumPy's NPZ format: never pickled objects, which could run code, and no more than memory has room for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import numpy as np

from corollary.audit._errors import SubjectError
from corollary.audit._table import TARGET, WEIGHTS, chosen, held, numbered, require_arrays, require_room
from corollary.audit.npy import mapped


def read_npz(
    path: str | PathLike, inputs: Mapping[str, str] | None = None, *, memory_limit: float | None = None
) -> tuple:
    """`(x, y)` or `(x, y, weights)` from the arrays of these names in an NPZ file; one sentence if that fails.

    Without an array `x` every other array is an input of its own name, and `x` a dictionary of them. `inputs` says
    which array feeds which input: `{"ids": "input_ids"}`. Sizes are looked at before anything is read, and held to
    `memory_limit` (bytes) if that is given. Large arrays that are not compressed stay on disk.
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise SubjectError(f"{path} is not a file.")
    try:
        with open(path, "rb") as file:
            alone = file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX
        loaded = None if alone else np.load(path, allow_pickle=False)
    except MemoryError:
        raise
    except Exception:  # of zipfile, zlib and NumPy, each with its own
        raise SubjectError(
            f"{path} is not a readable NPZ file: write one with numpy.savez({path.name!r}, x=x, y=y)."
        ) from None
    if alone:
        raise SubjectError(f"{path} holds a single array: save x and y in one file with numpy.savez.")
    with loaded:
        names = list(loaded.files)
        missing = [name for name in ("x", TARGET) if name not in names and (name == TARGET or not _others(names))]
        if missing and inputs is None:
            raise SubjectError(
                f"{path} must hold the arrays x and y: it lacks {' and '.join(missing)} and holds {held(names)}."
            )
        if inputs is not None:
            require_arrays(path, names, inputs)
        wanted = [name for name in _wanted(names, inputs) if name in names]
        sizes = {name: _bytes(path, loaded, name) for name in wanted}
        lying = {name: _lying(path, loaded, name) for name in wanted}
        require_room(path, sum(sizes[name] for name in wanted if lying[name] is None), memory_limit)
        arrays = {name: _array(path, loaded, name) if lying[name] is None else lying[name] for name in wanted}
        return chosen(path, arrays, inputs)


def _others(names):
    return [name for name in names if name not in (TARGET, WEIGHTS)]


def _wanted(names, inputs):
    fed = list(inputs.values()) if inputs is not None else ["x"] if "x" in names else _others(names)
    return dict.fromkeys([*fed, TARGET, WEIGHTS])


def _bytes(path, loaded, name) -> int:
    """The size of an array by its header, which is read alone."""
    try:
        with loaded.zip.open(f"{name}.npy") as file:
            if np.lib.format.read_magic(file) != (1, 0):  # of arrays of numbers; others may have a header of gigabytes
                raise ValueError
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    except MemoryError:
        raise
    except Exception:
        raise SubjectError(f"{name} in {path} is damaged: write the file again.") from None
    if dtype.hasobject:
        raise SubjectError(
            f"{name} in {path} holds pickled Python objects, which are not loaded: save an array of numbers."
        )
    if dtype.kind not in "fiub":
        raise SubjectError(f"{name} in {path} must hold numbers, got dtype {dtype}{numbered(name)}.")
    return int(np.prod(shape, dtype=object)) * dtype.itemsize


def _lying(path, loaded, name) -> np.ndarray | None:
    try:
        return mapped(path, loaded.zip.getinfo(f"{name}.npy"))
    except (OSError, ValueError):
        return None


def _array(path, loaded, name) -> np.ndarray:
    try:
        return loaded[name]
    except MemoryError:
        raise
    except Exception:
        raise SubjectError(f"{name} in {path} is damaged: write the file again.") from None
