r"""A network replaced by its first-order expansion in the parameters, and what training makes of that.

$h[\beta](x)=f[\theta_0](x)+\langle\nabla_\theta f[\theta_0](x),\beta\rangle$ with $\beta=\theta-\theta_0$ is linear in
its parameters, with features $\nabla_\theta f[\theta_0](x)$ and the tangent kernel $K=\Phi\Phi^\top$. Nothing here
makes the features: products with $\Phi$ and $\Phi^\top$ are one forward and one backward pass.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import ArrayLike, Float, PyTree

from corollary._types import NetworkLike, Scalar
from corollary._validate import concrete, one_of, real, within
from corollary.catalog import implements
from corollary.kernels.dynamics import Predictions, flow_filter, flow_predictions, limit_filter, spectrum
from corollary.kernels.empirical import empirical_ntk
from corollary.network.batches import examples, pair
from corollary.network.loss import REDUCTIONS
from corollary.network.network import Network
from corollary.network.parts import Parts, matched, require_network, split


@implements("E09.01", "B07.14")
def linearise(network: NetworkLike, at: NetworkLike | None = None, *, trainable: Any = None) -> Network:
    r"""The network $x\mapsto f[\theta_0](x)+\langle\nabla_\theta f[\theta_0](x),\theta-\theta_0\rangle$ of one example.

    $\theta_0$ are the parameters of `network`, which it keeps as buffers. Its own, $\theta$, are those of `at`, a
    network of the same structure, or begin as $\theta_0$; it can be looked at and trained like any other.

    >>> bool(jnp.allclose(linearise(network)(x[0]), network(x[0])))
    True
    """
    require_network(network)
    parts = split(network, trainable)
    theta = parts.params if at is None else matched("at", split(at, trainable).params, parts.params)
    buffers, fixed = eqx.partition(parts.fixed, eqx.is_array)

    def apply(params, buffers, x):
        start, others = buffers
        function = lambda p: eqx.combine(p, others, fixed)(x)  # noqa: E731
        value, change = jax.jvp(function, (start,), (jax.tree.map(jnp.subtract, params, start),))
        return value + change

    return Network(apply, theta, (parts.params, buffers))


@implements("E09.03", "B07.14")
def fit_linearised(network: NetworkLike, data: tuple[PyTree, ArrayLike], *, trainable: Any = None) -> NetworkLike:
    r"""`network` at the parameters $\theta_0+\beta^\star$ of least squared error of its linearisation on `(x, y)`.

    $\beta^\star=\Phi^\top K^+(y-f[\theta_0](X))$: of all solutions (many, if there are more parameters than labels) the
    one nearest to $\theta_0$, where gradient descent from $\theta_0$ ends. `y` has the shape of the outputs.
    """
    return _moved(network, data, trainable, partial(limit_filter, None))


@implements("B07.14", "E09.07")
def train_linearised(
    network: NetworkLike, data: tuple[PyTree, ArrayLike], time: Scalar, *, reduction: str = "sum", trainable: Any = None
) -> NetworkLike:
    r"""`network` after gradient flow of its linearisation: $\theta_0+\Phi^\top K^{-1}(I-e^{-tK})(y-f[\theta_0](X))$.

    `reduction` as in `flow_predictions`; the mean is over examples.
    """
    time = within("time", real("time", time, ""), 0.0)
    scale = 1.0 if one_of("reduction", reduction, REDUCTIONS) == "sum" else 1.0 / jnp.shape(data[1])[0]
    return _moved(network, data, trainable, partial(flow_filter, scale * time[None]))


@implements("E09.04", "B07.14")
def linearised_predictions(
    network: NetworkLike,
    data: tuple[PyTree, ArrayLike],
    times: Float[ArrayLike, "t"],
    x_test: PyTree | None = None,
    *,
    reduction: str = "sum",
    trainable: Any = None,
) -> Predictions:
    r"""What the linearised network predicts at `x` and `x_test` after gradient flow on `data` for each of `times`.

    From the tangent kernel alone: $f_t(x)=f_0(x)+k(x)^\top K^{-1}(I-e^{-tK})(y-f_0)$. Shapes as those of the outputs,
    with the times in front.
    """
    parts, x, y, start = _labelled(network, data, trainable)
    outputs = start.shape[1:]
    k = _kernel(network, trainable, x, None)
    test = None if x_test is None else examples("x_test", x_test)
    start_cross = None if test is None else jax.vmap(parts.join())(test)
    scale = 1.0 if one_of("reduction", reduction, REDUCTIONS) == "sum" else 1.0 / start.shape[0]
    times = within("times", real("times", times, "t"), 0.0)
    out = flow_predictions(
        k,
        y.ravel(),
        scale * times,
        cross=None if test is None else _kernel(network, trainable, test, x),
        start=start.ravel(),
        start_cross=None if test is None else start_cross.ravel(),
    )
    return Predictions(
        out.train.reshape(-1, *start.shape),
        None if test is None else out.test.reshape(-1, start_cross.shape[0], *outputs),
    )


def _moved(network, data, trainable, filtered):
    parts, x, y, start = _labelled(network, data, trainable)
    values, vectors = spectrum(_kernel(network, trainable, x, None))
    dual = vectors @ (filtered(values)[0] * (vectors.T @ (y - start).ravel()))
    _, back = jax.vjp(lambda p: jax.vmap(parts.join(p))(x), parts.params)
    (beta,) = back(dual.reshape(start.shape).astype(start.dtype))
    return parts.join(jax.tree.map(jnp.add, parts.params, beta))


def _kernel(network, trainable, x1, x2):
    """The tangent kernel of all outputs at all examples, as a matrix: examples vary slowest."""
    blocks = empirical_ntk(network, x1, x2, trace=False, trainable=trainable)
    n1, n2, k, _ = blocks.shape
    return blocks.transpose(0, 2, 1, 3).reshape(n1 * k, n2 * k)


def _labelled(network, data, trainable) -> tuple[Parts, Any, jax.Array, jax.Array]:
    require_network(network)
    parts, (x, y) = split(network, trainable), pair("data", data)
    start = jax.vmap(parts.join())(x)
    y = real("y", y, finite=concrete(y))
    if y.shape != start.shape:
        raise ValueError(f"y must have the shape {start.shape} of the network's outputs, got {y.shape}.")
    return parts, x, y.astype(start.dtype), start
