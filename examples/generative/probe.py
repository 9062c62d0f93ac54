"""What 100 labels are worth: linear probes of MNIST on features that were learned without labels.

    python examples/generative/probe.py             # two minutes on a GPU
    python examples/generative/probe.py --quick     # seconds, and it shows

A convolutional network learns to know two distorted views of one image from those of other images. Then a linear
classifier is fitted to its features with 100 labels, and to the pixels, to principal components, to the code of a
variational auto-encoder (784-200-200-50), and to the features of the same network as it was drawn at random: 20 draws
of the labels, the accuracy on the 10,000 test images, and Student's interval.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.ndimage import map_coordinates

from corollary.data import mnist
from corollary.generative import VAE, BernoulliDecoder, GaussianEncoder, linear_probe, pca, pretrain, vae_loss
from corollary.nets import train
from corollary.network import BatchLoss

SIDE = 28
GRID = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE), indexing="ij"), -1) - (SIDE - 1) / 2


def view(x, key):
    """The image turned, stretched, sheared and moved at random, brighter or darker, with a patch cut out."""
    map_key, move_key, light_key, patch_key = jax.random.split(key, 4)
    bend = jnp.eye(2) + 0.25 * jax.random.uniform(map_key, (2, 2), minval=-1.0)
    move = jax.random.uniform(move_key, (2,), minval=-3.0, maxval=3.0)
    places = GRID @ bend.T + (SIDE - 1) / 2 + move
    moved = map_coordinates(x[0], jnp.moveaxis(places, -1, 0), order=1)
    corner = jax.random.uniform(patch_key, (2,), minval=-18.0, maxval=10.0)
    inside = jnp.all((corner < GRID) & (corner + 8 > GRID), -1)
    light = jax.random.uniform(light_key, minval=0.6, maxval=1.4)
    return jnp.where(inside, 0.0, light * moved)[None]


def encoder(width, key):
    """Three convolutions that halve the image, and the mean over what is left, place by place in four quarters."""
    keys = jax.random.split(key, 3)
    return eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, width, 5, 2, 2, key=keys[0]),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Conv2d(width, 2 * width, 3, 2, 1, key=keys[1]),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Conv2d(2 * width, 4 * width, 3, 2, 1, key=keys[2]),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.AvgPool2d(2, 2),
            eqx.nn.Lambda(jnp.ravel),
        ]
    )


@BatchLoss
def drawn_anew(vae, batch, *, key):
    """The loss of binary images that are drawn from the grey ones in every step."""
    x_key, z_key = jax.random.split(key)
    return vae_loss()(vae, jax.random.bernoulli(x_key, batch).astype(batch.dtype), key=z_key)


def code(x, steps, latents, key):
    """The mean of the latent variables that a variational auto-encoder finds for an image."""
    down_key, up_key, train_key = jax.random.split(key, 3)
    down = eqx.nn.MLP(SIDE**2, 2 * latents, 200, 2, jnp.tanh, key=down_key)
    up = eqx.nn.MLP(latents, SIDE**2, 200, 2, jnp.tanh, key=up_key)
    vae, optimiser = VAE(GaussianEncoder(down, latents), BernoulliDecoder(up)), optax.adam(1e-3)
    vae = train(vae, drawn_anew, x, optimiser, steps=steps, batch_size=min(250, len(x)), key=train_key).network
    return lambda x: vae.encoder(jnp.ravel(x)).mean


def main(quick, seed):
    width, steps, batch, draws, images = (2, 3, 16, 2, 300) if quick else (32, 3000, 512, 20, 60_000)
    (x, y), (x_test, y_test) = (
        (jnp.asarray(a[:n, None], jnp.float32) / 255, np.asarray(b[:n]))
        for n, (a, b) in ((images, mnist("train")), (min(images, 10_000), mnist("test")))
    )
    net_key, head_key, train_key, probe_key = jax.random.split(jax.random.key(seed), 4)
    code_key = jax.random.fold_in(train_key, 1)
    drawn = encoder(width, net_key)
    codes = jax.eval_shape(drawn, x[0]).size
    head = eqx.nn.MLP(codes, 64, 256, 1, key=head_key)
    optimiser = optax.adamw(optax.warmup_cosine_decay_schedule(0.0, 2e-3, steps // 20, steps), weight_decay=1e-4)
    began = time.perf_counter()
    run = pretrain(
        drawn, head, x, "contrast", optimiser, steps=steps, batch_size=batch, key=train_key, view=view, temperature=0.2
    )
    last = float(run.losses[-100:].mean())
    print(f"contrast: loss {float(run.losses[0]):.3f} to {last:.3f} in {time.perf_counter() - began:.0f} s", flush=True)
    began = time.perf_counter()
    coded = code(x.reshape(len(x), -1), 10 * steps, 50, code_key)
    print(f"auto-encoder: {10 * steps:,} steps in {time.perf_counter() - began:.0f} s", flush=True)
    components = pca(x.reshape(len(x), -1)[:10_000], min(50, images))
    features = {
        "contrastive features": run.encoder,
        "the same network, untrained": drawn,
        "code of an auto-encoder": coded,
        "principal components": lambda x: components.axes @ (jnp.ravel(x) - components.mean),
        "pixels": jnp.ravel,
    }
    print("features                       accuracy with 100 labels, 95 % interval over draws")
    found = {}
    for name, f in features.items():
        probe = linear_probe(f, (x, y), (x_test, y_test), 100, key=probe_key, draws=draws)
        low, high = (float(end) for end in probe.interval())
        found[name] = probe
        print(f"{name:30s} {100 * float(probe.accuracy):.2f} %   ({100 * low:.2f} to {100 * high:.2f})", flush=True)
    best, *others = found.values()
    above = all(float(best.interval()[0]) > float(other.interval()[1]) for other in others)
    print("the first is above all others by its interval" if above else "the intervals meet")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    main(args.quick, args.seed)
