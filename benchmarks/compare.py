"""How often two seeds of one recipe show a difference, and whether planted ones are found where the report says.

    python benchmarks/compare.py                # 200 pairs of each family and size
    python benchmarks/compare.py --pairs 20     # smaller
    python benchmarks/compare.py --twins 4      # with four further networks of the first one's recipe for each pair
    python benchmarks/compare.py --recipes 100  # by what factor the losses of two seeds of a regression differ

All networks of a family are trained in one mapped program, each with a start and batches of its own. Every pair is
compared on test examples of its own by the paired tests of `audit.compare`. Under "seeds" the share of pairs that show
any difference is held against the declared 5 % by an exact binomial test. Under "planted" the second of a pair was
trained on labels of which a share is wrong; where the difference on 4,000 further examples is at least what the report
says would be seen, at least 80 % must have been.
"""

import argparse
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.stats import binomtest

from corollary import Network, Subject
from corollary.audit._groups import groups_of
from corollary.audit._outcomes import Outcomes
from corollary.audit.compare import LEVEL, POWER, paired_tests

TRAIN, WIDTH, BATCH, STEPS, STEP, POOL = 400, 24, 32, 600, 0.1, 4000
#: shares of wrong labels that are planted
PLANTED = (0.05, 0.1, 0.2, 0.3, 0.5)


class Family(NamedTuple):
    """A law of examples: dimension, classes (0: a regression), and `draw(rng, n)`."""

    dim: int
    classes: int
    draw: Any


def _clusters(classes, dim, spread):
    centres = np.random.default_rng(5).normal(size=(3 * classes, dim)) * spread

    def draw(rng, n):
        which = rng.integers(0, 3 * classes, n)
        return (centres[which] + rng.normal(size=(n, dim))).astype(np.float32), which % classes

    return Family(dim, classes, draw)


def _waves(dim=6, noise=0.3, seed=6):
    w = np.random.default_rng(seed).normal(size=(dim, 4))

    def draw(rng, n):
        x = rng.normal(size=(n, dim)).astype(np.float32)
        y = np.sin(x @ w).sum(1, keepdims=True) + noise * rng.normal(size=(n, 1))
        return x, y.astype(np.float32)

    return Family(dim, 0, draw)


FAMILIES = {"ten classes": _clusters(10, 16, 1.0), "three classes": _clusters(3, 8, 1.2), "regression": _waves()}


def apply(params, x):
    return jnp.tanh(x @ params[0] + params[1]) @ params[2] + params[3]


def losses(out, y, classes):
    if classes:
        return optax.softmax_cross_entropy_with_integer_labels(out, y)
    return 0.5 * jnp.sum((out - y) ** 2, axis=-1)


@partial(jax.jit, static_argnums=(3, 4, 5))
def trained(keys, x, y, classes, width=WIDTH, steps=STEPS, rate=STEP):
    """Networks of one recipe on labels of their own: `y` has a row for each."""
    wide = max(classes, 1)

    def one(key, y):
        first, last, batches = jax.random.split(key, 3)
        params = [jax.random.normal(first, (x.shape[1], width)) / x.shape[1] ** 0.5, jnp.zeros(width)]
        params += [jax.random.normal(last, (width, wide)) / width**0.5, jnp.zeros(wide)]

        def step(params, key):
            rows = jax.random.randint(key, (BATCH,), 0, len(x))
            slope = jax.grad(lambda p: losses(apply(p, x[rows]), y[rows], classes).mean())(params)
            return jax.tree.map(lambda p, g: p - rate * g, params, slope), None

        return jax.lax.scan(step, params, jax.random.split(batches, steps))[0]

    return jax.vmap(one)(keys, y)


def outcomes(out, y, classes) -> Outcomes:
    loss = np.asarray(losses(out, y, classes))
    if not classes:
        return Outcomes("test", "", loss)
    wrong = (out.argmax(1) != y).astype(np.float32)
    brier = np.asarray(jnp.sum((jax.nn.softmax(out) - np.eye(classes)[y]) ** 2, axis=1))
    return Outcomes("test", "", loss, wrong, brier)


