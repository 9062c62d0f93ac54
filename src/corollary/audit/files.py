"""Data from files: NPZ, CSV, Parquet, folders of NPY files, and of PNG images with a subfolder for each class."""

from __future__ import annotations

import csv
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from corollary.audit._errors import SubjectError
from corollary.audit._table import chosen, inputs_among, numbered, require_room
from corollary.audit.npy import has_arrays, read_arrays
from corollary.audit.npz import read_npz

# modes of Pillow: what is one channel, what becomes three; anything else has transparency or another kind of colour
GREY, COLOUR = ("1", "L"), ("P", "RGB")


def read_data(
    path: str | PathLike,
    *,
    inputs: Mapping[str, str] | None = None,
    classes: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    memory_limit: float | None = None,
) -> tuple:
    """`(x, y)` or `(x, y, weights)` from an NPZ, CSV or Parquet file, a folder of arrays or images; else one sentence.

    Arrays or columns are called `y` (or `y0`, `y1`, ... in tables), `weights` and `x`; in a table without `x` all other
    columns are the input. `inputs` says which array feeds which input of a network with several. A folder has a
    subfolder for each class with PNG images of one size: `x` is (n, channels, height, width) from 0 to 1, and classes
    are numbered in the order of their names, or of `classes`. Columns of tables stand in their order, or in that of
    `columns`, which then must be the same but for targets and weights. A folder of arrays has `x.npy`, `y.npy` and so
    on, which stay on disk. What would take more than about half of `memory_limit` (bytes) is not read.
    """
    path = Path(path)
    if os.path.isdir(path):
        if has_arrays(path):
            return read_arrays(path, inputs)
        if inputs is not None:
            raise SubjectError(f"{path} is a folder of images, which are one input: leave out --input.")
        return read_images(path, class_names(path) if classes is None else classes, memory_limit)
    readers = {".npz": read_npz, ".csv": _csv, ".parquet": _parquet}
    if not os.path.exists(path):
        raise SubjectError(f"{path} is not a file.")
    if path.suffix.lower() not in readers:
        raise SubjectError(
            "data are an .npz, .csv or .parquet file or a folder: of .npy files, or with a subfolder of PNG images per "
            f"class, got {path}."
        )
    given = {} if path.suffix.lower() == ".npz" else {"known": columns}
    return readers[path.suffix.lower()](path, inputs, memory_limit=memory_limit, **given)


def column_names(path: str | PathLike) -> list[str] | None:
    """The names of the columns of a table; None for other files, and where they cannot be read."""
    kind = Path(path).suffix.lower()
    try:
        if kind == ".csv":
            with open(path, encoding="utf-8-sig") as file:
                return _header(path, file)[0]
        if kind == ".parquet":
            from pyarrow import parquet

            return list(parquet.read_schema(path).names)
    except (OSError, ValueError, ImportError):  # said where the data are read
        return None
    return None


def input_names(path: str | PathLike) -> list[str] | None:
    """The names of the columns of a table that are inputs; None for other files."""
    names = column_names(path)
    return None if names is None else inputs_among(names)


def class_names(path: str | PathLike) -> list[str]:
    """The names of the subfolders, which are the classes, in order."""
    return sorted(p.name for p in Path(path).iterdir() if p.is_dir() and not p.name.startswith("."))


def _csv(path, inputs, memory_limit, known=None):
    require_room(path, 4 * path.stat().st_size, memory_limit)  # two characters may be a number of eight bytes
    try:
        with open(path, encoding="utf-8-sig") as file:
            names, delimiter, line = _header(path, file)
            with warnings.catch_warnings():  # a file without rows is said below
                warnings.simplefilter("ignore")
                rows = np.loadtxt(file, delimiter=delimiter, ndmin=2, quotechar='"', comments=None)
    except SubjectError:
        raise
    except UnicodeDecodeError:
        raise SubjectError(f"{path} is not a text file in UTF-8.") from None
    except ValueError as error:
        text = _first_wrong(path, names, delimiter) or str(error).splitlines()[0].rstrip(".;")
        raise SubjectError(f"{path} must hold numbers below its first line: {text}.") from None
    if rows.size == 0:
        raise SubjectError(f"{path} must hold at least one example below its first line.")
    if rows.shape[1] != len(names) or len(set(names)) < len(names):
        raise SubjectError(f"{path} must have a name of its own for each of its {rows.shape[1]} columns, got {line}.")
    return chosen(path, dict(zip(names, rows.T, strict=True)), inputs, stacked=True, known=known)


