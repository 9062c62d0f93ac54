r"""A network replaced by its first-order expansion in the parameters, and what training makes of that.

$h[\beta](x)=f[\theta_0](x)+\langle\nabla_\theta f[\theta_0](x),\beta\rangle$ with $\beta=\theta-\theta_0$ is linear in
its parameters, with features $\nabla_\theta f[\theta_0](x)$ and the tangent kernel $K=\Phi\Phi^\top$. Nothing here
makes the features: products with $\Phi$ and $\Phi^\top$ are one forward and one backward pass.
"""

from functools import partial

import jax
import jax.numpy as jnp

from corollary._validate import concrete, one_of, real, within
from corollary.catalog import implements
from corollary.kernels.dynamics import Predictions, flow_filter, flow_predictions, limit_filter, spectrum
from corollary.kernels.empirical import empirical_ntk


@implements("E09.01", "B07.14")
def linearise(apply, params):
    r"""The function `(new, x)` $\mapsto f[\theta_0](x)+\langle\nabla_\theta f[\theta_0](x),\theta-\theta_0\rangle$.

    `apply(params, x)` is any function of a pytree of floating-point parameters; `new` has its structure.
    """
    _network(apply, params)

    def linear(new, x):
        value, change = jax.jvp(lambda p: apply(p, x), (params,), (_difference(new, params),))
        return value + change

    return linear


@implements("E09.03", "B07.14")
def fit_linearised(apply, params, x, y):
    r"""The parameters $\theta_0+\beta^\star$ of least squared error of the linearised network on `x`, `y`.

    $\beta^\star=\Phi^\top K^+(y-f[\theta_0](X))$: of all solutions (many, if there are more parameters than labels) the
    one nearest to $\theta_0$, where gradient descent from $\theta_0$ ends. `y` has the shape of the outputs.
    """
    return _moved(apply, params, x, y, partial(limit_filter, None))


@implements("B07.14", "E09.07")
def train_linearised(apply, params, x, y, time, *, loss: str = "sum"):
    r"""Its parameters after gradient flow for this `time`: $\theta_0+\Phi^\top K^{-1}(I-e^{-tK})(y-f[\theta_0](X))$.

    `loss` as in `flow_predictions`; the mean is over examples.
    """
    time = within("time", real("time", time, ""), 0.0)
    scale = 1.0 if one_of("loss", loss, ("sum", "mean")) == "sum" else 1.0 / jnp.shape(y)[0]
    return _moved(apply, params, x, y, partial(flow_filter, scale * time[None]))


@implements("E09.04", "B07.14")
def linearised_predictions(apply, params, x, y, times, x_test=None, *, loss: str = "sum") -> Predictions:
    r"""What the linearised network predicts at `x` and `x_test` after gradient flow for each of `times`.

    From the tangent kernel alone: $f_t(x)=f_0(x)+k(x)^\top K^{-1}(I-e^{-tK})(y-f_0)$. Shapes as those of the outputs,
    with the times in front.
    """
    start, y = _labelled(apply, params, x, y)
    outputs = start.shape[1:]
    k = _kernel(apply, params, x, None)
    cross = None if x_test is None else _kernel(apply, params, x_test, x)
    start_cross = None if x_test is None else apply(params, x_test)
    scale = 1.0 if one_of("loss", loss, ("sum", "mean")) == "sum" else 1.0 / start.shape[0]
    times = within("times", real("times", times, "t"), 0.0)
    out = flow_predictions(
        k,
        y.ravel(),
        scale * times,
        cross=cross,
        start=start.ravel(),
        start_cross=None if x_test is None else start_cross.ravel(),
    )
    return Predictions(
        out.train.reshape(-1, *start.shape),
        None if x_test is None else out.test.reshape(-1, start_cross.shape[0], *outputs),
    )


def _moved(apply, params, x, y, filtered):
    start, y = _labelled(apply, params, x, y)
    values, vectors = spectrum(_kernel(apply, params, x, None))
    dual = vectors @ (filtered(values)[0] * (vectors.T @ (y - start).ravel()))
    _, back = jax.vjp(lambda p: apply(p, x), params)
    (beta,) = back(dual.reshape(start.shape).astype(start.dtype))
    return jax.tree.map(jnp.add, params, beta)


def _kernel(apply, params, x1, x2):
    """The tangent kernel of all outputs at all examples, as a matrix: examples vary slowest."""
    blocks = empirical_ntk(apply, params, x1, x2, trace=False)
    n1, n2, k, _ = blocks.shape
    return blocks.transpose(0, 2, 1, 3).reshape(n1 * k, n2 * k)


def _network(apply, params):
    if not callable(apply):
        raise TypeError(f"apply must be a function of parameters and inputs, got {type(apply).__name__}.")
    leaves = jax.tree.leaves(params)
    if not leaves or not all(jnp.issubdtype(jnp.result_type(a), jnp.floating) for a in leaves):
        raise TypeError("params must be a pytree of floating-point arrays.")


def _difference(new, params):
    if jax.tree.structure(new) != jax.tree.structure(params):
        raise ValueError("new must have the structure of the parameters at which the network was linearised.")
    for a, b in zip(jax.tree.leaves(new), jax.tree.leaves(params), strict=True):
        if jnp.shape(a) != jnp.shape(b):
            raise ValueError(f"new must hold arrays of the shapes of the parameters, got {jnp.shape(a)}.")
    return jax.tree.map(lambda a, b: jnp.asarray(a, jnp.result_type(b)) - b, new, params)


def _labelled(apply, params, x, y):
    _network(apply, params)
    start = apply(params, x)
    y = real("y", y, finite=concrete(y))
    if y.shape != start.shape:
        raise ValueError(f"y must have the shape {start.shape} of the network's outputs, got {y.shape}.")
    return start, y.astype(start.dtype)
