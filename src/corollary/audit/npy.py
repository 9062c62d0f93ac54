"""Arrays that stay on disk until rows of them are asked for: folders of NPY files, and large arrays in NPZ files."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from corollary.audit._errors import SubjectError
from corollary.audit._table import chosen, numbered

#: Arrays of an NPZ file beyond this (64 MiB) are read row by row, if they were not compressed.
LARGE = 2**26
# the fixed part of the header that stands before a file in an archive; the lengths of name and extra field end it
LOCAL = 30


class Shards:
    """Arrays one after another along the first axis, as one: rows are read from those that have them."""

    def __init__(self, arrays: Sequence[Any]):
        self.arrays = tuple(arrays)
        self.ends = np.cumsum([len(a) for a in self.arrays])
        self.shape, self.dtype = (int(self.ends[-1]), *arrays[0].shape[1:]), arrays[0].dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows) -> np.ndarray:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        rows = np.asarray(rows)
        if rows.ndim == 0:
            return self[rows[None]][0]
        out = np.empty((len(rows), *self.shape[1:]), self.dtype)
        of = np.searchsorted(self.ends, rows, side="right")
        for i, array in enumerate(self.arrays):
            here = of == i
            if here.any():
                out[here] = array[rows[here] - (self.ends[i] - len(array))]
        return out

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return np.asarray(self[:], dtype)


def has_arrays(path: str | PathLike) -> bool:
    """Whether a folder holds arrays: NPY files."""
    return any(Path(path).glob("*.npy"))


def read_arrays(path: str | PathLike, inputs: Mapping[str, str] | None = None) -> tuple:
    """`(x, y)` or `(x, y, weights)` of the arrays in a folder, `x.npy`, `y.npy` and so on, which stay on disk.

    An array may be in several files, `x-0.npy`, `x-1.npy`, ..., which are joined in the order of their numbers.
    """
    path = Path(path)
    found: dict[str, list[tuple[int, Path]]] = {}
    for file in path.glob("*.npy"):
        part = re.fullmatch(r"(.+)[-_](\d+)", file.stem)
        name, number = (part[1], int(part[2])) if part else (file.stem, -1)
        found.setdefault(name, []).append((number, file))
    return chosen(path, {name: _joined(name, sorted(files)) for name, files in sorted(found.items())}, inputs)


def _joined(name: str, files):
    arrays = [_opened(name, file) for _, file in files]
    kinds = {(a.shape[1:], a.dtype) for a in arrays}
    if len(kinds) > 1 or any(a.ndim == 0 for a in arrays):
        raise SubjectError(f"the files of {name} in {files[0][1].parent} must hold arrays of one shape and type.")
    return arrays[0] if len(arrays) == 1 else Shards(arrays)


def _opened(name: str, file: Path) -> np.ndarray:
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except MemoryError:
        raise
    except Exception:  # of NumPy and the system, each with its own
        raise SubjectError(f"{file} is not a readable NPY file of numbers: write it with numpy.save.") from None
    if array.dtype.kind not in "fiub":
        raise SubjectError(f"{file} must hold numbers, got dtype {array.dtype}{numbered(name)}.")
    return array


def mapped(path: Path, info: zipfile.ZipInfo) -> np.ndarray | None:
    """An array of an NPZ file where it lies in the file; None if it is small, compressed or not all there."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size < LARGE or info.flag_bits & 1:
        return None
    with open(path, "rb") as file:
        file.seek(info.header_offset + LOCAL - 4)
        name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
        start = info.header_offset + LOCAL + name + extra
        file.seek(start)
        if np.lib.format.read_magic(file) != (1, 0):
            return None
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        at = file.tell()
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if dtype.hasobject or dtype.kind not in "fiub" or at + size != start + info.file_size:
        return None
    return np.memmap(path, dtype, "r", at, shape, "F" if fortran else "C")
