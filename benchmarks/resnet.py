"""Images a second of ResNet9 in training, ours and PyTorch's, one after the other.

    pip install -e '.[bench]' && python benchmarks/resnet.py

The same network (listing 10.1: 6,575,370 numbers), weights and random images of 32 by 32, batch statistics, SGD with
momentum; on a GPU bfloat16 with float32 parameters on both sides, ours through `corollary.nets.fit`, theirs compiled,
channels last (see `_peer_resnet.py`). The losses of one batch in single precision are compared before the times are.
"""

import argparse
import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the peer runs on the same device

import jax
import jax.numpy as jnp
import numpy as np
import optax
from _beside_pytorch import compare, peer, timed

from corollary.nets import fit
from corollary.nets.convolutional import ResNet9
from corollary.network import BatchLoss

SIZES = {
    "cpu": dict(batch=32, examples=128, steps=2, repeats=2),
    "gpu": dict(batch=512, examples=8192, steps=50, repeats=4),
}
# multiplications of one image, forward: rows x columns x 9 x inputs x outputs of the eight convolutions
COST = 9 * (1024 * (3 * 64 + 64 * 128) + 256 * (2 * 128 * 128 + 128 * 256) + 64 * 256 * 512 + 16 * 2 * 512 * 512)


def main(threads, bar):
    on = "cpu" if jax.default_backend() == "cpu" else "gpu"
    c, dtype = SIZES[on], jnp.bfloat16 if on == "gpu" else None
    rng = np.random.default_rng(0)
    x = rng.normal(size=(c["examples"], 3, 32, 32)).astype(np.float32)
    y = rng.integers(10, size=c["examples"]).astype(np.int32)
    model = ResNet9(3, 10, key=jax.random.key(0))
    layers = model.conv1, model.conv2, *model.res1, model.conv3, model.conv4, *model.res2
    kernels = {f"kernel{i}": np.asarray(layer.kernel.transpose(3, 2, 0, 1)) for i, layer in enumerate(layers)}
    head = np.asarray(model.head.weight)
    theirs = peer("_peer_resnet.py", threads=threads, head=head, x=x, y=y, **kernels, **c)

    @BatchLoss
    def loss(model, batch, *, state):
        x, y = batch
        logits, state = model.batch(x, state, training=True, dtype=dtype)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), state

    with jax.default_matmul_precision("highest"):
        first = slice(0, c["batch"])
        logits = jax.jit(lambda m: m.batch(x[first], m.state(), training=True)[0])(model)
        ours = float(optax.softmax_cross_entropy_with_integer_labels(logits, y[first]).mean())
    data, optimiser, steps = (jnp.asarray(x), jnp.asarray(y)), optax.sgd(1e-3, momentum=0.9), c["steps"]

    def stretch():
        return fit(
            model, loss, data, optimiser, steps=steps, batch_size=c["batch"], key=jax.random.key(1),
            state=model.state(), every=steps, progress=False,
        ).losses  # fmt: skip

    compiling, seconds = timed(stretch, c["repeats"])
    title = f"ResNet9, batch {c['batch']}, {steps} steps a stretch"
    # two operations a multiplication, three such passes: forward, and back to inputs and to weights
    compare(title, "images", steps * c["batch"], 6 * COST, (ours, compiling, seconds), theirs, bar)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="of PyTorch on a CPU")
    parser.add_argument("--bar", type=float, default=0.95, help="the least ratio that counts as a success")
    main(**vars(parser.parse_args()))
