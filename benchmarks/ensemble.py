"""Train 64 networks (2-64-1, tanh) on 128 points for 1,000 full-batch steps: one compiled program against a loop.

    pip install -e '.[bench]' && python benchmarks/ensemble.py

On one side `corollary.nets.train` under `vmap`, on the other the same networks one after the other in PyTorch, as its
documentation writes a training loop. Same sizes, data, optimiser, step, precision and number of steps; both start
from PyTorch's own weights, so that the final losses can be compared, and are. Operations as small as these are faster
in PyTorch on one thread than on several, so it gets one unless told otherwise. The bar is held against the ratio of
the best times, of a run of ours and of a network of theirs: other work on the machine disturbs both, but not equally.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.nets import MLP, FullyConnected, tanh, train


def main(networks: int, steps: int, units: int, points: int, step: float, threads: int) -> float:
    import torch

    torch.set_num_threads(threads)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(points, 2)).astype(np.float32)
    y = np.sin(2 * x[:, :1]) * x[:, 1:]

    torch.manual_seed(0)
    models = [
        torch.nn.Sequential(torch.nn.Linear(2, units), torch.nn.Tanh(), torch.nn.Linear(units, 1))
        for _ in range(networks)
    ]
    starts = [stacked(models, i) for i in range(4)]

    def loss(output, target):
        return jnp.mean((output - target) ** 2)

    optimiser = optax.sgd(step)

    @jax.jit
    @jax.vmap
    def ensemble(parameters):
        return train(network(parameters), loss, (jnp.asarray(x), jnp.asarray(y)), optimiser, steps=steps).losses

    began = time.perf_counter()
    compiled = ensemble.lower(starts).compile()
    compiling = time.perf_counter() - began
    runs = []
    for _ in range(10):
        began = time.perf_counter()
        ours = np.asarray(compiled(starts).block_until_ready())
        runs.append(time.perf_counter() - began)

    torch_loop(models[0], torch.from_numpy(x), torch.from_numpy(y), 10, 0.0)  # warm up; the step 0 moves nothing
    theirs, loops = [], []
    for model in models:
        began = time.perf_counter()
        theirs.append(torch_loop(model, torch.from_numpy(x), torch.from_numpy(y), steps, step))
        loops.append(time.perf_counter() - began)

    worst = np.max(np.abs(ours[:, -1] - theirs) / np.abs(theirs))
    quiet = min(loops) * networks / min(runs)
    whole = sum(loops) / np.mean(runs)
    print(f"{networks} networks 2-{units}-1, {points} points, {steps} full-batch steps, float32")
    print(f"corollary, compiling, once                       {compiling:8.2f} s")
    print(f"corollary, all networks: mean of {len(runs)} runs, best    {np.mean(runs):8.2f} s {min(runs):8.2f} s")
    print(f"PyTorch {torch.__version__}, {threads} thread(s), all networks       {sum(loops):8.2f} s")
    print(f"PyTorch, {networks} times the fastest network            {min(loops) * networks:8.2f} s")
    print(f"ratio, as it ran                                 {whole:8.1f}")
    print(f"ratio, as it ran, first compilation included     {sum(loops) / (np.mean(runs) + compiling):8.1f}")
    print(f"ratio of the best times, on a machine left alone {quiet:8.1f}")
    print(f"largest relative difference of the final losses: {worst:.1e}")
    return quiet


def stacked(models, index):
    return jnp.asarray(np.stack([list(model.parameters())[index].detach().numpy() for model in models]))


def network(parameters) -> MLP:
    w1, b1, w2, b2 = parameters
    blank = MLP((w1.shape[1], w1.shape[0], w2.shape[0]), tanh, key=jax.random.key(0))
    layers = (FullyConnected.of(w1, b1, tanh), FullyConnected.of(w2, b2))
    return jax.tree.unflatten(jax.tree.structure(blank), jax.tree.leaves(layers))


def torch_loop(model, x, y, steps: int, step: float) -> float:
    import torch

    optimiser = torch.optim.SGD(model.parameters(), lr=step)
    error = torch.nn.MSELoss()
    for _ in range(steps):
        optimiser.zero_grad()
        value = error(model(x), y)
        value.backward()
        optimiser.step()
    return value.item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--units", type=int, default=64)
    parser.add_argument("--points", type=int, default=128)
    parser.add_argument("--step", type=float, default=0.02)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--bar", type=float, default=20.0, help="the least ratio that counts as a success")
    options = vars(parser.parse_args())
    bar = options.pop("bar")
    raise SystemExit(0 if main(**options) >= bar else f"The ratio is below {bar:g}.")
