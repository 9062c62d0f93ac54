r"""The encoder block of a transformer: attention among the tokens, then a network of each token, with shortcuts.

Tokens are the rows of a matrix (T, width). `order` says where layer normalisation goes: `"post"` after the sum with
the shortcut, as in the texts, `"pre"` before attention and network, so that the shortcut is an unbroken path from
input to output, `"none"` nowhere.
"""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from corollary._validate import one_of, real, whole, within
from corollary.catalog import implements
from corollary.nets.activations import relu
from corollary.nets.attention.multi_head import MultiHeadAttention
from corollary.nets.composition import Composition
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.layers import FullyConnected

ORDERS = ("post", "pre", "none")
BIASES = ("all", "hidden", "none")


class Sublayer(eqx.Module):
    r"""The shortcut around one part $g$ of a block.

    $LN(x+\alpha g(x))$ with `order="post"`, $x+\alpha g(LN(x))$ with `"pre"`, $x+\alpha g(x)$ with `"none"`. Of $g(x)$
    the share `dropout` is dropped where a key is given.
    """

    norm: eqx.nn.LayerNorm | None
    order: str = eqx.field(static=True)
    scale: float = eqx.field(static=True)
    dropout: float = eqx.field(static=True)

    def __init__(self, width: int, order: str, scale: float, dropout: float):
        self.order = one_of("order", order, ORDERS)
        self.norm = None if order == "none" else eqx.nn.LayerNorm(width)
        self.scale = float(scale)
        self.dropout = float(within("dropout", dropout, 0.0, 1.0, open="high"))

    def __call__(self, x, part, key=None):
        change = part(jax.vmap(self.norm)(x) if self.order == "pre" else x)
        x = x + self.scale * drop(change, self.dropout, key)
        return jax.vmap(self.norm)(x) if self.order == "post" else x


@implements("B10.40", "B10.43", "M13.40")
class EncoderBlock(eqx.Module):
    r"""$Z=X+\alpha_1\,\mathrm{Attention}(X)$, then $X'=Z+\alpha_2\,m(Z)$ with a network $m$ of one token, normalised.

    $m(z)=W_2\phi(W_1z+b_1)+b_2$ with `hidden` units (four times the width unless given), or any function
    `feed_forward` of one token. `bias` tells which biases there are: `"all"`, those of the `"hidden"` units alone, or
    `"none"`. `scales` is $(\alpha_1,\alpha_2)$: with both 0 the block is the identity. `size` and `value_size` are
    those of the heads.
    """

    attention: MultiHeadAttention
    feed_forward: eqx.Module
    around: tuple[Sublayer, Sublayer]

    def __init__(
        self,
        width: int,
        heads: int = 1,
        hidden: int | None = None,
        *,
        key: PRNGKeyArray,
        order: str = "post",
        activation: Callable = relu,
        feed_forward: Callable | None = None,
        bias: str = "all",
        scales: tuple[float, float] = (1.0, 1.0),
        dropout: float = 0.0,
        size: int | None = None,
        value_size: int | None = None,
        initialisation: Callable = uniform_fan_in,
    ):
        attention_key, network_key = jax.random.split(key)
        self.attention = MultiHeadAttention(
            width,
            heads,
            key=attention_key,
            size=size,
            value_size=value_size,
            bias=one_of("bias", bias, BIASES) == "all",
            initialisation=initialisation,
        )
        self.feed_forward = token_network(
            width, hidden, activation, feed_forward, bias=bias, initialisation=initialisation, key=network_key
        )
        if len(scales) != 2:
            raise ValueError(f"scales must be two numbers, one for attention and one for the network, got {scales!r}.")
        self.around = tuple(Sublayer(width, order, scale, dropout) for scale in scales)

    def __call__(
        self,
        x: Float[ArrayLike, "..."],
        mask: Bool[ArrayLike, "..."] | None = None,
        *,
        causal: bool = False,
        key: PRNGKeyArray | None = None,
    ) -> Float[Array, "..."]:
        """The tokens `x` (T, width) after the block. With a key, a share of the activations is dropped."""
        keys = keys_of(key, 2)
        x = self.around[0](x, lambda x: self.attention(x, None, mask, causal=causal), keys[0])
        return self.around[1](x, jax.vmap(self.feed_forward), keys[1])

    def step(
        self,
        x: Float[ArrayLike, "..."],
        keys: Float[ArrayLike, "..."],
        values: Float[ArrayLike, "..."],
        position: Int[ArrayLike, ""],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."], Float[Array, "..."]]:
        """One more token of a sequence of which `position` were seen: `x` (width,) attends to those and to itself.

        Returns its output, and the cached keys and values (length, heads, size) with its own filled in.
        """
        tokens, keys, values = cached_attention(self.attention, self.around[0], x[None], keys, values, position)
        return self.around[1](tokens, jax.vmap(self.feed_forward))[0], keys, values


def token_network(width, hidden, activation, feed_forward, *, bias, initialisation, key):
    """The network of one token: the given one, or two layers."""
    if feed_forward is not None:
        if not callable(feed_forward):
            raise TypeError(f"feed_forward must be a function of one token, got {type(feed_forward).__name__}.")
        return feed_forward
    width = whole("width", width)
    hidden = 4 * width if hidden is None else whole("hidden", hidden)
    first, second = jax.random.split(key)
    return Composition(
        (
            FullyConnected(width, hidden, activation, key=first, bias=bias != "none", initialisation=initialisation),
            FullyConnected(hidden, width, key=second, bias=bias == "all", initialisation=initialisation),
        )
    )


def cached_attention(attention, around, tokens, keys, values, position):
    """Self-attention of one new token (1, width), with its shortcut, and the cache with its key and value added."""
    seen = jnp.arange(keys.shape[0]) <= position
    written = []

    def part(x):
        new = attention.keys_values(x)
        written.extend(
            jax.lax.dynamic_update_slice_in_dim(old, a.astype(old.dtype), position, 0)
            for old, a in zip((keys, values), new, strict=True)
        )
        return attention.attend(x, *written, seen[None])

    return around(tokens, part), *written


def drop(x, rate: float, key):
    """`x` with a share of its entries set to zero and the others scaled up to keep the mean; `x` without a key."""
    return x if key is None else eqx.nn.Dropout(rate)(x, key=key)


def keys_of(key, count: int):
    """As many keys, or as many times None."""
    return (None,) * count if key is None else jax.random.split(key, count)


def tokens_of(name: str, x, width: int):
    """`x` as tokens of this width, the rows of a matrix."""
    return real(name, x, f"T {width}", finite=False)
