"""Random recipes, trained: how often one fails, by what can be seen at its start and after twenty steps.

    python benchmarks/recipes.py                      # eight families, 256 recipes each: four minutes of CPU time
    python benchmarks/recipes.py --recipes 16         # a look

A recipe is a family of `_families.py` with its start scaled by 2^-3 to 2^3 and its usual step by 4^-4 to 4^3. It fails
if 300 steps do not bring the training loss below half of that of a blind guess. docs/calibration.md has the tables.
"""

import argparse
from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from _families import BATCH, FAMILIES, forward
from jax.flatten_util import ravel_pytree
from scipy.stats import binomtest

STEPS, EARLY, PROBE, POWER = 300, 20, 256, 12
#: edges of the step times the largest curvature at the start
EDGES = (0, 0.05, 0.2, 0.5, 1, 2, 4, 8, 16, 32, 64, np.inf)


def loss_of(family):
    apply = forward(family)

    def loss(params, x, y):
        out = apply(params, x)
        if family.loss == "squared":
            return jnp.mean((out - y) ** 2) / 2
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], 1))

    return loss


def curvature(loss, params, x, y, key):
    """The largest curvature by the power method, within some per cent."""
    flat, back = ravel_pytree(params)
    slope = lambda params: jax.grad(loss)(params, x, y)  # noqa: E731

    def again(v, _):
        return ravel_pytree(jax.jvp(slope, (params,), (back(v / jnp.linalg.norm(v)),))[1])[0], None

    return jnp.linalg.norm(jax.lax.scan(again, jax.random.normal(key, flat.shape), length=POWER)[0])


@partial(jax.jit, static_argnames="name")
def trained(name, keys, steps, scales, x, y):
    """For every recipe: curvature at the start, loss there, after twenty steps, and at the end."""
    family = FAMILIES[name]
    loss = loss_of(family)

    def one(key, step, scale):
        start_key, batch_key, top_key = jax.random.split(key, 3)
        start = jax.tree.map(lambda a: scale * a, family.init(start_key))

        def down(params, key):
            rows = jax.random.randint(key, (BATCH,), 0, len(y))
            return jax.tree.map(lambda p, g: p - step * g, params, jax.grad(loss)(params, x[rows], y[rows])), None

        keys = jax.random.split(batch_key, STEPS)
        early = jax.lax.scan(down, start, keys[:EARLY])[0]
        end = jax.lax.scan(down, early, keys[EARLY:])[0]
        seen = x[:PROBE], y[:PROBE]
        top = curvature(loss, start, *seen, top_key)
        return jnp.stack([top, loss(start, *seen), loss(early, *seen), loss(end, x, y)])

    return jax.vmap(one)(keys, steps, scales)


def measured(name, recipes, seed):
    """One family's recipes: step times curvature, loss after twenty steps over that at the start, and which failed."""
    family, rng = FAMILIES[name], np.random.default_rng([seed, *map(ord, name)])
    table = family.data()
    x, y = table.x[: table.train], table.y[: table.train]
    steps, scales = family.step * 4 ** rng.uniform(-4, 3, recipes), 2 ** rng.uniform(-3, 3, recipes)
    keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), recipes)
    top, start, early, end = np.asarray(trained(name, keys, steps.astype("f4"), scales.astype("f4"), x, y)).T
    shares = np.bincount(y) / len(y) if family.loss != "squared" else None
    blind = y.var() / 2 if shares is None else -np.sum(shares * np.log(shares))
    return steps * top, early / start, ~(end < blind / 2)


def share(found) -> str:
    ends = binomtest(int(found.sum()), len(found)).proportion_ci()
    return f"{100 * found.mean():.0f} % ({100 * ends.low:.0f} to {100 * ends.high:.0f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", type=int, default=256, help="of each family")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    parts = []
    for name in FAMILIES:
        parts.append(measured(name, given.recipes, given.seed))
        print(f"{name}: {share(parts[-1][2])} of {given.recipes} failed", flush=True)
    step, grown, failed = (np.concatenate(column) for column in zip(*parts, strict=True))
    print("\n| step times largest curvature at the start | recipes | failed |\n| --- | --- | --- |")
    for low, high in pairwise(EDGES):
        seen = (step > low) & ~(step > high)
        if seen.any():
            print(f"| {low:g} to {high:g} | {seen.sum()} | {share(failed[seen])} |")
    for word, seen in (("more than doubled", ~(grown < 2)), ("not fallen by a tenth", ~(grown < 0.9) & (grown < 2))):
        if seen.any():
            print(f"| loss {word} in {EARLY} steps | {seen.sum()} | {share(failed[seen])} |")


if __name__ == "__main__":
    main()
