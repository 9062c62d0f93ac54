"""A network taken apart into what is trained and the rest."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import landscape
from corollary.network import Network
from corollary.network.parts import require_network, split, takes_key

KEY = jax.random.key(0)
MLP = eqx.nn.MLP(2, 1, 4, 1, key=KEY)


def leaves(tree):
    return [a for a in jax.tree.leaves(tree) if eqx.is_array(a)]


def test_all_real_arrays_unless_told():
    parts = split(MLP)
    assert parts.size == 2 * 4 + 4 + 4 + 1
    np.testing.assert_array_equal(parts.join()(jnp.ones(2)), MLP(jnp.ones(2)))
    zero = jax.tree.map(jnp.zeros_like, parts.params)
    assert parts.join(zero)(jnp.ones(2)) == 0
    tree = {
        "w": jnp.ones(2),
        "n": jnp.arange(3),
        "c": jnp.ones(2, complex),
        "numpy": np.ones(3),
        "f": jnp.sin,
        "s": 2.0,
    }
    params = split(tree).params
    assert {k for k, v in params.items() if v is not None} == {"w", "numpy"}


def test_functions_of_jax_stay_what_they_are():
    # pooling is differentiated twice only where JAX sees its own maximum
    network = eqx.nn.Sequential([eqx.nn.MaxPool1d(2, 2), eqx.nn.Lambda(jnp.ravel), eqx.nn.Linear(3, 1, key=KEY)])
    x = jnp.arange(6.0).reshape(1, 6) ** 2
    found = landscape.hessian(network, "squared", (x[None], jnp.zeros((1, 1)))).dense()
    row = jnp.array([1.0, 9.0, 25.0, 1.0])
    np.testing.assert_allclose(found, jnp.outer(row, row), rtol=1e-5)


def test_a_filter_or_a_tree_of_booleans_selects():
    biases = split(MLP, lambda leaf: eqx.is_array(leaf) and leaf.ndim == 1)
    assert biases.size == 5
    chosen = eqx.tree_at(lambda m: m.layers[1].weight, jax.tree.map(lambda _: False, MLP), True)
    assert split(MLP, chosen).size == 4
    np.testing.assert_array_equal(split(MLP, chosen).join()(jnp.ones(2)), MLP(jnp.ones(2)))


def test_buffers_are_never_parameters():
    network = Network(lambda p, b, x: p * x + b, jnp.ones(3), jnp.ones(5))
    assert split(network).size == 3
    assert split(network, eqx.is_array).size == 3
    nested = {"inner": network, "w": jnp.ones(2)}
    assert split(nested).size == 5
    assert leaves(split(nested).fixed)[0].shape == (5,)


def test_inference_mode_unless_told():
    dropout = eqx.nn.Sequential([MLP, eqx.nn.Dropout(0.5)])
    split(dropout).join()(jnp.ones(2))
    with pytest.raises(RuntimeError, match="key"):
        split(dropout, inference=False).join()(jnp.ones(2))


def test_programs_are_found_again_for_functions_among_the_leaves():
    def network(power):
        return {"w": jnp.ones(2), "f": lambda x: x**power}

    traces = []

    @eqx.filter_jit
    def apply(parts, x):
        traces.append(1)
        return parts.join()["f"](x)

    assert [float(apply(split(network(2)), 3.0)) for _ in range(2)] == [9.0, 9.0]
    assert len(traces) == 1
    assert apply(split(network(3)), 3.0) == 27.0


def test_who_takes_a_key():
    class Takes(eqx.Module):
        def __call__(self, x, *, key=None):
            return x

    assert takes_key(Takes())
    assert takes_key(MLP)
    assert not takes_key(lambda x: x)
    assert not takes_key(Network(lambda p, x: x, jnp.ones(1)))
    assert not takes_key(max)


def test_bad_input():
    with pytest.raises(ValueError, match="network must have at least one floating-point array"):
        split({"n": jnp.arange(3)})
    with pytest.raises(ValueError, match="network must have at least one floating-point array"):
        split(MLP, lambda leaf: False)
    with pytest.raises(ValueError, match=r"network\['w'\] must be finite, got nan at index 1"):
        split({"w": jnp.array([1.0, jnp.nan])})
    require_network(MLP)
    with pytest.raises(
        TypeError, match=r"network must be callable with one example, got dict: make one with Network\(apply, params\)"
    ):
        require_network({"w": 1})
