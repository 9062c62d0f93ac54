"""From a description of a network to its infinitely wide limit, under current JAX.

    python examples/kernels/quickstart.py

Describe the network once; get the finite network, the kernels of its limit, and what training will make of it, with the
spread over initialisations. (neural-tangents, issues 202 and 209: a version that imports.)
"""

import argparse

import jax
import jax.numpy as jnp

from corollary import kernels
from corollary.kernels import Activation, Architecture, Dense


def main(width, time, step):
    network = Architecture(
        [Dense(width, bias_std=0.05), Activation("erf"), Dense(width, bias_std=0.05), Activation("erf"), Dense(1)]
    )
    x = jnp.linspace(-2, 2, 6)[:, None]
    y = jnp.sin(2 * x)
    new = jnp.linspace(-2.5, 2.5, 9)[:, None]

    finite = kernels.empirical_ntk(network.init((1,), key=jax.random.key(0)), x)
    limit = network.ntk(x)
    apart = float(jnp.abs(finite - limit).max() / limit.max())
    print(f"tangent kernel at width {width} against its limit: {apart:.3f} apart")

    law = network.predict(x, y[:, 0], new, time=time)

    def loss(params):
        return jnp.sum((network.apply(params, x) - y) ** 2) / 2

    @jax.jit
    def trained(key):
        params = network.init((1,), key=key).params
        descend = lambda _, p: jax.tree.map(lambda a, g: a - step * g, p, jax.grad(loss)(p))  # noqa: E731
        return network.apply(jax.lax.fori_loop(0, int(time / step), descend, params), new)[:, 0]

    ensemble = jax.lax.map(trained, jax.random.split(jax.random.key(1), 64))
    print("   point   limit: mean ± spread   64 trained networks")
    for i, point in enumerate(new[:, 0]):
        spread = float(jnp.sqrt(law.covariance[i, i]))
        print(f"{float(point):8.2f}   {float(law.mean[i]):8.3f} ± {spread:5.3f}", end="")
        print(f"     {float(ensemble[:, i].mean()):8.3f} ± {float(ensemble[:, i].std()):5.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--time", type=float, default=30.0)
    parser.add_argument("--step", type=float, default=0.05)
    args = parser.parse_args()
    main(args.width, args.time, args.step)
