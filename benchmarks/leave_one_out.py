"""Leave-one-out of 200 points of a small network (2-32-1, tanh): one compiled program against a loop in PyTorch.

    pip install -e '.[bench]' && python benchmarks/leave_one_out.py

Every training is 500 steps of gradient descent on all points but one, from the same start; what is compared are the
losses of 20 test points after each of them, and the time per training, in PyTorch that of the first few. Operations as
small as these are faster in PyTorch on one thread than on several, so it gets one unless told otherwise.
"""

import argparse
import os
import time

import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import leave_one_out_retraining
from corollary.nets import MLP, tanh

# other work on the machine disturbs CPU time less than the time on the wall: CPU_CLOCK=1 compares that
CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter


def ours(start, train, test, steps, step):
    def fit(data, weights):
        x, y = data

        def loss(network):
            return jnp.sum(weights * (jax.vmap(network)(x)[:, 0] - y[:, 0]) ** 2) / jnp.sum(weights)

        def once(network, _):
            return jax.tree.map(lambda a, g: a - step * g, network, jax.grad(loss)(network)), None

        return jax.lax.scan(once, start, length=steps)[0]

    run = jax.jit(lambda train, test: leave_one_out_retraining(fit, "squared", train, test))
    times = []
    for _ in range(4):
        began = CLOCK()
        found = jax.block_until_ready(run(train, test))
        times.append(CLOCK() - began)
    return times[0], min(times[1:]), np.asarray(found.changes + found.losses)


def theirs(start, train, test, steps, step, count, threads):
    import torch

    torch.set_num_threads(threads)
    x, y, z, t = (torch.from_numpy(np.asarray(a)) for a in (*train, *test))
    losses, times = [], []
    for i in range(count):
        one, two = (torch.nn.Linear(*layer.weight.shape[::-1]) for layer in start.layers)
        for linear, layer in zip((one, two), start.layers, strict=True):
            linear.weight.data = torch.from_numpy(np.array(layer.weight))
            linear.bias.data = torch.from_numpy(np.array(layer.bias))
        model = torch.nn.Sequential(one, torch.nn.Tanh(), two)
        optimiser = torch.optim.SGD(model.parameters(), lr=step)
        keep = torch.arange(len(x)) != i
        some, targets = x[keep], y[keep]
        began = CLOCK()
        for _ in range(steps):
            optimiser.zero_grad()
            torch.nn.functional.mse_loss(model(some), targets).backward()
            optimiser.step()
        times.append(CLOCK() - began)
        losses.append((0.5 * (model(z) - t) ** 2).sum(1).detach().numpy())
    return float(np.median(times)), np.stack(losses)


def main(n, tests, units, steps, step, count, threads):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n + tests, 2)).astype(np.float32)
    y = (np.sin(2 * x[:, :1]) * x[:, 1:] + 0.1 * rng.normal(size=(n + tests, 1))).astype(np.float32)
    train, test = (x[:n], y[:n]), (x[n:], y[n:])
    start = MLP((2, units, 1), tanh, key=jax.random.key(0))
    each, reference = theirs(start, train, test, steps, step, count, threads)
    first, seconds, losses = ours(start, train, test, steps, step)
    print(f"{n} trainings of {steps} steps, {tests} test points")
    print(f"  largest difference of a loss: {np.abs(losses[:count] - reference).max():.1e} of {reference.max():.2f}")
    print(
        f"  PyTorch    {n * each:.2f} s ({count} of them timed), corollary {seconds:.2f} s (first call {first:.2f} s)"
    )
    print(f"  ratio {n * each / seconds:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--tests", type=int, default=20)
    parser.add_argument("--units", type=int, default=32)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--step", type=float, default=0.1)
    parser.add_argument("--count", type=int, default=10, help="trainings of PyTorch that are timed")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    main(args.points, args.tests, args.units, args.steps, args.step, args.count, args.threads)
