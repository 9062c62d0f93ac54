"""MNIST: 70,000 handwritten digits of 28 by 28 pixels."""

from corollary._validate import one_of
from corollary.data._files import File, load
from corollary.data._idx import parse_idx
from corollary.data._types import Data

_MIRRORS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)


def _file(name: str, size: int, sha256: str) -> File:
    name += "-ubyte.gz"
    return File("mnist", name, sha256, size, tuple(mirror + name for mirror in _MIRRORS))


#: split -> images, labels
FILES = {
    "train": (
        _file(
            "train-images-idx3",
            47_040_016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        _file("train-labels-idx1", 60_008, "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    ),
    "test": (
        _file("t10k-images-idx3", 7_840_016, "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
        _file("t10k-labels-idx1", 10_008, "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
    ),
}


def mnist(split: str = "train") -> Data:
    """The `"train"` (60,000) or `"test"` (10,000) part: `x` bytes of shape (n, 28, 28), `y` digits 0 to 9.

    Read from the directory that the environment variable `COROLLARY_DATA` names (or its folder `mnist`), else from
    `data/` in a checkout of corollary, else from the user's cache, else downloaded into that cache. Raises `DataError`
    if no intact copy is to be had.
    """
    files = FILES[one_of("split", split, tuple(FILES))]
    images, labels = (parse_idx(load(file), file.name) for file in files)
    return Data(images, labels.astype(int))
