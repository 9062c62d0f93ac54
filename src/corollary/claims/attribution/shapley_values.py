"""Shapley values of the features of an input, beside its gradients."""

from itertools import permutations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from corollary.attribution import gradient_input, saliency, shapley_values
from corollary.evidence import Size, claim, control, equal


@claim(rows=("T10.22",))
def features_as_players(key, *, features: Size = 5, background: Size = 7):
    r"""The Shapley values of the features of an input add up to its output, less that of the background.

    $U(S)$ is the mean output for $x_S$ and $b_{\bar S}$ over the rows $b$ of a background. For every network
    $\sum_js_j=f(x)-\frac1m\sum_bf(b)$, and $s_j$ is the mean increment over all orders. For a linear one $s_j=w_j(x_j-
    \bar b_j)$, the gradient times the distance from the mean. For $f=x_1x_2$ and the baseline 0 both features have half
    of the output, where the gradients are $x_2$ and $x_1$.
    """
    orders = np.array(list(permutations(range(features))))
    before = np.argsort(orders, 1)[:, None, :] < np.arange(features + 1)[:, None]  # (orders, steps, features)

    @jax.jit
    def measure(key):
        net_key, w_key, x_key, b_key = jax.random.split(key, 4)
        network = eqx.nn.MLP(features, "scalar", 8, 1, activation=jnp.tanh, key=net_key)
        w = jax.random.normal(w_key, (features,))
        x = jax.random.normal(x_key, (2, features))
        rows = jax.random.normal(b_key, (background, features))

        def over_orders(one):
            mixed = jnp.where(before[:, :, None], one, rows)
            values = jax.vmap(jax.vmap(jax.vmap(network)))(mixed).mean(-1)
            increments = jnp.diff(values, axis=1)
            return jnp.zeros(features).at[orders].add(increments) / len(orders)

        outputs = jax.vmap(network)(x) - jax.vmap(network)(rows).mean()
        product = lambda one: one[0] * one[1]  # noqa: E731
        by_distance = jax.vmap(jax.grad(network))(x) * (x - rows.mean(0))
        return {
            "values": shapley_values(network, x, rows).values,
            "orders": jax.vmap(over_orders)(x),
            "outputs": outputs,
            "linear": shapley_values(lambda one: w @ one, x, rows).values,
            "distance": w * (x - rows.mean(0)),
            "by distance": by_distance,
            "product": shapley_values(product, x[:, :2], jnp.zeros((1, 2))).values,
            "half": x[:, :1] * x[:, 1:2] / 2,
            "slopes": saliency(product, x[:, :2]),
            "times input": gradient_input(product, x[:, :2]),
            "x": x,
        }

    m = measure(key)
    yield equal("values against increments over all orders", m["values"], m["orders"], rtol=0, atol=1e-13)
    yield equal("sum of the values", m["values"].sum(1), m["outputs"], rtol=0, atol=1e-13)
    yield equal("linear network", m["linear"], m["distance"], rtol=0, atol=1e-13)
    yield equal("product of two features", m["product"], jnp.broadcast_to(m["half"], (2, 2)), rtol=0, atol=1e-14)
    yield equal("product of two features: gradients", m["slopes"], jnp.abs(m["x"][:, 1::-1]), rtol=1e-14)
    yield equal("product of two features: gradients times inputs", m["times input"].sum(1), 4 * m["half"][:, 0])
    yield control(
        "a linear network: here one with tanh",
        equal("values against gradients", m["values"], m["by distance"], rtol=0, atol=1e-13),
    )
