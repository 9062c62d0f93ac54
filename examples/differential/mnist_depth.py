"""A network of continuous depth reads handwritten digits, and how many steps it needs.

    python examples/differential/mnist_depth.py
    python examples/differential/mnist_depth.py --quick        # seconds, on few images

Two convolutions with stride 2, then u' = m(u) from time 0 to 1 with m two convolutions with group norms, then an affine
layer. Trained with four steps of Runge and Kutta, images moved by up to two pixels. What was trained is an equation: it
is then solved with other numbers of steps, by Euler's method and by that of Runge and Kutta, and the accuracy set
beside how far the solution is from that with 32 steps of Runge and Kutta.
"""

import argparse
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary.data import mnist
from corollary.differential import NeuralODE
from corollary.nets import fit, parameter_count
from corollary.network import BatchLoss


class Field(eqx.Module):
    """The right-hand side: what a residual block adds, with a size of its own at every state."""

    norms: list
    convolutions: list

    def __init__(self, width, key):
        keys = jax.random.split(key)
        self.norms = [eqx.nn.GroupNorm(width // 8, width) for _ in range(3)]
        self.convolutions = [eqx.nn.Conv2d(width, width, 3, padding=1, key=k) for k in keys]

    def __call__(self, u):
        for norm, convolution in zip(self.norms[:2], self.convolutions, strict=True):
            u = convolution(jax.nn.relu(norm(u)))
        return self.norms[2](u)


class Reader(eqx.Module):
    """From an image to the state that the equation starts from, and from its end to ten numbers."""

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    norms: list
    ode: NeuralODE
    last: eqx.nn.Linear

    def __init__(self, width, steps, key):
        keys = jax.random.split(key, 4)
        self.first = eqx.nn.Conv2d(1, width, 4, stride=2, padding=1, key=keys[0])
        self.second = eqx.nn.Conv2d(width, width, 4, stride=2, padding=1, key=keys[1])
        self.norms = [eqx.nn.GroupNorm(width // 8, width) for _ in range(2)]
        self.ode = NeuralODE(Field(width, keys[2]), steps=steps)
        self.last = eqx.nn.Linear(49 * width, 10, key=keys[3])

    def __call__(self, image):
        return self.last(jax.nn.relu(self.norms[1](self.end(image))).ravel())

    def end(self, image):
        u = jax.nn.relu(self.norms[0](self.first(image)))
        return self.ode(self.second(u))

    def solved(self, steps, method):
        """The same equation, solved in another way."""
        other = NeuralODE(self.ode.network, steps=steps, method=method)
        return eqx.tree_at(lambda reader: reader.ode, self, other)


def shifted(x, key, reach=2):
    """Every image moved by up to `reach` pixels both ways; zeros come in."""
    padded = jnp.pad(x, ((0, 0), (0, 0), (reach, reach), (reach, reach)))
    moves = jax.random.randint(key, (x.shape[0], 2), 0, 2 * reach + 1)
    return jax.vmap(lambda a, m: jax.lax.dynamic_slice(a, (0, m[0], m[1]), x.shape[1:]))(padded, moves)


def pixels(x):
    return x[:, None].astype(jnp.float32) / 255


@BatchLoss
def loss(model, batch, *, key):
    x, y = batch
    logits = jax.vmap(model)(shifted(pixels(x), key))
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


@eqx.filter_jit
def ends(model, x):
    return jax.vmap(model)(pixels(x)).argmax(1), jax.vmap(model.end)(pixels(x))


def judged(model, fine, x, y, parts):
    """The accuracy, and the largest distance of the ends from those of `fine`, as a share of their size."""
    right, apart = 0, 0.0
    for a, b in zip(jnp.split(x, parts), jnp.split(y, parts), strict=True):
        (answer, end), (_, exact) = ends(model, a), ends(fine, a)
        right += int((answer == b).sum())
        apart = max(apart, float(jnp.abs(end - exact).max() / jnp.abs(exact).max()))
    return right / len(y), apart


def main(epochs, batch, rate, width, steps, train, test, most):
    (x, y), (new, answers) = mnist("train"), mnist("test")
    data = jnp.asarray(x[:train]), jnp.asarray(y[:train])
    new, answers = jnp.asarray(new[:test]), jnp.asarray(answers[:test])
    model = Reader(width, steps, jax.random.key(0))
    size = parameter_count(model)
    print(f"{jax.devices()[0].device_kind}: {size:,} parameters, {train:,} images, {epochs} epochs", flush=True)
    total = epochs * (train // batch)
    optimiser = optax.adamw(optax.cosine_onecycle_schedule(total, rate), weight_decay=1e-2)
    began = time.perf_counter()
    trained = fit(model, loss, data, optimiser, steps=total, batch_size=batch, key=jax.random.key(1))
    last = float(trained.losses[-20:].mean())
    print(f"trained in {time.perf_counter() - began:.0f} s, last losses {last:.4f}", flush=True)
    parts = max(1, test // 500)
    fine = trained.network.solved(most, "rk4")
    for method, last in (("rk4", most // 4), ("euler", most)):
        for number in (2**i for i in range(last.bit_length())):
            share, apart = judged(trained.network.solved(number, method), fine, new, answers, parts)
            mark = "  (as trained; bar 99.30 %)" if (method, number) == ("rk4", steps) else ""
            print(f"{method:5s} {number:3d} steps: {share:7.2%} right, end off by {apart:.1e}{mark}", flush=True)


if __name__ == "__main__":
    on_cpu = jax.default_backend() == "cpu"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=1 if on_cpu else 24)
    parser.add_argument("--batch", type=int, default=128 if on_cpu else 250)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--width", type=int, default=16 if on_cpu else 64)
    parser.add_argument("--steps", type=int, default=2 if on_cpu else 4, help="of Runge and Kutta, in training")
    parser.add_argument("--train", type=int, default=60_000, help="how many of the images to train on")
    parser.add_argument("--test", type=int, default=10_000, help="and how many to test on")
    parser.add_argument("--most", type=int, default=32, help="steps that a solution is compared with")
    parser.add_argument("--quick", action="store_true", help="a few steps, to see that it runs")
    given = vars(parser.parse_args())
    if given.pop("quick"):
        given |= {"train": 500, "test": 100, "epochs": 1, "batch": 50, "width": 8, "steps": 1, "most": 4}
    main(**given)
