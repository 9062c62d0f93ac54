r"""A layer of polynomial filters, one from every input channel to every output channel."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from corollary._validate import whole
from corollary.catalog import implements
from corollary.nets.graphs.laplacian import laplacian_apply
from corollary.nets.graphs.neighbours import as_graph, features
from corollary.nets.initialisations import glorot_uniform


@implements("E07.29")
class SpectralLayer(eqx.Module):
    r"""$\xi_m=\sum_np_{mn}(L)x_n+b_m$ with $p_{mn}(L)=\sum_{k=0}^K\alpha_{mnk}L^k$, for channels $m$ and $n$.

    `coefficients` $\alpha$ (outputs, inputs, K + 1), `bias` (outputs,); `normalised` takes $\tilde L$, whose powers do
    not grow. The printed sum runs over vertices and has the bias $b_n$: it would then be no function of graphs of any
    other size.
    """

    coefficients: jax.Array
    bias: jax.Array
    normalised: bool = eqx.field(static=True)

    def __init__(self, inputs: int, outputs: int, order: int, *, normalised: bool = True, key: PRNGKeyArray):
        inputs, outputs, order = whole("inputs", inputs), whole("outputs", outputs), whole("order", order, 0)
        drawn = glorot_uniform(key, (outputs, inputs * (order + 1)), jnp.result_type(float))
        self.coefficients = drawn.reshape(outputs, inputs, order + 1)
        self.bias = jnp.zeros(outputs)
        self.normalised = bool(normalised)

    def __call__(self, x: Float[ArrayLike, "m d"], graph: Float[ArrayLike, "m m"]) -> Float[Array, "_ _"]:
        x = features(x)
        if x.shape[1] != self.coefficients.shape[1]:
            raise ValueError(f"x must have {self.coefficients.shape[1]} features per vertex, got shape {x.shape}.")
        graph = as_graph(graph, x.shape[0])
        alpha = jnp.moveaxis(self.coefficients, 2, 0)  # (K + 1, outputs, inputs)
        power, total = x, x @ alpha[0].T
        for a in alpha[1:]:
            power = laplacian_apply(graph, power, normalised=self.normalised)
            total = total + power @ a.T
        return total + self.bias
