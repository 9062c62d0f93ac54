"""A vision transformer reads handwritten digits as sequences of patches.

    python examples/architectures/mnist_vit.py
    python examples/architectures/mnist_vit.py --quick     # seconds, on few images

Training images are moved by up to two pixels, which stands in for what a convolution knows from the start.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import optax

from corollary.data import mnist
from corollary.nets import fit
from corollary.nets.attention import ViT, in_dtype, token_cross_entropy
from corollary.network import BatchLoss

SIZES = {
    "quick": dict(images=256, patch=7, width=32, heads=2, depth=1, batch=32, steps=40, rate=1e-3, dropout=0.0),
    "cpu": dict(images=60_000, patch=7, width=64, heads=4, depth=3, batch=64, steps=3000, rate=1e-3, dropout=0.0),
    "gpu": dict(images=60_000, patch=4, width=192, heads=6, depth=6, batch=256, steps=8000, rate=6e-4, dropout=0.1),
}


def main(size, seed):
    size = size or ("cpu" if jax.default_backend() == "cpu" else "gpu")
    c, dtype = argparse.Namespace(**SIZES[size]), jnp.bfloat16 if size == "gpu" else jnp.float32
    train, test = mnist("train"), mnist("test")
    x, y, new, answers = (jnp.asarray(a[: c.images]) for a in (*train, *test))

    model_key, fit_key = jax.random.split(jax.random.key(seed))
    model = ViT((1, 28, 28), c.patch, 10, c.width, c.heads, c.depth, dropout=c.dropout, unroll=c.depth, key=model_key)

    def image_of(pixels, dtype=jnp.float32):
        return ((pixels[None] / 255 - 0.1307) / 0.3081).astype(dtype)  # mean 0 and variance 1 over all pixels

    @BatchLoss
    def loss(model, batch, *, key):
        images, labels = batch
        model, moves, keys = in_dtype(model, dtype), *jax.random.split(key)
        moves = jax.random.randint(moves, (len(images), 2), -2, 3)

        def logits(pixels, move, key):
            image = image_of(jnp.roll(pixels, move, (0, 1)), dtype)  # the rim is empty
            return model(image, key=key if c.dropout else None)

        return token_cross_entropy(jax.vmap(logits)(images, moves, jax.random.split(keys, len(images))), labels).mean()

    def accuracy(model):
        classes = jax.lax.map(lambda pixels: model(image_of(pixels)).argmax(), new, batch_size=500)
        return jnp.mean(classes == answers)

    schedule = optax.warmup_cosine_decay_schedule(0.0, c.rate, c.steps // 10, c.steps)
    began = time.perf_counter()
    trained = fit(
        model,
        loss,
        (x, y),
        optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, weight_decay=0.05)),
        steps=c.steps,
        batch_size=c.batch,
        key=fit_key,
        measure=accuracy,
        every=max(c.steps // 8, 1),
    )
    print(f"{c.steps} steps in {time.perf_counter() - began:.0f} s")
    print("test accuracy on the way: " + " ".join(f"{100 * float(a):.2f}" for a in trained.record))
    print(f"test accuracy {100 * float(trained.record[-1]):.2f} % of {len(answers)} images")
    return float(trained.record[-1])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_const", const="quick", dest="size")
    parser.add_argument("--size", choices=SIZES, help="by the device unless given")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    main(args.size, args.seed)