def _header(path, file) -> tuple[list[str], str, str]:
    """The names of the columns, what stands between them, and the line."""
    line = file.readline().strip()
    delimiter = next((d for d in ",;\t" if d in line), ",")
    names = [name.strip().strip('"') for name in line.split(delimiter)]
    if not line or any(map(_number, names)):
        raise SubjectError(f"the first line of {path} must name the columns, one of them y for the targets.")
    return names, delimiter, line


def _first_wrong(path, names, delimiter) -> str | None:
    """What is wrong in the first line that has no number in each column, as its reader would look for it."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, delimiter=delimiter)
        next(rows)
        for row in filter(None, rows):
            place = f"line {rows.line_num} has"
            if len(row) != len(names):
                return f"{place} {len(row)} columns, the first line {len(names)}"
            for name, cell in zip(names, row, strict=True):
                if not cell.strip():
                    return f"{place} nothing in the column {name!r}: fill it in, or leave the line out"
                if not _number(cell):
                    return f"{place} {cell!r:.50} in the column {name!r}{numbered(name)}"
    return None


def _parquet(path, inputs, memory_limit, known=None):
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise SubjectError("a Parquet file needs PyArrow: pip install 'corollary[files]'.") from None
    try:
        file = parquet.ParquetFile(path)
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        columns = [group.column(i) for group in groups for i in range(group.num_columns)]
        # what is repeated may be stored once, so that the size of the file says nothing
        size = sum(max(column.total_uncompressed_size, 8 * column.num_values) for column in columns)
        require_room(path, size, memory_limit)
        table = file.read()
    except (pa.ArrowException, OSError):
        raise SubjectError(f"{path} is not a readable Parquet file: write it again.") from None
    columns = {name: _column(path, name, table.column(name).combine_chunks()) for name in table.column_names}
    return chosen(path, columns, inputs, stacked=True, known=known)


def _column(path, name, column) -> np.ndarray:
    """A column of numbers (n,), or of lists of one length (n, length)."""
    import pyarrow as pa

    if column.null_count:
        raise SubjectError(f"{name} in {path} has {column.null_count} missing values: fill them in or leave them out.")
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = np.asarray(column.value_lengths())
        if len(lengths) and (lengths != lengths[0]).any():
            raise SubjectError(f"{name} in {path} must hold lists of one length: pad them, and say so in a mask.")
        return _column(path, name, column.flatten()).reshape(len(column), -1)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise SubjectError(f"{name} in {path} must hold numbers, got {kind}{numbered(name)}.")
    return np.asarray(column.to_numpy(zero_copy_only=False))


def read_images(
    path: str | PathLike, classes: Sequence[str], memory_limit: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, channels, height, width) from 0 to 1, and the number of the class of each, its place in `classes`."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise SubjectError("a folder of images needs Pillow: pip install 'corollary[files]'.") from None
    path = Path(path)
    names = class_names(path)
    unknown = [name for name in names if name not in classes]
    if unknown:
        raise SubjectError(f"{path} has the class {unknown[0]!r}, which the training data do not have.")
    files = [(file, i) for i, name in enumerate(classes) for file in sorted((path / name).glob("*.[pP][nN][gG]"))]
    if not files:
        raise SubjectError(f"{path} must have a subfolder for each class with PNG images in it.")
    images, kind = None, None
    for k, (file, _) in enumerate(files):
        try:
            with Image.open(file) as image:  # reads the header alone
                if image.mode not in (*GREY, *COLOUR):
                    raise SubjectError(f"{file} has the mode {image.mode}: save it in grey or in RGB.")
                channels = 1 if image.mode in GREY else 3
                if images is None:
                    kind = channels, image.height, image.width
                    require_room(path, 4 * len(files) * math.prod(kind), memory_limit)
                    images = np.empty((len(files), *kind), np.float32)
                if (channels, image.height, image.width) != kind:
                    raise SubjectError(
                        f"all images must have one size and kind: {files[0][0]} has {_spelled(kind)} and {file} "
                        f"{_spelled((channels, image.height, image.width))}."
                    )
                pixels = np.asarray(image.convert("L" if channels == 1 else "RGB"), np.float32) / 255
        except (UnidentifiedImageError, OSError, SyntaxError, Image.DecompressionBombError):
            raise SubjectError(f"{file} is not a readable PNG image.") from None
        images[k] = pixels[None] if channels == 1 else np.moveaxis(pixels, -1, 0)
    return images, np.array([label for _, label in files])


def _spelled(kind) -> str:
    channels, height, width = kind
    return f"{height} × {width} {'grey' if channels == 1 else 'coloured'} pixels"


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
