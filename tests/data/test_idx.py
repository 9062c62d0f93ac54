"""The IDX reader: every type and shape comes back, every damaged file is one clear sentence."""

import gzip
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corollary.data import DataError, read_idx
from corollary.data._idx import parse_idx

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


def idx(array: np.ndarray) -> bytes:
    """An IDX file written from the description of the format, independently of the reader."""
    code = CODES[array.dtype.str[1:]]
    header = struct.pack(f">HBB{array.ndim}I", 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


@given(
    kind=st.sampled_from(sorted(CODES)),
    shape=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    seed=st.integers(0, 2**16),
)
def test_round_trip(kind, shape, seed):
    array = np.random.default_rng(seed).integers(0, 100, shape).astype(kind)
    back = parse_idx(idx(array), "a file")
    assert back.dtype == array.dtype
    assert back.dtype.isnative
    assert back.flags.writeable
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_plain_and_packed_files(tmp_path, pack):
    array = np.arange(24, dtype="i2").reshape(2, 3, 4) - 12
    path = tmp_path / "numbers"
    path.write_bytes(pack(idx(array)))
    np.testing.assert_array_equal(read_idx(path), array)
    np.testing.assert_array_equal(read_idx(str(path)), array)


GOOD = idx(np.arange(6, dtype="u1").reshape(2, 3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file: its header is empty"),
        (b"\0\0\x08", "not an IDX file: its header is 00 00 08"),
        (b"\x01" + GOOD[1:], "not an IDX file: its header is 01 00 08 02"),
        (GOOD[:2] + b"\x0a" + GOOD[3:], "not an IDX file: its header is 00 00 0a 02"),
        (GOOD[:3] + b"\0" + GOOD[4:], "not an IDX file: its header is 00 00 08 00"),
        (GOOD[:9], "truncated: its header announces 2 axes"),
        (GOOD[:-1], "must hold 6 bytes of data for shape \\(2, 3\\), got 5"),
        (GOOD + b"\0", "must hold 6 bytes of data for shape \\(2, 3\\), got 7"),
        (b"\0\0\x0e\x04" + b"\xff" * 16 + b"\0", "must hold .* bytes of data for shape"),
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_bad_content(tmp_path, content, message, pack):
    path = tmp_path / "bad"
    path.write_bytes(pack(content))
    with pytest.raises(DataError, match=message) as caught:
        read_idx(path)
    assert str(caught.value).startswith(str(path))


def test_truncated_gzip(tmp_path):
    path = tmp_path / "short.gz"
    path.write_bytes(gzip.compress(GOOD)[:-10])
    with pytest.raises(DataError, match="truncated: its gzip stream ends too early"):
        read_idx(path)


@pytest.mark.parametrize("at", [2, 12])  # the method in gzip's header, a byte of the compressed stream
def test_damaged_gzip(tmp_path, at):
    packed = bytearray(gzip.compress(np.random.default_rng(0).bytes(1000)))
    packed[at] ^= 0xFF
    path = tmp_path / "damaged.gz"
    path.write_bytes(packed)
    with pytest.raises(DataError, match="damaged and cannot be unpacked"):
        read_idx(path)


def test_no_file(tmp_path):
    with pytest.raises(DataError, match="cannot be read \\(No such file"):
        read_idx(tmp_path / "nothing")
    with pytest.raises(DataError, match="cannot be read \\(Is a directory"):
        read_idx(tmp_path)
    with pytest.raises(TypeError, match="path must be a path to an IDX file, got int"):
        read_idx(3)
