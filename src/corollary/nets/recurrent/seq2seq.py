r"""One sequence into another: an encoder reads, a decoder writes, and attention lets it look back.

```python
network = Seq2Seq(source=30, target=30, units=64, key=key)        # attention=False: all goes through one vector
network(x, y)                                # logits of every target token given those before it: teacher forcing
network.generate(x, length=20, end=1)        # the most probable token, again and again
network.given(x)                             # a language model of the target, for `corollary.language`
network.alignment(x, y)                      # where it looked
```
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from corollary._validate import labels, real, whole
from corollary.catalog import implements
from corollary.nets._greedy import most_probable
from corollary.nets.initialisations import uniform_fan_in
from corollary.nets.recurrent.gru import GRU


@implements("E05.26")
class BahdanauAttention(eqx.Module):
    r"""$a_j=\mathrm{softmax}_j(v^\top\tanh(W_1z+W_2\zeta_j))$ and the context $c=\sum_ja_j\zeta_j$.

    The order of the $\zeta_j$ does not matter: permuting them permutes $a$ and leaves $c$ as it is.
    """

    query: jax.Array
    memory: jax.Array
    score: jax.Array

    def __init__(self, query: int, memory: int, hidden: int, *, key: PRNGKeyArray):
        keys, hidden = jax.random.split(key, 3), whole("hidden", hidden)
        dtype = jnp.result_type(float)
        self.query = uniform_fan_in(keys[0], (hidden, whole("query", query)), dtype)
        self.memory = uniform_fan_in(keys[1], (hidden, whole("memory", memory)), dtype)
        self.score = uniform_fan_in(keys[2], (1, hidden), dtype)[0]

    def seen(self, states: Float[ArrayLike, "S _"]) -> Float[Array, "S _"]:
        r"""$W_2\zeta_j$ of all states (S, memory), which no query changes."""
        return real("states", states, f"S {self.memory.shape[1]}", finite=False) @ self.memory.T

    def weights(
        self, z: Float[ArrayLike, "_"], seen: Float[ArrayLike, "..."], mask: Bool[ArrayLike, "..."] | None = None
    ) -> Float[Array, "..."]:
        """How much of each state: positive, of sum 1, and 0 where `mask` (S,) is False."""
        z = real("z", z, f"{self.query.shape[1]}", finite=False)
        logits = jnp.tanh(self.query @ z + seen) @ self.score
        return jax.nn.softmax(logits if mask is None else jnp.where(mask, logits, -jnp.inf))

    def __call__(
        self, z: Float[ArrayLike, "..."], states: Float[ArrayLike, "..."], mask: Bool[ArrayLike, "..."] | None = None
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The context of the query `z` among `states` (S, memory), and the weights."""
        weights = self.weights(z, self.seen(states), mask)
        return weights @ states, weights


