"""Ridge regression over 50 penalties and 10 folds: `cross_validate` in one program, beside scikit-learn's GridSearchCV.

    python benchmarks/validation.py

Both see the same data, folds and penalties in double precision, and their scores are compared. scikit-learn runs on one
process: at this size starting others costs more than it saves. Times are the best of several runs after the first.
"""

import argparse
import time

import jax
import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold

from corollary.foundations import ridge
from corollary.generalization import cross_validate


def fit(data, penalty, key):
    w = ridge(*data, penalty)
    return lambda x: x @ w


def square(output, target):
    return (output - target) ** 2


def best(run, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def main(n: int, d: int, penalties: int, folds: int, repeats: int) -> float:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, d))
    y = x @ rng.normal(size=d) + rng.normal(size=n)
    values, splitter = np.logspace(-4, 2, penalties), KFold(folds)
    inside = n - n // folds  # scikit-learn's penalty stands beside the sum over the points of a training part
    search = GridSearchCV(
        Ridge(fit_intercept=False),
        {"alpha": values * inside},
        cv=splitter,
        scoring="neg_mean_squared_error",
        refit=False,
    )
    with jax.enable_x64(True):

        def ours():
            found = cross_validate(fit, (x, y), splitter, values=values, loss=square, key=jax.random.key(0))
            return jax.block_until_ready(found)

        scores = ours().mean
        reference = -search.fit(x, y).cv_results_["mean_test_score"]
        np.testing.assert_allclose(scores, reference, rtol=1e-8)
        mine, theirs = best(ours, repeats), best(lambda: search.fit(x, y), max(2, repeats // 3))
    print(
        f"{penalties} penalties, {folds} folds, {n} x {d}: ours {1e3 * mine:.1f} ms, GridSearchCV {1e3 * theirs:.0f} ms"
    )
    print(f"{theirs / mine:.0f} times as fast (the bar is 10); the scores agree to 1e-8")
    return theirs / mine


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--d", type=int, default=20)
    parser.add_argument("--penalties", type=int, default=50)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=10)
    raise SystemExit(main(**vars(parser.parse_args())) < 10)
