"""Data files are read without running anything that is in them."""

import io
import zipfile

import numpy as np
import pytest

from corollary.audit import SubjectError, read_npz

X, Y = np.ones((4, 2)), np.arange(4)


def test_arrays_come_back(tmp_path):
    np.savez(tmp_path / "a.npz", x=X, y=Y)
    np.savez_compressed(tmp_path / "b.npz", x=X, y=Y, more=X)
    for name in "ab":
        x, y = read_npz(tmp_path / f"{name}.npz")
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(y, Y)


def damaged(path):
    np.savez(path, x=X, y=Y)
    raw = bytearray(path.read_bytes())
    at = raw.index(X.tobytes())
    raw[at : at + 8] = b"\0" * 8
    path.write_bytes(raw)


def enormous(path):
    """A header that promises more than the file has."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (2**30, 2**10)})
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", header.getvalue())
        file.writestr("y.npy", header.getvalue().replace(b"1073741824, 1024", b"4,              "))


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("the file ran code",)


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda p: None, "is not a file"),
        (lambda p: p.write_bytes(b""), "is not a readable NPZ file"),
        (lambda p: p.write_bytes(b"some text, no arrays"), "is not a readable NPZ file"),
        (lambda p: np.savez(p, x=X), "must hold the arrays x and y: it lacks y and holds 'x'"),
        (lambda p: np.savez(p, a=X), "must hold the arrays x and y: it lacks y and holds 'a'"),
        (lambda p: np.savez(p, y=Y), "must hold the arrays x and y: it lacks x and holds 'y'"),
        (enormous, "holds 8192.0 GiB, more than the 8 GiB that are read: give a part of the data"),
        (lambda p: np.savez(p), "and holds nothing"),
        (
            lambda p: np.savez(p, x=np.array([Bomb()]), y=Y),
            "x in .* holds pickled Python objects, which are not loaded",
        ),
        (lambda p: np.array([Bomb()], object).dump(p), "is not a readable NPZ file"),
        (
            lambda p: np.savez(p, x=X, y=np.array(["a"])),
            "got dtype <U1: number the classes from 0",
        ),
        (lambda p: np.save(p.open("wb"), X), "holds a single array"),
        (damaged, "x in .* is damaged"),
        (lambda p: (np.savez(p, x=X, y=Y), p.write_bytes(p.read_bytes()[:-60])), "is not a readable NPZ file"),
    ],
)
def test_one_sentence(tmp_path, write, sentence):
    path = tmp_path / "data.npz"
    write(path)
    with pytest.raises(SubjectError, match=sentence) as caught:
        read_npz(path)
    assert "\n" not in str(caught.value)
