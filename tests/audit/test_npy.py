"""Arrays that stay on disk: only the rows that are looked at are read, however large the files are."""

import json
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, Subject
from corollary.audit import SubjectError, _data, npy, read_data, read_npz
from corollary.audit.npy import Shards

RNG = np.random.default_rng(0)
N, D = 50, 6
X, Y = RNG.normal(size=(N, D)).astype(np.float32), RNG.integers(0, 3, N)
NETWORK = Network(lambda w, x: x @ w, jnp.asarray(RNG.normal(size=(D, 3)), jnp.float32))


def subject(data, **known):
    return Subject(NETWORK, "cross_entropy", data, **known)


def folder(path, arrays):
    path.mkdir()
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return path


def test_a_folder_of_arrays_is_read_like_the_arrays(tmp_path):
    x, y, weights = read_data(folder(tmp_path / "a", {"x": X, "y": Y, "weights": np.ones(N)}))
    assert all(isinstance(a, np.memmap) for a in (x, y, weights))
    assert subject((x, y)).mean_loss() == subject((X, Y)).mean_loss()
    given, _ = read_data(folder(tmp_path / "b", {"left": X, "right": X, "y": Y}), inputs={"a": "right"})
    assert list(given) == ["a"]


def test_arrays_in_several_files_are_joined_in_the_order_of_their_numbers(tmp_path):
    parts = {"x-10": X[40:], "x-2": X[15:40], "x-0": X[:15], "y_0": Y[:30], "y_1": Y[30:]}
    x, y = read_data(folder(tmp_path / "a", parts))
    assert (x.shape, len(y)) == ((N, D), N)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(x[np.array([3, 14, 15, 41])], X[[3, 14, 15, 41]])
    np.testing.assert_array_equal(x[7], X[7])
    np.testing.assert_array_equal(x[12:18], X[12:18])
    assert subject((x, y)).mean_loss() == subject((X, Y)).mean_loss()


class Watched:
    """An array that says which rows were asked for, as those of HDF5 and Zarr files are asked."""

    def __init__(self, array):
        self.array, self.asked = array, []
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, rows):
        self.asked.extend(np.arange(len(self.array))[rows].ravel().tolist())
        return self.array[rows]


def test_only_the_rows_that_are_looked_at_are_read(monkeypatch):
    monkeypatch.setattr(_data, "INPUTS", 20 * D)
    x, y = Watched(X), Watched(Y)
    some = subject((x, y))
    first = set(range(8))  # the network is tried out on them
    assert set(x.asked) - first <= set(y.asked)
    assert len(set(y.asked)) == 20 == len(some.train[0])
    np.testing.assert_array_equal(some.train[0], X[sorted(set(y.asked))])
    np.testing.assert_array_equal(some.labels(), Y[sorted(set(y.asked))])
    assert some.count() == N
    assert "of 50 training examples 20, drawn at random, were looked at" in some.notes[0]
    with pytest.raises(SubjectError, match=r"train y must have one entry for each of the 50 examples, got shape \(49,"):
        subject((x, Y[1:]))
    with pytest.raises(SubjectError, match="train weights must have one entry for each of the 50 examples"):
        subject((X, Y, np.ones(3)))
    # lists and trees too
    listed = subject((X.tolist(), Y.tolist()))
    np.testing.assert_array_equal(listed.labels(), some.labels())


def test_large_arrays_of_an_npz_file_stay_in_it(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", x=X, y=Y)
    np.savez_compressed(tmp_path / "b.npz", x=X, y=Y)
    np.savez(tmp_path / "c.npz", x=np.asfortranarray(X), y=Y)
    monkeypatch.setattr(npy, "LARGE", 1000)
    for name, kind in (("a", np.memmap), ("b", np.ndarray), ("c", np.memmap)):
        x, y = read_npz(tmp_path / f"{name}.npz")
        assert type(x) is kind
        assert type(y) is np.ndarray
        np.testing.assert_array_equal(x, X)


CHILD = """
import json, resource, sys
import jax.numpy as jnp
from corollary import Network, Subject
from corollary.audit import _data, read_data
path, columns = sys.argv[1], int(sys.argv[2])
_data.INPUTS = 2**22
network = Network(lambda w, x: x @ w, jnp.ones((columns, 2)) / columns)
Subject(network, "cross_entropy", (jnp.ones((9, columns)), [0] * 9))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
subject = Subject(network, "cross_entropy", read_data(path))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kind = 1 if sys.platform == "darwin" else 1024
print(json.dumps([subject.count(), len(subject.train[0]), subject.error(), (after - before) * kind]))
"""


def sparse(path, n, columns):
    """Gigabytes of zeros, which take no room on the disk."""
    path.mkdir()
    np.lib.format.open_memmap(path / "x.npy", "w+", np.float32, (n, columns)).flush()
    np.save(path / "y.npy", np.zeros(n, np.int8))
    return path


def test_gigabytes_are_audited_in_little_memory(tmp_path):
    n, columns = 2**20, 2**10  # 4 GiB
    path = sparse(tmp_path / "large", n, columns)
    out = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(columns)], capture_output=True, text=True, check=True
    )
    count, taken, error, memory = json.loads(out.stdout)
    assert (count, taken, error) == (n, 2**12, 0.0)
    # 16 MiB of rows and copies of them; Linux maps up to 64 KiB around each row that is touched, 256 MiB in all
    assert memory < 2**29


REFUSED = {
    "no numbers": ({"x": np.full(N, "a"), "y": Y}, "x.npy must hold numbers"),
    "no targets": ({"x": X}, "must hold the targets as y, and holds 'x'"),
    "shards of other shapes": (
        {"x-0": X, "x-1": X[:, 1:], "y": Y},
        "the files of x in .* must hold arrays of one shape",
    ),
    "pickled": ({"x": np.array([{}], object), "y": Y}, "x.npy is not a readable NPY file of numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_sentence(tmp_path, case):
    arrays, sentence = REFUSED[case]
    path = folder(tmp_path / "a", {})
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array, allow_pickle=True)
    with pytest.raises(SubjectError, match=sentence) as caught:
        read_data(path)
    assert "\n" not in str(caught.value)


def test_a_damaged_file(tmp_path):
    path = folder(tmp_path / "a", {"x": X, "y": Y})
    Path(path / "x.npy").write_bytes((path / "x.npy").read_bytes()[:-50])
    with pytest.raises(SubjectError, match=r"x.npy is not a readable NPY file"):
        read_data(path)


def test_shards_know_their_length():
    assert len(Shards([X[:3], X[3:]])) == N
