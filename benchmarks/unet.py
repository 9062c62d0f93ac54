"""Images a second of a U-Net in training as a denoiser, ours and PyTorch's, one after the other.

    pip install -e '.[bench]' && python benchmarks/unet.py

The same network (widths 64, 128, 256 on images of 28 by 28, ten classes), weights and random images, the loss of a
diffusion model, noise drawn in every step, Adam; on a GPU bfloat16 with float32 parameters on both sides, ours through
`corollary.nets.fit`, theirs compiled, channels last (see `_peer_unet.py`). The losses of one batch in single precision
are compared before the times are.
"""

import argparse
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the peer runs on the same device

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _beside_pytorch import compare, peer, timed

from corollary.generative import DiffusionModel, Schedule, diffusion_loss
from corollary.nets import fit, parameter_count
from corollary.nets.convolutional import UNet
from corollary.nets.convolutional.unet import FREQUENCIES

SIZES = {
    "cpu": dict(widths=(8, 16), batch=8, examples=32, steps=2, repeats=2),
    "gpu": dict(widths=(64, 128, 256), batch=512, examples=8192, steps=30, repeats=4),
}


def randomised(network, key):
    """The network without zeros, so that everything counts in the loss that is compared."""
    leaves, tree = jax.tree.flatten(network)
    keys = jax.random.split(key, len(leaves))
    moved = [a + 0.02 * jax.random.normal(k, a.shape, a.dtype) for a, k in zip(leaves, keys, strict=True)]
    return jax.tree.unflatten(tree, moved)


def arrays(u):
    """The parameters in the order and the axes of the peer."""
    kernel = lambda a: a.transpose(3, 2, 0, 1)  # noqa: E731
    norm = lambda n: [n.scale, n.shift]  # noqa: E731

    def block(b):
        (n1, n2), (k1, k2) = b.norms, b.kernels
        shortcut = [] if b.shortcut is None else [kernel(b.shortcut)]
        return [*norm(n1), kernel(k1), *norm(n2), kernel(k2), b.embedding, *shortcut]

    before, attention, after = u.middle
    parts = [kernel(u.first), *u.time, u.labels, *(a for b in u.down for a in block(b)), *block(before)]
    parts += [*norm(attention.norm), attention.queries, attention.out, *block(after)]
    parts += [*(a for b in u.up for a in block(b)), *norm(u.norm), kernel(u.last)]
    return {f"array{i}": np.asarray(a) for i, a in enumerate(parts)}


def multiplications(network):
    """Of one image, forward, as the compiled program counts its operations."""
    image = jax.ShapeDtypeStruct((1, 28, 28), jnp.float32)
    program = jax.jit(lambda x: network((x, 0.5, 0))).lower(image).compile().cost_analysis()
    return (program[0] if isinstance(program, list) else program)["flops"] / 2


def main(threads, bar):
    on = "cpu" if jax.default_backend() == "cpu" else "gpu"
    c = SIZES[on]
    rng, batch, steps = np.random.default_rng(0), c["batch"], c["steps"]
    x = rng.normal(size=(c["examples"], 1, 28, 28)).astype(np.float32)
    y = rng.integers(10, size=c["examples"]).astype(np.int32)
    at, eps = rng.integers(1, 1001, size=batch), rng.normal(size=(batch, 1, 28, 28)).astype(np.float32)
    build = lambda dtype: randomised(  # noqa: E731
        UNet(1, c["widths"], key=jax.random.key(0), classes=10, dtype=dtype), jax.random.key(1)
    )
    schedule = Schedule.linear(1000)
    exact, fast = (
        DiffusionModel(build(d), schedule, (1, 28, 28)) for d in (None, jnp.bfloat16 if on == "gpu" else None)
    )
    given = dict(x=x, y=y, eps=eps, at=at, levels=np.asarray(schedule.levels()), count=parameter_count(exact.network))
    frequencies = np.geomspace(0.1, 20.0, FREQUENCIES)
    theirs = peer("_peer_unet.py", threads=threads, frequencies=frequencies, **given, **arrays(exact.network), **c)
    with jax.default_matmul_precision("highest"):
        losses = jax.jit(lambda *given: jax.vmap(exact.loss)(*given))(x[:batch], at, eps, y[:batch])
    data = jnp.asarray(x), jnp.asarray(y)

    def stretch():
        return fit(
            fast, diffusion_loss(), data, optax.adam(1e-4), steps=steps, batch_size=batch, key=jax.random.key(1),
            every=steps, progress=False,
        ).losses  # fmt: skip

    compiling, seconds = timed(stretch, c["repeats"])
    ours = float(losses.mean()) / 784, compiling, seconds
    title = f"U-Net {c['widths']} of {given['count']:,} parameters, batch {batch}, {steps} steps a stretch"
    # two operations a multiplication, three such passes: forward, and back to inputs and to weights
    compare(title, "images", steps * batch, 6 * multiplications(exact.network), ours, theirs, bar)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch on a CPU")
    parser.add_argument("--bar", type=float, default=0.95, help="the least ratio that counts as a success")
    main(**vars(parser.parse_args()))
