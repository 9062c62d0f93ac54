"""Random recipes, trained: how often one fails, by what can be seen at its start and in its first steps.

    python benchmarks/recipes.py measure OUT.npz --recipes 1024             # eight families; a minute each on a GPU
    python benchmarks/recipes.py measure UNSEEN.npz --recipes 256 --seed 1
    python benchmarks/recipes.py table OUT.npz                               # which recipes fail
    python benchmarks/recipes.py fit OUT.npz UNSEEN.npz --write              # the prediction of "Will it train?"

A recipe is a family of `_families.py` with its start scaled by 2^-3 to 2^3 and its usual step by 4^-4 to 4^3. It fails
if the steps given (60 to 600) do not bring the training loss below half of that of a blind guess. What is recorded
are the numbers of `corollary.audit.sections._early` after 10, 20, 40 and 80 steps, the loss after the steps given, and
the same with other batches from the 20th step on: what no prediction after 20 steps can know. docs/calibration.md has
the tables.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from _families import BATCH, FAMILIES, forward
from jax.flatten_util import ravel_pytree

from corollary.audit.sections._early import PROBE, curvature

#: steps after which is looked, and the steps given
LOOKS, GIVEN, EARLY = (10, 20, 40, 80), (60, 120, 300, 600), 20
#: steps in one call of the compiled program
AT_ONCE = 5


def loss_of(family):
    apply = forward(family)

    def loss(params, x, y):
        out = apply(params, x)
        if family.loss == "squared":
            return jnp.mean((out - y) ** 2) / 2
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(out), y[:, None], 1))

    return loss


@partial(jax.jit, static_argnames="name")
def walked(name, params, steps, keys, x, y):
    """All recipes some steps further, with the loss and the squared gradient of each batch."""
    loss = loss_of(FAMILIES[name])

    def one(params, step, keys):
        def down(params, key):
            rows = jax.random.randint(key, (BATCH,), 0, len(y))
            value, slope = jax.value_and_grad(loss)(params, x[rows], y[rows])
            moved = jax.tree.map(lambda p, g: p - step * g, params, slope)
            return moved, (value, jnp.sum(ravel_pytree(slope)[0] ** 2))

        return jax.lax.scan(down, params, keys)

    return jax.vmap(one)(params, steps, keys)


@partial(jax.jit, static_argnames="name")
def looked(name, params, starts, keys, x, y):
    """Loss, squared gradient, curvature, distance over the norm of the start, and error, all on a probe."""
    family = FAMILIES[name]
    loss, apply, x, y = loss_of(family), forward(family), x[:PROBE], y[:PROBE]

    def one(params, start, key):
        value, slope = jax.value_and_grad(loss)(params, x, y)
        first, here = ravel_pytree(start)[0], ravel_pytree(params)[0]
        out = apply(params, x)
        wrong = jnp.mean((out - y) ** 2) if family.loss == "squared" else jnp.mean(jnp.argmax(out, 1) != y)
        top = curvature(lambda p: loss(p, x, y), params, key)
        moved = jnp.linalg.norm(here - first) / jnp.linalg.norm(first)
        return jnp.stack([value, jnp.sum(ravel_pytree(slope)[0] ** 2), top, moved, wrong])

    return jax.vmap(one)(params, starts, keys)


@partial(jax.jit, static_argnames="name")
def losses(name, params, x, y):
    return jax.vmap(lambda p: loss_of(FAMILIES[name])(p, x, y))(params)


def measured(name, recipes, seed) -> dict:
    """One family's recipes: the numbers of the first steps, and the losses after the steps given."""
    family, rng = FAMILIES[name], np.random.default_rng([seed, *map(ord, name)])
    table = family.data()
    x, y = jnp.asarray(table.x[: table.train]), jnp.asarray(table.y[: table.train])
    sizes = (family.step * 4 ** rng.uniform(-4, 3, recipes)).astype("f4")
    scales = (2 ** rng.uniform(-3, 3, recipes)).astype("f4")
    init_key, batch_key, other_key, top_key = jax.random.split(jax.random.key(int(rng.integers(2**31))), 4)
    starts = jax.vmap(lambda k, s: jax.tree.map(lambda a: s * a, family.init(k)))(
        jax.random.split(init_key, recipes), scales
    )
    tops = jax.random.split(top_key, recipes)

    def looks(params):
        return np.asarray(looked(name, params, starts, tops, x, y))

    def walk(params, key, begin, end):
        """Losses and squared gradients of all batches, and the parameters after some of the steps."""
        seen, kept = [], {begin: params}
        for i in range(begin, end, AT_ONCE):
            keys = jax.random.split(jax.random.fold_in(key, i), (recipes, AT_ONCE))
            params, more = walked(name, params, sizes, keys, x, y)
            seen.append(np.stack(more, -1))
            if i + AT_ONCE in {*LOOKS, *(k // 2 for k in LOOKS), *GIVEN}:
                kept[i + AT_ONCE] = params
        return np.concatenate(seen, 1), kept

    seen, kept = walk(starts, batch_key, 0, max(GIVEN))
    other = walk(kept[EARLY], other_key, EARLY, max(GIVEN))[1]
    at = {k: looks(kept[k]) for k in sorted({0, *LOOKS, *(k // 2 for k in LOOKS)})}
    shares = np.bincount(table.y[: table.train]) / table.train if family.loss != "squared" else None
    blind = np.var(table.y[: table.train]) / 2 if shares is None else -np.sum(shares * np.log(shares))
    blind_error = 2 * blind if shares is None else 1 - shares.max()
    early = []
    for k in LOOKS:
        half = seen[:, k // 2 : k]
        numbers = at[0][:, 0], at[k // 2][:, 0], at[k][:, 0], at[0][:, 1], at[k][:, 1], at[0][:, 2], at[k][:, 2]
        numbers += at[k][:, 3], half[:, :, 0].mean(1), half[:, :, 0].std(1), half[:, :, 1].mean(1)
        early.append(np.stack([*numbers, at[k][:, 4] / blind_error]))
    ends, others = (np.stack([np.asarray(losses(name, k[t], x, y)) for t in GIVEN]) for k in (kept, other))
    return dict(
        early=np.stack(early).transpose(2, 0, 1),  # recipes, looks, numbers
        ends=ends.T,
        others=others.T,
        step=sizes,
        scale=scales,
        goal=np.full(recipes, blind / 2),
        family=np.full(recipes, list(FAMILIES).index(name)),
    )


def measure(out: Path, recipes: int, seed: int):
    parts = []
    for name in FAMILIES:
        began = time.perf_counter()
        parts.append(measured(name, recipes, seed))
        failed = ~(parts[-1]["ends"] < parts[-1]["goal"][:, None])
        shares = ", ".join(f"{100 * f:.0f} % of {t}" for f, t in zip(failed.mean(0), GIVEN, strict=True))
        print(f"{name}: failed in steps: {shares}; {time.perf_counter() - began:.0f} s", flush=True)
        # what there is, should the rest not come to an end
        np.savez_compressed(out, **{k: np.concatenate([p[k] for p in parts]) for k in parts[0]})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "table", "fit"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--recipes", type=int, default=1024, help="of each family")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="put what was fitted into the audit")
    given = parser.parse_args()
    if given.what == "measure":
        measure(given.files[0], given.recipes, given.seed)
        return
    import _recipes_read as read

    if given.what == "table":
        print(read.table(read.loaded(given.files)))
    else:
        read.fit(*given.files, write=given.write)


if __name__ == "__main__":
    main()
