r"""Attention with several heads: each has its own queries, keys and values; an output matrix mixes what they found."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import Array, ArrayLike, Bool, Float, PRNGKeyArray, Shaped

from corollary._validate import real, whole
from corollary.catalog import implements
from corollary.nets.attention.dot_product import attention_weights, dot_product_attention
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.layers import FullyConnected


@implements("B10.37", "B10.39", "E06.05", "E06.06", "M13.33", "M13.35", "M13.41")
class MultiHeadAttention(eqx.Module):
    r"""$\mathrm{concat}(A_1V_1,\dots,A_HV_H)W^O$ with $A_h=\mathrm{softmax}(Q_hK_h^\top/\sqrt{d_k})$.

    $Q_h=XW^Q_h$, $K_h=CW^K_h$ and $V_h=CW^V_h$ for tokens $X$ (T, inputs) and a context $C$ (S, context_inputs), which
    is $X$ itself in self-attention. `size` is $d_k$ and `value_size` $d_v$, both `inputs // heads` unless given. The
    projections of all heads are one layer each: $W^Q_h$ are the rows $h d_k$ to $(h+1)d_k-1$ of `query.weight`.
    """

    query: FullyConnected
    key: FullyConnected
    value: FullyConnected
    output: FullyConnected
    heads: int = eqx.field(static=True)

    def __init__(
        self,
        inputs: int,
        heads: int = 1,
        *,
        key: PRNGKeyArray,
        size: int | None = None,
        value_size: int | None = None,
        outputs: int | None = None,
        context_inputs: int | None = None,
        bias: bool = False,
        initialisation: Callable = uniform_fan_in,
    ):
        inputs, heads = whole("inputs", inputs), whole("heads", heads)
        if size is None and inputs % heads:
            raise ValueError(f"inputs must be a multiple of heads unless size is given, got {inputs} and {heads}.")
        size = inputs // heads if size is None else whole("size", size)
        value_size = size if value_size is None else whole("value_size", value_size)
        outputs = inputs if outputs is None else whole("outputs", outputs)
        context_inputs = inputs if context_inputs is None else whole("context_inputs", context_inputs)

        def layer(key, inputs, outputs):
            return FullyConnected(inputs, outputs, key=key, bias=bias, initialisation=initialisation)

        keys = jax.random.split(key, 4)
        self.query = layer(keys[0], inputs, heads * size)
        self.key = layer(keys[1], context_inputs, heads * size)
        self.value = layer(keys[2], context_inputs, heads * value_size)
        self.output = layer(keys[3], heads * value_size, outputs)
        self.heads = heads

    def __call__(
        self,
        x: Shaped[ArrayLike, "..."],
        context: Float[ArrayLike, "..."] | None = None,
        mask: Bool[ArrayLike, "..."] | None = None,
        *,
        causal: bool = False,
    ) -> Float[Array, "..."]:
        """The tokens `x` after they have attended to `context` (to themselves if None): (T, outputs)."""
        return self.attend(x, *self.keys_values(x if context is None else context), mask, causal=causal)

    def queries(self, x: Shaped[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The queries of the tokens `x`, (T, heads, size)."""
        return self._project(self.query, "x", x)

    def keys_values(self, context: Shaped[ArrayLike, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Keys (S, heads, size) and values (S, heads, value_size): what a cache keeps of each token."""
        return self._project(self.key, "context", context), self._project(self.value, "context", context)

    def attend(
        self,
        x: Shaped[ArrayLike, "..."],
        keys: Float[ArrayLike, "..."],
        values: Float[ArrayLike, "S headse"],
        mask: Bool[ArrayLike, "..."] | None = None,
        *,
        causal: bool = False,
    ) -> Float[Array, "..."]:
        """The tokens `x` after they have attended to these keys and values: (T, outputs)."""
        out = dot_product_attention(self.queries(x), keys, values, mask, causal=causal)
        return jax.vmap(self.output)(out.reshape(out.shape[0], -1))

    def weights(
        self,
        x: Float[ArrayLike, "..."],
        context: Float[ArrayLike, "..."] | None = None,
        mask: Bool[ArrayLike, "..."] | None = None,
        *,
        causal: bool = False,
    ) -> Float[Array, "..."]:
        """Who attends to whom: (heads, T, S)."""
        keys, _ = self.keys_values(x if context is None else context)
        return attention_weights(self.queries(x), keys, mask, causal=causal)

    def _project(self, layer, name, x):
        x = real(name, x, f"T {layer.weight.shape[1]}", finite=False)
        return jax.vmap(layer)(x).reshape(x.shape[0], self.heads, -1)
