"""The loaders on the real files, and what must not be imported for them."""

import gzip
import hashlib
import subprocess
import sys

import numpy as np
import pytest
from test_idx import idx

from corollary import data
from corollary.data import DataError, _files, _mnist, _shakespeare, digits, mnist, shakespeare


def test_digits():
    x, y = digits()
    assert x.shape == (1797, 64)
    assert x.dtype == np.float64
    assert x.min() == 0.0
    assert x.max() == 1.0
    assert y.shape == (1797,)
    assert np.issubdtype(y.dtype, np.integer)
    # the counts in the description of the data set
    assert np.bincount(y).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


@pytest.mark.parametrize(
    ("split", "counts"),
    [
        ("train", [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        ("test", [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
    ],
)
def test_mnist(split, counts):
    x, y = mnist(split)
    assert x.shape == (sum(counts), 28, 28)
    assert x.dtype == np.uint8
    assert np.issubdtype(y.dtype, np.integer)
    assert np.bincount(y).tolist() == counts
    assert x.min() == 0
    assert x.max() == 255
    # mean and deviation that everybody normalises MNIST with: 0.1307 and 0.3081 on the training part
    if split == "train":
        assert round(float(x.mean()) / 255, 4) == 0.1307
        assert round(float(x.std()) / 255, 4) == 0.3081


def test_mnist_first_digits():
    assert mnist().y[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert mnist("test").y[:5].tolist() == [7, 2, 1, 0, 4]


def test_mnist_arrays_are_the_callers_own():
    first = mnist("test")
    first.x[:] = 0
    first.y[:] = 0
    again = mnist("test")
    assert again.x.max() == 255
    assert again.y.max() == 9


@pytest.mark.parametrize("split", ["validation", "", None, 0])
def test_mnist_bad_split(split):
    with pytest.raises(ValueError, match="split must be one of 'train', 'test', got"):
        mnist(split)


def test_mnist_download(monkeypatch, cache, mirror):
    """The whole way from a mirror to arrays, with a small data set in place of the real one."""
    x, y = np.arange(3 * 28 * 28).reshape(3, 28, 28).astype("u1"), np.array([3, 1, 2], "u1")
    files = []
    for name, array in (("images.gz", x), ("labels.gz", y)):
        content = idx(array)
        packed = gzip.compress(content)
        mirror.pages[f"/{name}"] = (200, len(packed), packed)
        sha256 = hashlib.sha256(content).hexdigest()
        files.append(_files.File("mnist", name, sha256, len(content), (f"{mirror.url}/{name}",)))
    monkeypatch.setitem(_mnist.FILES, "test", tuple(files))
    got = mnist("test")
    np.testing.assert_array_equal(got.x, x)
    assert got.y.tolist() == [3, 1, 2]
    assert sorted(p.name for p in (cache / "mnist").iterdir()) == ["images.gz", "labels.gz"]


@pytest.mark.skipif(_files.checkout_directory() is None, reason="only the repository carries the files, not the sdist")
def test_the_repository_carries_every_file(monkeypatch, tmp_path):
    """All of them are read from the checkout, without a cache or a network, and SHA256SUMS is true of them."""
    monkeypatch.delenv("COROLLARY_DATA", raising=False)
    monkeypatch.setattr(_files, "cache_directory", lambda: tmp_path)
    carried = _files.checkout_directory()
    files = [*_mnist.FILES["train"], *_mnist.FILES["test"], _shakespeare.FILE]
    for file in files:
        assert len(_files.load(file._replace(mirrors=()))) == file.size
    listed = dict(line.split("  ")[::-1] for line in (carried / "SHA256SUMS").read_text().splitlines())
    assert set(listed) == {f"{file.folder}/{file.name}" for file in files}
    for name, sha256 in listed.items():
        assert hashlib.sha256((carried / name).read_bytes()).hexdigest() == sha256


def test_mirrors():
    """At least two hosts for every file of MNIST, all over https, under the file's own name."""
    for images, labels in _mnist.FILES.values():
        for file in (images, labels):
            assert len({url.split("/")[2] for url in file.mirrors}) >= 2
            assert all(url.startswith("https://") for url in file.mirrors)
            assert all(url.endswith(f"/mnist/{file.name}") for url in file.mirrors)
    assert all(url.startswith("https://") for url in _shakespeare.FILE.mirrors)


def test_shakespeare():
    text = shakespeare()
    assert len(text) == 1_115_394
    assert len(set(text)) == 65
    assert text.startswith("First Citizen:\n")
    assert text.count("\n") == 40_000


def test_shakespeare_missing(monkeypatch, cache):
    monkeypatch.setattr(_shakespeare, "FILE", _shakespeare.FILE._replace(mirrors=()))
    with pytest.raises(DataError, match="tinyshakespeare.txt is neither .*; put it into .*text"):
        shakespeare()


def test_public_names():
    assert {"Data", "DataError", "digits", "mnist", "read_idx", "shakespeare"} <= set(data.__all__)
    assert all(hasattr(data, name) for name in data.__all__)


def test_scikit_learn_only_when_needed():
    code = (
        "import sys, corollary.data as d; assert 'sklearn' not in sys.modules; "
        "d.digits(); assert 'sklearn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
