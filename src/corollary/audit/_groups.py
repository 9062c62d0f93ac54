"""Examples that are alike: what networks of one recipe with other seeds get right or wrong together."""

import warnings

import jax
import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

#: Classes are groups if there are so many of them: fewer could show nothing, and of many each has a few examples.
LEAST, MOST = 8, 16
#: Groups of alike inputs otherwise. Ten can show a p of 1/512, enough for several tests at once.
GROUPS = 10
#: Of larger inputs so many coordinates are looked at, of more examples the centres come from so many.
WIDTH, SAMPLE = 256, 4096


def groups_of(subject, split: str) -> np.ndarray:
    """The number of the group of each example of a split: its class, or the nearest of ten centres of the inputs."""
    if subject.classes is not None and subject.labels(split).ndim == 1:
        found = np.unique(np.asarray(subject.labels(split)), return_inverse=True)[1]
        if LEAST <= found.max() + 1 <= MOST:
            return found
    rows = np.concatenate([_numbers(a) for a in jax.tree.leaves(subject.data(split)[0])], axis=1)
    rows = rows[:, np.linspace(0, rows.shape[1] - 1, min(WIDTH, rows.shape[1])).astype(int)]
    spread = rows.std(0)
    rows = (rows - rows.mean(0)) / np.where(spread > 0, spread, 1)
    some = rows[np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(int)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct examples than centres
        centres = KMeans(min(GROUPS, len(some)), n_init=1, random_state=0).fit(some)
        return np.unique(centres.predict(rows), return_inverse=True)[1]


def _numbers(a) -> np.ndarray:
    """One row of numbers for each example; of words how often each of 64 residues occurs."""
    a = np.asarray(a)
    if a.dtype.kind in "iub" and a.ndim > 1:
        flat = a.reshape(len(a), -1).astype(np.int64) % 64
        return np.stack([(flat == value).mean(1) for value in range(64)], axis=1)
    return a.reshape(len(a), -1).astype(np.float32)
