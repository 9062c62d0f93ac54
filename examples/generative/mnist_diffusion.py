"""A diffusion model writes the digits that it is asked for, and says how likely it finds real ones.

    python examples/generative/mnist_diffusion.py --out diffusion.npz     # on an accelerator, some minutes
    python examples/generative/mnist_diffusion.py --quick                 # seconds, on few images

A U-Net is given a noisy digit, how noisy it is, and, but for one in ten, its class. Most pixels are black: its three
outputs for each are the odds that the pixel is, and mean and deviation of a normal law if it is not; Bayes' rule makes
of them the noise, at every level. The weights are a moving average. Bits per pixel of real test digits: by the
variational bound, with its class and without; and by the flow of probability from slightly noisy digits, with what the
noise costs. Samples for `judge.py` are 60,000 digits, as many of each class.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import mnist
from corollary.generative import DiffusionModel, Schedule, diffusion_loss
from corollary.nets import fit, parameter_count
from corollary.nets.convolutional import UNet
from corollary.optimization import trailing

CELL = 2 / 255  # between two grey values, on [-1, 1]


class GreyDenoiser(eqx.Module):
    """The mean noise in pixels that are -1 with some odds and normal otherwise, given their noisy values."""

    network: UNet

    def __call__(self, given):
        x, level, *_ = given
        odds, mean, scale = (a[None] for a in self.network(given))
        signal, variance = jnp.sqrt(level), 1 - level
        spread = level * jnp.exp(2 * jnp.clip(scale, -6, 2)) + variance
        black, other = x + signal, x - signal * mean
        ratio = 0.5 * (other**2 / spread - black**2 / variance + jnp.log(spread / variance))
        share = jax.nn.sigmoid(odds + ratio)
        return share * black / jnp.sqrt(variance) + (1 - share) * jnp.sqrt(variance) * other / spread


def schedule(steps):
    """From noise of a quarter of a grey value to almost no signal; most steps where digits take shape.

    The logarithm of signal over noise falls on three lines.
    """
    first = np.log(1 / (CELL / 4.5) ** 2 - 1)
    ratios = np.interp(np.linspace(0, 1, steps), [0, 0.25, 0.95, 1], [first, 4.0, -6.0, -8.0])
    levels = 1 / (1 + np.exp(-ratios))
    return Schedule(levels / np.concatenate([[1.0], levels[:-1]]))


@eqx.filter_jit
def bounds(model, x, labels, key):
    """The terms of the bound of every image, in nats."""
    eps = jax.random.normal(key, (len(x), 1, *model.shape), x.dtype)
    return jax.vmap(lambda x, eps, label: model.bound(x, eps, label=label, cell=CELL))(x, eps, labels)


@eqx.filter_jit
def flow_bounds(model, x, labels, steps, key):
    """Minus the log-probability of every image, at most: what the flow says of x with a little noise.

    -ln p(x) <= E[-ln p(x_1) + ln q(x_1 | x) - ln p(x | x_1)], the last as in the bound by steps.
    """
    noise_key, sign_key = jax.random.split(key)
    eps = jax.random.normal(noise_key, (len(x), *model.shape), x.dtype)
    probes = jax.random.rademacher(sign_key, (len(x), 1, *model.shape), x.dtype)
    level = model.schedule.levels()[1]
    near = jnp.sqrt(level) * x + jnp.sqrt(1 - level) * eps
    one = lambda x, probes, label: model.log_prob(x, t=1, steps=steps, label=label, probes=probes)  # noqa: E731
    entropy = 0.5 * jnp.log(2 * jnp.pi * (1 - level)) * x[0].size + 0.5 * jnp.sum(eps**2, (1, 2, 3))
    return -jax.vmap(one)(near, probes, labels) - entropy


def bits(nats):
    """Mean and standard error, in bits per pixel."""
    each = np.asarray(nats) / (784 * np.log(2))
    return f"{each.mean():.4f} ± {each.std() / len(each) ** 0.5:.4f}"


def written(model, count, group, steps, key):
    """Bytes of `count` digits, their classes in turn, `group` at a time."""
    labels = jnp.arange(count) % 10

    @eqx.filter_jit
    def some(model, labels, key):
        x = model.sample(len(labels), labels=labels, steps=steps, key=key)
        return jnp.clip(jnp.round((x[:, 0] + 1) / CELL), 0, 255).astype(jnp.uint8)

    keys = jax.random.split(key, -(-count // group))
    parts = [some(model, labels[i * group : (i + 1) * group], k) for i, k in enumerate(keys)]
    return np.concatenate([np.asarray(part) for part in parts]), np.asarray(labels)


def main(steps, batch, rate, widths, levels, sampling, images, test, count, group, out):
    (x, y), (new, classes) = mnist("train"), mnist("test")
    scaled = lambda a: jnp.asarray(a[:, None], jnp.float32) / 127.5 - 1  # noqa: E731
    x, y, new, classes = scaled(x[:images]), jnp.asarray(y[:images]), scaled(new[:test]), jnp.asarray(classes[:test])
    keys = jax.random.split(jax.random.key(0), 6)
    fast = jnp.float32 if jax.default_backend() == "cpu" else jnp.bfloat16
    network = UNet(1, widths, key=keys[0], outputs=3, classes=10, dtype=fast)
    print(f"{parameter_count(network):,} parameters on {jax.default_backend()}, {len(x):,} images, {steps:,} steps")
    with jax.enable_x64(True):  # of levels next to 1 float32 would forget how far
        model = DiffusionModel(GreyDenoiser(network), schedule(levels), (1, 28, 28))
        decay = optax.warmup_cosine_decay_schedule(0.0, rate, min(500, steps // 5), steps, 0.01 * rate)
        optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(decay, b2=0.99))
        began = time.perf_counter()
        model = fit(
            model, diffusion_loss(dropped=0.1), (x, y), trailing(optimiser, 0.999), steps=steps, batch_size=batch,
            key=keys[1], progress=False, every=min(500, steps),
        ).network  # fmt: skip
        seconds = time.perf_counter() - began
        print(f"trained in {seconds:.0f} s, {steps * batch / seconds:,.0f} images/s with compilation", flush=True)

        began = time.perf_counter()
        digits, labels = written(model, count, group, sampling, keys[2])
        print(f"{count:,} digits in {time.perf_counter() - began:.0f} s, {sampling} steps each", flush=True)

        tree = jax.tree.structure(UNet(1, widths, key=keys[0], outputs=3, classes=10, dtype=jnp.float32))
        same = jax.tree.unflatten(tree, jax.tree.leaves(model.network.network))
        exact = DiffusionModel(GreyDenoiser(same), model.schedule, model.shape)
        began = time.perf_counter()
        known = bounds(exact, new, classes, keys[3])
        print(f"bits per pixel of {len(new)} test images given the class, bound: {bits(known.total)}")
        parts = known.prior, known.steps.sum(1), known.first
        print("of them prior, steps, grey values:", *(f"{float(a.mean()) / (784 * np.log(2)):.4f}" for a in parts))
        likelihood = bits(bounds(exact, new, None, keys[3]).total)
        print(f"without the class, bound: {likelihood}, {time.perf_counter() - began:.0f} s", flush=True)
        few, began = max(len(new) // 4, 2), time.perf_counter()
        found = flow_bounds(exact, new[:few], None, 120, keys[4]) + known.first[:few]
        print(f"of {few} by the flow: {bits(found)}, {time.perf_counter() - began:.0f} s", flush=True)
    if out:
        np.savez_compressed(out, x=digits, labels=labels, likelihood=f"<= {likelihood.split()[0]} bits/pixel")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, help="of training")
    parser.add_argument("--out", help="where to write the digits, as diffusion.npz, for judge.py")
    parser.add_argument("--quick", action="store_true", help="few images and steps, narrow networks")
    args = parser.parse_args()
    if args.quick:
        settings = dict(steps=4, batch=8, widths=(8, 8), levels=20, sampling=4, images=100, test=4, count=20, group=10)
    elif jax.default_backend() == "cpu":
        settings = dict(steps=1500, batch=64, widths=(16, 32, 32), levels=200, sampling=50, images=60_000, test=40)
        settings |= dict(count=100, group=100)
    else:
        settings = dict(steps=3600, batch=512, widths=(64, 128, 256), levels=1000, sampling=100, images=60_000)
        settings |= dict(test=1000, count=60_000, group=5000)
    main(rate=5e-4, out=args.out, **settings | ({"steps": args.steps} if args.steps else {}))
