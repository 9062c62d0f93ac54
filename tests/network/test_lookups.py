"""Tables that tokens are looked up in, found whichever way a network does it, and networks cut behind them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network
from corollary.nets.attention import LanguageModel
from corollary.network._embedded import ELSEWHERE, NO_TABLE, embedded
from corollary.network._lookups import read

KEY = jax.random.key(0)
V, D = 5, 3
X = np.random.default_rng(0).integers(0, V, (6, 4))
TABLE = jnp.asarray(np.random.default_rng(1).normal(size=(V, D)), jnp.float32)


def of(function, x=X):
    """The leaf, the rows of its table, and the shape of what is looked up."""
    network = function if isinstance(function, eqx.Module) else Network(function, TABLE)
    found = read(network, x)
    return [(one.leaf, one.rows, found.program.shape(one.slot)[-1]) for one in found.found]


WAYS = {
    "indices": lambda w, x: w[x],
    "take": lambda w, x: jnp.take(w, x, axis=0),
    "clipped": lambda w, x: jnp.take(w, x, axis=0, mode="clip"),
    "one by one": lambda w, x: jax.vmap(lambda token: w[token])(x),
    "one-hot": lambda w, x: jax.nn.one_hot(x, V) @ w,
    "columns": lambda w, x: w.T[:, x].T.reshape(4, D) @ w.T @ w,
    "in a call": lambda w, x: jax.jit(lambda w, x: w[x])(w, x),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_table_is_found(way):
    assert [(leaf, rows) for leaf, rows, _ in of(WAYS[way])] == [(0, V)]


def test_modules():
    assert of(LanguageModel(V, 4, 8, 2, 1, key=KEY)) == [(0, V + 1, 8)]

    class Words(eqx.Module):
        table: eqx.nn.Embedding

        def __call__(self, x):
            return jax.vmap(self.table)(x["tokens"])

    assert of(Words(eqx.nn.Embedding(V, D, key=KEY)), {"numbers": X / 2, "tokens": X})[0][:2] == (1, V)


OTHERS = {
    "mended tokens": lambda w, x: w[jnp.where(x < 0, 0, x)],
    "computed numbers": lambda w, x: w[x // 2],
    "numbers": lambda w, x: x[:, None] * w[0],
    "a table of the input": lambda w, x: jnp.outer(x, w[0])[x % 2],
}


@pytest.mark.parametrize("other", OTHERS)
def test_what_is_no_table_of_tokens(other):
    assert of(OTHERS[other]) == []


# --- in two parts


@pytest.mark.parametrize("way", WAYS)
def test_both_parts_are_the_network(way):
    network = Network(lambda w, x: jnp.tanh(WAYS[way](w, x)).sum(0) @ w.T, TABLE)
    parts = embedded(network, X)
    rows = parts.rows(X)
    assert rows.size == X.size * D
    np.testing.assert_allclose(jax.vmap(parts.after)(rows), jax.vmap(network)(X), rtol=1e-6)
    moved = jax.grad(lambda rows: parts.after(rows).sum())(rows[0])
    assert np.isfinite(moved).all()
    assert np.any(moved != 0)


def test_a_transformer_in_two_parts():
    network = LanguageModel(5, 4, 8, 2, 2, key=jax.random.key(0))
    parts = embedded(network, X)
    np.testing.assert_allclose(jax.vmap(parts.after)(parts.rows(X)), jax.vmap(network)(X), rtol=1e-5, atol=1e-7)


def test_what_cannot_be_cut():
    assert embedded(Network(lambda w, x: w[x] * (x > 0)[:, None], TABLE), X) == ELSEWHERE
    assert embedded(Network(lambda w, x: w[x] + w[x[::-1]], TABLE), X) == ELSEWHERE
    assert embedded(Network(lambda w, x: w[x] + w[x, :1], TABLE), X) == NO_TABLE
    assert all(isinstance(embedded(Network(other, TABLE), X), str) for other in OTHERS.values())
