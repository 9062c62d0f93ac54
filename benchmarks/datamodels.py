"""Datamodels of MNIST images from thousands of trainings as one program, and who else predicts what training does.

    pip install -e . && python benchmarks/datamodels.py     # an accelerator: 1,000 images, 10,000 trainings per share
    python benchmarks/datamodels.py --small                 # two cores, a minute: 60 images, 400 trainings

A network 784-width-10 is trained by gradient descent with momentum, always from the same start, on random subsets in
which every image is with probability 0.2, 0.5 and 0.8; measured are the margins and the losses of test images. Printed
are the time, R² of the linear fit on trainings that it has not seen, and, for p = 0.5, how well datamodels,
influence with every solver, inner products of gradients and Shapley values rank what further trainings gave
(linear datamodelling score: mean rank correlation over the test images).
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import (
    Solver,
    SubsetOutputs,
    data_shapley,
    fit_datamodel,
    influence,
    linear_datamodelling_score,
    subset_outputs,
)
from corollary.data import mnist
from corollary.nets import MLP, tanh

SHARES = (0.2, 0.5, 0.8)


def pictures(part, count):
    x, y = mnist(part)
    return jnp.asarray(np.asarray(x[:count], np.float32).reshape(count, -1) / 255), jnp.asarray(y[:count], int)


def training(width, steps, step):
    """`fit(train, weights)`: a weighted cross-entropy, all points in every step."""
    start = MLP((784, width, 10), tanh, key=jax.random.key(0))

    def fit(train, weights):
        x, y = train

        def loss(network):
            logs = jax.nn.log_softmax(jax.vmap(network)(x))
            return -jnp.sum(weights * jnp.take_along_axis(logs, y[:, None], 1)[:, 0]) / len(y)

        def once(state, _):
            network, speed = state
            speed = jax.tree.map(lambda v, g: 0.9 * v - step * g, speed, jax.grad(loss)(network))
            return (jax.tree.map(jnp.add, network, speed), speed), None

        return jax.lax.scan(once, (start, jax.tree.map(jnp.zeros_like, start)), length=steps)[0][0]

    return fit


def measuring(test):
    """Margins of the right class, then losses, of every test image."""
    x, y = test
    rows = jnp.arange(len(y))

    def measure(network):
        logits = jax.vmap(network)(x)
        others = jax.nn.logsumexp(logits.at[rows, y].set(-jnp.inf), 1)
        margins = logits[rows, y] - others
        return jnp.concatenate([margins, jax.nn.softplus(-margins)])

    return measure


def main(count, tests, models, width, steps, step, batch, orders, penalty, damping):
    train, test = pictures("train", count), pictures("test", tests)
    fit, measure = training(width, steps, step), measuring(test)
    print(f"{count} images, {tests} test images, {models} trainings of {steps} steps per share, {jax.devices()[0]}")
    for number, share in enumerate(SHARES):
        began = time.perf_counter()
        key = jax.random.key(number)
        outputs = subset_outputs(fit, measure, train, share=share, models=models, key=key, batch_size=batch)
        jax.block_until_ready(outputs)
        seconds = time.perf_counter() - began
        # the last fifth of the trainings is for comparing
        first = models * 4 // 5
        seen, unseen = (SubsetOutputs(*(a[part] for a in outputs)) for part in (slice(first), slice(first, None)))
        found = fit_datamodel(seen, share=share, penalty=penalty)
        r2 = np.asarray(found.r2)
        print(f"p = {share}: {seconds:.1f} s, {models / seconds:.0f} trainings/s, ", end="")
        print(f"median R² of margins {np.median(r2[:tests]):.3f}, of losses {np.median(r2[tests:]):.3f}", flush=True)
        if share == 0.5:
            kept = found.weights[:, tests:], SubsetOutputs(unseen.subsets, unseen.outputs[:, tests:])
    compare(fit, measure, train, test, *kept, batch=batch, orders=orders, damping=damping)


def compare(fit, measure, train, test, weights, outputs, *, batch, orders, damping):
    """How every method ranks the losses after the trainings of `outputs`."""
    network, tests = fit(train, jnp.ones(len(train[1]))), len(test[1])
    print(f"rank correlation with {len(outputs.outputs)} trainings at p = 0.5, mean over test images, and seconds:")

    def told(name, scores):
        began = time.perf_counter()
        scores = jax.block_until_ready(scores())
        seconds = time.perf_counter() - began
        value = float(linear_datamodelling_score(scores, outputs).mean())
        print(f"  {name:34s} {value:6.3f} {seconds:9.1f} s", flush=True)

    def removal(solver, damping):
        # the change on removal is what the presence of a point takes away
        ask = lambda: influence(  # noqa: E731
            network, "cross_entropy", train, test, solver=solver, damping=damping, curvature="gauss_newton"
        )
        return lambda: -ask().scores

    told("datamodel", lambda: weights)
    for solver in (
        Solver("cg", tolerance=1e-3, products=100),
        Solver("lissa", products=300),
        Solver("lanczos", rank=100, products=400),
        Solver("projected", rank=512),
    ):
        told(f"influence, {solver.kind}", removal(solver, damping))
    told("inner products of gradients", removal(Solver("lanczos", rank=1, products=4), 1e6))
    if orders:
        options = {"orders": orders, "width": 1.0, "tolerance": 0.02, "batch_size": batch, "key": jax.random.key(9)}
        losses = lambda network: measure(network)[tests:]  # noqa: E731
        shapley = lambda: data_shapley(fit, losses, train, **options).values  # noqa: E731
        told(f"Shapley values, {orders} orders", shapley)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--tests", type=int, default=50)
    parser.add_argument("--models", type=int, default=10_000, help="trainings per share")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step", type=float, default=0.1)
    parser.add_argument("--batch", type=int, default=500, help="trainings side by side")
    parser.add_argument("--orders", type=int, default=50, help="of Shapley values; 0 leaves them out")
    parser.add_argument("--penalty", type=float, default=0.0, help="of the lasso")
    parser.add_argument("--damping", type=float, default=1e-2)
    parser.add_argument("--small", action="store_true", help="a size for two cores")
    args = parser.parse_args()
    if args.small:
        args.images, args.tests, args.models, args.width, args.steps, args.batch, args.orders = (
            60,
            8,
            400,
            16,
            60,
            50,
            10,
        )
    main(
        args.images,
        args.tests,
        args.models,
        args.width,
        args.steps,
        args.step,
        args.batch,
        args.orders,
        args.penalty,
        args.damping,
    )
