"""Training steps of a coupling flow by zuko or by FlowJAX; reads and writes `.npz` files."""

import os
import sys
import time

import numpy as np

CLOCK = time.process_time if os.environ.get("CPU_CLOCK") else time.perf_counter
BATCH = 256


def zuko_steps(x):
    """One step of zuko's coupling flow, with what it needs to say about itself."""
    import torch
    import zuko

    torch.manual_seed(0)
    flow = zuko.flows.NICE(features=2, transforms=6, hidden_features=(64, 64))
    data, optimiser = torch.from_numpy(x), torch.optim.Adam(flow.parameters(), lr=1e-3)

    def step():
        loss = -flow().log_prob(data[torch.randint(len(data), (BATCH,))]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    return step, sum(p.numel() for p in flow.parameters()), zuko.__version__


def flowjax_steps(x):
    """One step as `fit_to_data` takes it."""
    import equinox as eqx
    import flowjax
    import jax
    import jax.numpy as jnp
    import optax
    import paramax
    from flowjax.bijections import Affine
    from flowjax.distributions import Normal
    from flowjax.flows import coupling_flow
    from flowjax.train.losses import MaximumLikelihoodLoss
    from flowjax.train.train_utils import step as one_step

    flow = coupling_flow(
        jax.random.key(0),
        base_dist=Normal(jnp.zeros(2)),
        transformer=Affine(),
        flow_layers=6,
        nn_width=64,
        nn_depth=2,
    )
    params, static = eqx.partition(
        flow, eqx.is_inexact_array, is_leaf=lambda leaf: isinstance(leaf, paramax.NonTrainable)
    )
    optimiser, loss = optax.adam(1e-3), MaximumLikelihoodLoss()
    rng, now = np.random.default_rng(0), [params, optimiser.init(params)]

    def step():
        batch = jnp.asarray(x[rng.integers(len(x), size=BATCH)])
        *now[:], value = one_step(
            now[0], static, batch, key=jax.random.key(0), optimizer=optimiser, opt_state=now[1], loss_fn=loss
        )
        return value

    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    return step, count, flowjax.__version__


def main(name: str, inputs: str, outputs: str) -> None:
    given = np.load(inputs)
    steps, repeats = int(given["steps"]), int(given["repeats"])
    step, parameters, version = {"zuko": zuko_steps, "flowjax": flowjax_steps}[name](given["x"])
    times = []
    for _ in range(repeats + 1):
        began = CLOCK()
        for _ in range(steps):
            value = step()
        loss = value.item()  # waits for the last step
        times.append((CLOCK() - began) / steps)
    np.savez(outputs, seconds=min(times[1:]), loss=loss, parameters=parameters, version=version)


if __name__ == "__main__":
    main(*sys.argv[1:])
