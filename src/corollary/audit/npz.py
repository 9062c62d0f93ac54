"""Data from files: arrays `x` and `y` in NumPy's NPZ format, never pickled objects, which could run code."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from corollary.audit._errors import SubjectError


def read_npz(path: str | PathLike) -> tuple[np.ndarray, np.ndarray]:
    """The arrays `x` and `y` of an NPZ file; one sentence if the file is missing, damaged, incomplete or pickled."""
    path = Path(path)
    if not path.is_file():
        raise SubjectError(f"{path} is not a file.")
    try:
        loaded = np.load(path, allow_pickle=False)
    except Exception:  # of zipfile, zlib and NumPy, each with its own
        raise SubjectError(
            f"{path} is not a readable NPZ file: write one with numpy.savez({path.name!r}, x=x, y=y)."
        ) from None
    if not isinstance(loaded, np.lib.npyio.NpzFile):
        raise SubjectError(f"{path} holds a single array: save x and y in one file with numpy.savez.")
    with loaded:
        missing = [name for name in ("x", "y") if name not in loaded.files]
        if missing:
            held = ", ".join(map(repr, loaded.files)) or "nothing"
            raise SubjectError(
                f"{path} must hold the arrays x and y: it lacks {' and '.join(missing)} and holds {held}."
            )
        return _array(path, loaded, "x"), _array(path, loaded, "y")


def _array(path, loaded, name) -> np.ndarray:
    try:
        array = loaded[name]
    except Exception as error:
        if "allow_pickle" in str(error):
            raise SubjectError(
                f"{name} in {path} holds pickled Python objects, which are not loaded: save an array of numbers."
            ) from None
        raise SubjectError(f"{name} in {path} is damaged: write the file again.") from None
    if array.dtype.kind not in "fiub":
        raise SubjectError(f"{name} in {path} must hold numbers, got dtype {array.dtype}.")
    return array
