"""PointNet on point clouds of solids: which solid is it, and which part of it does every point lie on.

    python examples/architectures/point_clouds.py             # the text's sizes on a GPU, smaller ones on two cores
    python examples/architectures/point_clouds.py --quick     # seconds, too short to learn anything

Spheres, cubes, cylinders and tori are stretched, turned about the vertical axis and noisy. After training, the points
that decide are counted: the others may be removed without any change of the answer.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import PARTS, SOLIDS, point_clouds
from corollary.nets import fit
from corollary.nets.sets import PointNetClassifier, PointNetSegmenter, orthogonality_penalty
from corollary.network import BatchLoss

SIZES = {
    "quick": dict(local=4, features=8, points=16, clouds=64, steps=2, batch=16),
    "cpu": dict(local=16, features=64, points=64, clouds=4000, steps=1000, batch=32),
    "gpu": dict(local=64, features=1024, points=256, clouds=20_000, steps=3000, batch=64),
}


@BatchLoss
def classification(model, batch):
    x, y = batch
    scores = jax.vmap(model.logits)(x)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(scores, y)) + penalty(model, x)


@BatchLoss
def segmentation(model, batch):
    x, parts = batch
    scores = jax.vmap(model.logits)(x)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(scores, parts)) + penalty(model, x)


def penalty(model, x):
    """Keep the matrix of the second T-net near a rotation, as its authors do."""
    return 1e-3 * jnp.mean(jax.vmap(lambda x: orthogonality_penalty(model.features(x).feature_transform))(x))


def main(local, features, points, clouds, steps, batch):
    data_key, test_key, model_key, fit_key = jax.random.split(jax.random.key(0), 4)
    draw = jax.jit(lambda key, count: point_clouds(count, points, key=key), static_argnums=1)
    train, test = draw(data_key, clouds), draw(test_key, max(clouds // 10, 16))
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(optax.cosine_decay_schedule(2e-3, steps)))

    @eqx.filter_jit
    def answers(model, x):
        return jax.lax.map(lambda x: jnp.argmax(model.logits(x), axis=-1), x)

    @eqx.filter_jit
    def deciding(model, x):
        return jax.lax.map(lambda x: jnp.sum(model.features(x).critical), x)

    for task, make, loss, of in (
        ("solids", PointNetClassifier, classification, "y"),
        ("parts", PointNetSegmenter, segmentation, "parts"),
    ):
        names = SOLIDS if of == "y" else PARTS
        model = eqx.filter_jit(make)(len(names), local=local, features=features, key=model_key)
        began, labels = time.perf_counter(), np.asarray(getattr(test, of))
        data = train.x, getattr(train, of)
        model = fit(model, loss, data, optimiser, steps=steps, key=fit_key, batch_size=batch).network
        found = np.asarray(answers(model, test.x))
        what = "clouds" if of == "y" else "points"
        print(f"{task}: {np.mean(found == labels):.4f} of the test {what}, in {time.perf_counter() - began:.0f} s")
        for i, name in enumerate(names):
            share = np.mean(found[labels == i] == i) if (labels == i).any() else np.nan
            print(f"    {share:.3f}  {name}")
        if of == "y":
            print(f"    {float(deciding(model, test.x).mean()):.1f} of the {points} points of a cloud decide")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    main(**SIZES["quick" if parser.parse_args().quick else "cpu" if jax.default_backend() == "cpu" else "gpu"])