def measure(name, pairs, sizes, share, seed, twins=0):
    """The rows of one family: for every size how many pairs showed a difference, and how many large ones were seen."""
    family = FAMILIES[name]
    rng = np.random.default_rng([seed, int(100 * share)])
    x, y = family.draw(rng, TRAIN)
    ys = np.repeat(y[None], 2 * pairs, axis=0)
    if share:
        wrong = rng.random((pairs, TRAIN)) < share
        ys[1::2][wrong] = np.stack([rng.permutation(y) for _ in range(pairs)])[wrong]
    keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), (2 + twins) * pairs)
    ys = np.concatenate([ys, np.repeat(y[None], twins * pairs, axis=0)])
    params = trained(keys, x, ys, family.classes)
    more = jax.tree.map(lambda a: a[2 * pairs :], params)
    params = jax.tree.map(lambda a: a[: 2 * pairs], params)
    forward = jax.jit(jax.vmap(apply, (0, None)))
    pool_x, pool_y = family.draw(rng, POOL)
    # what the quantities really are
    truth = [outcomes(out, pool_y, family.classes) for out in np.asarray(forward(params, pool_x))]
    for n in sizes:
        any_seen, large, found = 0, 0, 0
        for i in range(pairs):
            x, y = family.draw(rng, n)
            both = jax.tree.map(lambda a, i=i: a[2 * i : 2 * i + 2], params)
            old, new = (outcomes(out, y, family.classes) for out in np.asarray(forward(both, x)))
            loss = "cross_entropy" if family.classes else "squared"
            network = Network(apply, jax.tree.map(lambda a, i=i: a[2 * i], params), batched=True)
            groups = groups_of(Subject(network, loss, (x, y)), "train")
            others = jax.tree.map(lambda a, i=i: a[twins * i : twins * (i + 1)], more)
            seeds = [outcomes(out, y, family.classes) for out in np.asarray(forward(others, x))] if twins else ()
            tests = paired_tests(old, new, groups, jax.random.key(i), seeds, y if family.classes else None)
            any_seen += any(t.verdict != "no difference seen" for t in tests)
            for t, field in zip(tests, _fields(new), strict=False):
                really = np.mean(getattr(truth[2 * i + 1], field)) - np.mean(getattr(truth[2 * i], field))
                if really >= t.smallest:
                    large += 1
                    found += t.verdict == "worse"
        yield n, any_seen, large, found


def _fields(outcomes):
    return [f for f in ("wrong", "loss", "brier") if getattr(outcomes, f) is not None]


def factors(recipes, seeds=32):
    """The logarithms of the ratios of the losses of two seeds, in rows, for regressions with recipes at random."""
    rng = np.random.default_rng(2)
    for i in range(recipes):
        dim, n, noise = (
            int(rng.choice([2, 6, 16])),
            int(rng.choice([100, 400, 1600])),
            float(rng.choice([0.1, 0.3, 1.0])),
        )
        width, steps, rate = int(rng.choice([8, 24, 64])), int(rng.choice([300, 1200])), float(rng.uniform(0.02, 0.12))
        family = _waves(dim, noise, 100 + i)
        x, y = family.draw(rng, n)
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), seeds)
        params = trained(keys, x, np.repeat(y[None], seeds, axis=0), 0, width, steps, rate)
        x, y = family.draw(rng, POOL)
        out = jax.vmap(apply, (0, None))(params, x)
        loss = np.log(np.asarray(losses(out, y, 0), float).mean(1))
        yield (
            f"{dim=} {n=} {noise=} {width=} {steps=} rate={rate:.3f}",
            loss[::2] - loss[1::2],
            float(np.exp(loss.mean())),
        )


def calibrate(recipes):
    found = [(name, apart, level) for name, apart, level in factors(recipes) if np.isfinite(apart).all()]
    found.sort(key=lambda one: one[1].std())
    for name, apart, level in found[:: max(len(found) // 10, 1)] + found[-3:]:
        print(f"  {name}: loss {level:.3f}, two seeds differ by a factor of {np.exp(np.abs(apart)).max():.2f} at most")
    pooled = np.exp(np.abs(np.concatenate([apart for _, apart, _ in found])))
    shares = ", ".join(f"{100 * q:g} %: {np.quantile(pooled, q):.2f}" for q in (0.5, 0.9, 0.95, 0.99, 1))
    print(f"{len(found)} recipes, {len(pooled)} pairs of seeds, quantiles of the factor: {shares}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--planted", type=int, default=40, help="pairs of each planted share")
    parser.add_argument("--twins", type=int, default=0)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES))
    parser.add_argument("--recipes", type=int, default=0)
    given = parser.parse_args()
    if given.recipes:
        return calibrate(given.recipes)
    for name in given.families:
        for n, seen, _, _ in measure(name, given.pairs, given.sizes, 0.0, 0, given.twins):
            more = binomtest(seen, given.pairs, LEVEL, alternative="greater").pvalue
            ends = binomtest(seen, given.pairs).proportion_ci(0.95, "exact")
            print(
                f"seeds    {name:14} {n:5} examples: {seen} of {given.pairs} pairs show a difference "
                f"[{100 * ends.low:.1f}, {100 * ends.high:.1f}] %; more than {100 * LEVEL:.0f} %: p {more:.2g}",
                flush=True,
            )
        total = {n: np.zeros(2, int) for n in given.sizes}
        for share in PLANTED:
            for n, _, large, found in measure(name, given.planted, given.sizes, share, 1, given.twins):
                total[n] += (large, found)
        for n, (large, found) in total.items():
            fewer = binomtest(int(found), int(large), POWER, alternative="less").pvalue if large else 1.0
            print(
                f"planted  {name:14} {n:5} examples: of {large} differences that should be seen {found} were; "
                f"fewer than {100 * POWER:.0f} %: p {fewer:.2g}",
                flush=True,
            )


if __name__ == "__main__":
    main()
