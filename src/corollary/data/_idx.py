"""The IDX format of MNIST: two zero bytes, a type code, the number of axes, their sizes, then the numbers."""

import math
from os import PathLike
from pathlib import Path

import numpy as np

from corollary.data._files import DataError, unpack

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}  # big-endian, by code


def read_idx(path: str | PathLike[str]) -> np.ndarray:
    """The array in an IDX file, plain or gzip-compressed."""
    if not isinstance(path, str | PathLike):
        raise TypeError(f"path must be a path to an IDX file, got {type(path).__name__}.")
    return parse_idx(unpack(Path(path)), str(path))


def parse_idx(content: bytes, name: str) -> np.ndarray:
    """The array in the bytes of an IDX file; `name` is what an error calls it."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES or content[3] == 0:
        raise DataError(f"{name} is not an IDX file: its header is {content[:4].hex(' ') or 'empty'}.")
    dtype, axes = np.dtype(_TYPES[content[2]]), content[3]
    start = 4 + 4 * axes
    if len(content) < start:
        raise DataError(f"{name} is truncated: its header announces {axes} axes and ends before their sizes.")
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    expected, got = math.prod(shape) * dtype.itemsize, len(content) - start
    if got != expected:
        raise DataError(f"{name} must hold {expected} bytes of data for shape {shape}, got {got}.")
    # astype copies: native byte order, and an array that owns its memory and can be written to
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))
