"""Datamodels of MNIST images from thousands of trainings as one program, and who else predicts what training does.

    pip install -e . && python benchmarks/datamodels.py     # an accelerator: 1,000 images, 10,000 trainings per share
    python benchmarks/datamodels.py --small                 # two cores, a minute: 60 images, 400 trainings

A network 784-width-10 is trained by gradient descent with momentum, always from the same start, on random subsets in
which every image is with probability 0.2, 0.5 and 0.8; measured are the margins and the losses of test images. Printed
are the time, R² of the linear fit on trainings that it has not seen, and, for p = 0.5, how well datamodels,
influence with every solver (the projected one is TRAK's), inner products of gradients and Shapley values rank what
further trainings gave (linear datamodelling score: mean rank correlation over the test images). The damping of
influence is what stopping early does: one over the steps times their length, which momentum makes ten times as long.
"""

import argparse
import json
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
from corollary.nets import MLP, parameter_count, tanh

SHARES = (0.2, 0.5, 0.8)
MOMENTUM = 0.9


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
            speed = jax.tree.map(lambda v, g: MOMENTUM * v - step * g, speed, jax.grad(loss)(network))
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


def main(given):
    count, tests, models = given.images, given.tests, given.models
    train, test = pictures("train", count), pictures("test", tests)
    fit, measure = training(given.width, given.steps, given.step), measuring(test)
    print(
        f"{count} images, {tests} test images, {models} trainings of {given.steps} steps per share, {jax.devices()[0]}"
    )
    found_by = {}
    for number, share in enumerate(SHARES):
        began = time.perf_counter()
        key = jax.random.key(number)
        outputs = subset_outputs(fit, measure, train, share=share, models=models, key=key, batch_size=given.batch)
        jax.block_until_ready(outputs)
        seconds = time.perf_counter() - began
        # the last fifth of the trainings is for comparing
        first = models * 4 // 5
        seen, unseen = (SubsetOutputs(*(a[part] for a in outputs)) for part in (slice(first), slice(first, None)))
        found = fit_datamodel(seen, share=share, penalty=given.penalty)
        r2 = np.asarray(found.r2)
        margins, losses = float(np.median(r2[:tests])), float(np.median(r2[tests:]))
        print(f"p = {share}: {seconds:.1f} s, {models / seconds:.0f} trainings/s, ", end="")
        print(f"median R² of margins {margins:.3f}, of losses {losses:.3f}", flush=True)
        found_by[f"p = {share}"] = {"seconds": seconds, "R² of margins": margins, "R² of losses": losses}
        if share == 0.5:
            kept = found.weights[:, tests:], SubsetOutputs(unseen.subsets, unseen.outputs[:, tests:])
    scores = compare(fit, measure, train, test, *kept, given)
    print(json.dumps(found_by | {"scores": scores}, ensure_ascii=False))


def compare(fit, measure, train, test, weights, outputs, given):
    """How every method ranks the losses after the trainings of `outputs`: its score and its seconds."""
    network, tests = fit(train, jnp.ones(len(train[1]))), len(test[1])
    right = float(jnp.mean(jnp.argmax(jax.vmap(network)(test[0]), 1) == test[1]))
    print(f"a network of all images, {parameter_count(network):,} parameters, reads {right:.2f} of the test images")
    print(f"rank correlation with {len(outputs.outputs)} trainings at p = 0.5, mean over test images, and seconds:")
    damping, table = (1 - MOMENTUM) / (given.step * given.steps), {}

    def told(name, scores):
        began = time.perf_counter()
        scores = jax.block_until_ready(scores())
        seconds = time.perf_counter() - began
        value = float(linear_datamodelling_score(scores, outputs).mean())
        table[name] = [value, seconds]
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
        Solver("projected", rank=given.rank),
        Solver("dense"),
    ):
        told(f"influence, {solver.kind}", removal(solver, damping))
    # of a damping beyond all curvatures only the inner products are left
    told("inner products of gradients", removal(Solver("cg", products=4), 1e6))
    if given.orders:
        options = {"orders": given.orders, "width": 1.0, "batch_size": given.batch, "key": jax.random.key(9)}
        losses = lambda network: measure(network)[tests:]  # noqa: E731
        shapley = lambda: data_shapley(fit, losses, train, **options).values  # noqa: E731
        told(f"Shapley values, {given.orders} orders", shapley)
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--tests", type=int, default=50)
    parser.add_argument("--models", type=int, default=10_000, help="trainings per share")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--step", type=float, default=0.1)
    parser.add_argument("--batch", type=int, default=500, help="trainings side by side")
    parser.add_argument("--orders", type=int, default=100, help="of Shapley values; 0 leaves them out")
    parser.add_argument("--rank", type=int, default=2048, help="of the projection")
    parser.add_argument("--penalty", type=float, default=0.0, help="of the lasso")
    parser.add_argument("--small", action="store_true", help="a size for two cores")
    args = parser.parse_args()
    if args.small:
        small = {"images": 60, "tests": 8, "models": 400, "width": 2, "steps": 60, "batch": 50, "orders": 10}
        vars(args).update(small, rank=64)
    # the rough products of accelerators would be noise in every training
    with jax.default_matmul_precision("highest"):
        main(args)