@implements("E05.25", "E05.26")
class Seq2Seq(eqx.Module):
    r"""$p(y_{1:n}\mid x_{1:m})=\prod_ip(y_i\mid x_{1:m},y_{1:i-1})$ by two recurrent networks.

    The encoder's states are $\zeta_1,\dots,\zeta_m$ and the decoder begins at the last, $z_0=\zeta_m$. Without
    attention that vector is all it knows of the source: $z_i=F(z_{i-1},y_{i-1})$ and $\mu_i=\mathrm{softmax}(Wz_i+b)$.
    With attention $z_i=F(z_{i-1},(y_{i-1},c_i))$ and $\mu_i$ is read from $(z_i,c_i)$, where $c_i$ is the context of
    $z_{i-1}$ among all $\zeta_j$.

    `source` and `target` are the numbers of tokens on both sides; one more target token, `start`, is $y_0$. Source
    tokens equal to `pad` are not read: sources of several lengths fit one array, padded at the end.
    """

    source: jax.Array
    target: jax.Array
    encoder: GRU
    decoder: GRU
    attention: BahdanauAttention | None
    readout: eqx.nn.Linear
    pad: int | None = eqx.field(static=True)

    def __init__(
        self,
        source: int,
        target: int,
        units: int,
        *,
        key: PRNGKeyArray,
        attention: bool = True,
        embedding: int | None = None,
        pad: int | None = None,
    ):
        source, target, units = whole("source", source), whole("target", target), whole("units", units)
        size = units if embedding is None else whole("embedding", embedding)
        keys = jax.random.split(key, 6)
        self.source = jax.random.normal(keys[0], (source, size))
        self.target = jax.random.normal(keys[1], (target + 1, size))
        self.encoder = GRU(size, units, key=keys[2], reset="after")
        context = units if attention else 0
        self.decoder = GRU(size + context, units, key=keys[3], reset="after")
        self.attention = BahdanauAttention(units, units, units, key=keys[4]) if attention else None
        self.readout = eqx.nn.Linear(units + context, target, key=keys[5])
        self.pad = None if pad is None else whole("pad", pad, 0, source - 1)

    @property
    def start(self) -> int:
        """The target token that stands before the first one."""
        return self.readout.out_features

    def encode(self, source: Int[ArrayLike, "S"]) -> "Conditioned":
        """The states of the encoder on `source` (S,), as the decoder needs them."""
        source = labels("source", source, self.source.shape[0], "S")
        read = jnp.ones(source.shape, bool) if self.pad is None else source != self.pad

        def advance(state, step):
            drive, read = step
            state = jnp.where(read, self.encoder.step(drive, state), state)
            return state, state

        drives = self.encoder.drive(self.source[source])
        last, states = jax.lax.scan(advance, self.encoder.initial(), (drives, read))
        seen = None if self.attention is None else self.attention.seen(states)
        return Conditioned(self, last, states, seen, read)

    given = encode

    def __call__(self, source: Int[ArrayLike, "..."], target: Int[ArrayLike, "..."]) -> Float[Array, "..."]:
        """Logits (T, target) of each token of `target` (T,) given the ones before it and `source` (S,)."""
        return self._forced(source, target)[0]

    def alignment(self, source: Int[ArrayLike, "..."], target: Int[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The weights of attention (T, S): how much every target token looks at every source token."""
        if self.attention is None:
            raise ValueError("alignment needs a network with attention.")
        return self._forced(source, target)[1]

    def log_probability(self, source: Int[ArrayLike, "..."], target: Int[ArrayLike, "..."]) -> Float[Array, ""]:
        r"""$\sum_i\ln p(y_i\mid x,y_{1:i-1})$."""
        target = jnp.asarray(target)
        rows = jax.nn.log_softmax(self(source, target))
        return jnp.take_along_axis(rows, target[:, None], 1).sum()

    def generate(self, source: Int[ArrayLike, "..."], length: int, end: int | None = None) -> Int[Array, "..."]:
        """The target (length,) by the most probable token at every step, filled up with `end` after the first."""
        return most_probable(self.given(source), whole("length", length), end)

    def _forced(self, source, target):
        target, network = labels("target", target, self.start, "T"), self.given(source)
        before = jnp.concatenate([jnp.full(1, self.start, target.dtype), target[:-1]])

        def advance(state, word):
            outputs, state, weights = network.advance(word, state)
            return state, (outputs, weights)

        _, (outputs, weights) = jax.lax.scan(advance, network.last, self.target[before])
        return jax.vmap(self.readout)(outputs), weights


class Conditioned(eqx.Module):
    """The decoder of a `Seq2Seq` with the source put in: `cache` and `step` as a language model has them."""

    network: Seq2Seq
    last: jax.Array
    states: jax.Array
    seen: jax.Array | None
    read: jax.Array

    @property
    def start(self) -> int:
        """The token that stands before the first one."""
        return self.network.start

    def cache(self, length: int | None = None):
        """The state of the decoder before the first token; it needs no more room for more of them."""
        return self.last

    def step(self, token, cache):
        """Logits of the token after `token`, and the new state."""
        token = labels("token", token, self.start + 1, "")
        output, state, _ = self.advance(self.network.target[token], cache)
        return self.network.readout(output), state

    def advance(self, word, state):
        """What the readout reads, the new state and the weights of attention, after the embedding of one token."""
        network = self.network
        if network.attention is None:
            state = network.decoder(word, state)
            return state, state, None
        weights = network.attention.weights(state, self.seen, self.read)
        context = weights @ self.states
        state = network.decoder(jnp.concatenate([word, context]), state)
        return jnp.concatenate([state, context]), state, weights
