"""One loop for all methods, on arrays and on pytrees, with as much of the path as is asked for."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from corollary.optimization import (
    Method,
    Path,
    Pointed,
    Problem,
    adagrad_full,
    adam,
    averaged,
    best_iterate,
    coin,
    convex_momentum,
    diffusion_sgd,
    finite_sum,
    gaussian_sgd,
    gradient_alignment,
    gradient_flow,
    gradient_variance,
    heavy_ball,
    mass,
    minimize,
    nesterov,
    newton,
    noisy,
    of_optax,
    point,
    preconditioned,
    quadratic,
    reduce_on_plateau,
    sag,
    sgd,
    svrg,
    svrg_variance,
)

KEY = jax.random.key(3)
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), RNG.normal(size=12)
TREE = {"bias": np.array([0.3, -0.2]), "weights": (RNG.normal(size=(2, 3)), RNG.normal(size=2))}
FLAT = np.concatenate([TREE["bias"], TREE["weights"][0].ravel(), TREE["weights"][1]])


def term(tree, x, y):
    hidden = jnp.tanh(tree["weights"][0] @ x + tree["bias"])
    return 0.5 * (tree["weights"][1] @ hidden - y) ** 2


def flat_term(theta, x, y):
    return term({"bias": theta[:2], "weights": (theta[2:8].reshape(2, 3), theta[8:])}, x, y)


def both(seen=lambda problem: problem, batch_size=1):
    """One problem twice: on the pytree, and on the vector of its entries."""
    return (
        seen(finite_sum(term, (X, Y), TREE, batch_size=batch_size)),
        seen(finite_sum(flat_term, (X, Y), FLAT, batch_size=batch_size)),
    )


def in_rows(tree):
    return np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in jax.tree.leaves(tree)], 1)


METHODS = {
    "gradient descent": lambda: optax.sgd(0.1),
    "adam": lambda: adam(0.05),
    "full adagrad": lambda: adagrad_full(0.1),
    "preconditioned": lambda: preconditioned(np.linspace(0.5, 2, 10), 0.05),
    "heavy ball, difference": lambda: heavy_ball(0.1, 0.5, form="difference"),
    "heavy ball, intermediate": lambda: heavy_ball(0.1, 0.5, form="intermediate"),
    "heavy ball, velocity": lambda: heavy_ball(lambda k: 0.1 / (k + 1), 0.5),
    "heavy ball, scaled velocity": lambda: heavy_ball(0.1, 0.5, form="scaled velocity"),
    "heavy ball, average": lambda: heavy_ball(0.1, 0.5, form="average"),
    "nesterov, lookahead": lambda: nesterov(0.1),
    "nesterov, velocity": lambda: nesterov(0.1, convex_momentum, form="velocity"),
    "nesterov, scaled velocity": lambda: nesterov(0.1, 0.4, form="scaled velocity"),
    "nesterov, shifted": lambda: nesterov(0.1, 0.4, form="shifted"),
    "mass": lambda: mass(0.1, 0.02, 0.4),
    "plateau": lambda: reduce_on_plateau(0.1, patience=1),
    "svrg, last": lambda: svrg(0.1, 4, option="last"),
    "svrg, random": lambda: svrg(0.1, 4, key=jax.random.key(1)),
    "averaged": lambda: averaged(optax.sgd(0.1)),
    "averaged svrg": lambda: averaged(svrg(0.1, 4, option="last")),
    "sgd": lambda: sgd(0.1, batch_size=4, sampling="reshuffle"),
    "averaged sgd": lambda: averaged(sgd(0.1)),
    "sag": lambda: sag(0.1),
    "normal noise": lambda: gaussian_sgd(0.1, batch_size=2),
    "diffusion": lambda: diffusion_sgd(0.1, substeps=3),
}


@pytest.mark.parametrize("name", METHODS)
def test_on_a_pytree_as_on_the_vector_of_its_entries(name):
    found, expected = (minimize(p, METHODS[name](), steps=12, key=KEY) for p in both(batch_size=3))
    np.testing.assert_allclose(in_rows(found.theta), expected.theta, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-9)
    np.testing.assert_allclose(found.gradient_norm, expected.gradient_norm, rtol=1e-9)
    assert np.abs(expected.theta[-1] - FLAT).max() > 1e-3  # it moved


@pytest.mark.parametrize("seen", [lambda p: noisy(p, 0.5), lambda p: coin(p, 0.5)])
def test_noise_is_drawn_for_the_vector_of_all_entries(seen):
    found, expected = (p.oracle(p.start, key=KEY) for p in both(seen))
    np.testing.assert_allclose(ravel_pytree(found)[0], expected, rtol=1e-12)


def test_flow_and_noise_of_a_pytree():
    tree, flat = both()
    times = jnp.array([0.5, 1.0])
    found, expected = gradient_flow(tree, times), gradient_flow(flat, times)
    np.testing.assert_allclose(in_rows(found.theta), expected.theta, rtol=1e-10)
    np.testing.assert_allclose(found.dissipated, expected.dissipated, rtol=1e-10)
    np.testing.assert_allclose(gradient_variance(tree, TREE), gradient_variance(flat, FLAT), rtol=1e-10)
    moved = jax.tree.map(lambda a: a + 0.1, TREE)
    np.testing.assert_allclose(svrg_variance(tree, TREE, moved), svrg_variance(flat, FLAT, FLAT + 0.1), rtol=1e-10)
    found, expected = (gradient_alignment(p, p.start, key=KEY) for p in (tree, flat))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("method", [optax.sgd(0.1), averaged(optax.sgd(0.1)), svrg(0.1, 4, key=KEY), sag(0.1)])
def test_keep(method):
    problem = both()[0]
    path = minimize(problem, method, steps=7, key=KEY)
    values = minimize(problem, method, steps=7, key=KEY, keep="values")
    end = minimize(problem, method, steps=7, key=KEY, keep="end")
    last = jax.tree.map(lambda a: a[-1], path.theta)
    for kept in (values, end):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), kept.theta, last)
    np.testing.assert_allclose(values.value, path.value, rtol=1e-12)
    np.testing.assert_allclose(values.gradient_norm, path.gradient_norm, rtol=1e-12)
    np.testing.assert_allclose(end[1:], [path.value[-1], path.gradient_norm[-1]], rtol=1e-12)
    with pytest.raises(TypeError, match="path must be a Path of at least one step with its iterates"):
        best_iterate(values)


def test_best_iterate_of_a_pytree():
    path = minimize(both()[0], optax.sgd(0.1), steps=5)
    assert int(np.argmin(path.gradient_norm[:-1])) > 0
    best = best_iterate(path)
    np.testing.assert_array_equal(best["bias"], path.theta["bias"][np.argmin(path.gradient_norm[:-1])])


def test_what_a_transformation_is_told():
    problem = both(batch_size=3)[0]
    chosen = np.asarray(jax.random.randint(jax.random.fold_in(KEY, 0), (3,), 0, 12))
    elsewhere = jax.tree.map(jnp.zeros_like, TREE)

    def mean(tree, examples):
        return jnp.mean(jnp.stack([term(tree, X[i], Y[i]) for i in examples]))

    def update(updates, state, params, *, value, gradient_fn, full_gradient_fn):
        told = {"here": updates, "value": value, "there": gradient_fn(elsewhere), "all": full_gradient_fn(elsewhere)}
        return jax.tree.map(jnp.zeros_like, updates), told

    def init(params):
        return {"here": params, "value": 0.0, "there": params, "all": params}

    method = of_optax(optax.GradientTransformationExtraArgs(init, update))
    _, told = method.step(problem, method.init(problem, problem.start), jax.random.fold_in(KEY, 0))
    expected = {
        "here": jax.grad(mean)(TREE, chosen),
        "value": mean(TREE, chosen),
        "there": jax.grad(mean)(elsewhere, chosen),
        "all": jax.grad(mean)(elsewhere, range(12)),
    }
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-15), told, expected)


def test_point_of_a_state():
    method = optax.chain(optax.clip(1.0), averaged(optax.sgd(0.5)))
    params = jnp.array([4.0])
    state = method.init(params)
    assert point(params, optax.adam(0.1).init({"point": params})) is params  # a parameter of that name is not meant
    for _ in range(2):
        updates, state = method.update(jnp.ones(1), state, params)
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(params, 3.0)
    np.testing.assert_allclose(point(params, state), 3.25)
    nested = Pointed(jnp.ones(1), Pointed(jnp.zeros(1), ()))
    assert point(params, nested) == 1.0  # what is around counts


def test_a_method_of_ones_own_and_vmap_over_steps():
    p = quadratic(jnp.array([1.0, 4.0]))
    sign = Method(lambda p, t: t, lambda p, t, key: t - 0.1 * jnp.sign(p.gradient(t)), lambda t: t)
    assert np.allclose(minimize(p, sign, steps=3).theta[-1], 0.7)
    ends = jax.vmap(lambda eta: minimize(p, optax.sgd(eta), steps=2).theta[-1])(jnp.array([0.1, 0.25]))
    assert np.allclose(ends, [[0.81, 0.36], [0.5625, 0.0]])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: minimize(both()[0], optax.sgd(1.0), steps=1, keep="all"), "keep must be one of"),
        (lambda: minimize(both()[0], optax.sgd(1.0), steps=1, start={}), "start must be a pytree like the problem's"),
        (
            lambda: minimize(both()[0], optax.sgd(1.0), steps=1, start=TREE | {"bias": np.ones(3)}),
            r"start\['bias'\] must have shape \(2,\) like the problem's own, got \(3,\)",
        ),
        (lambda: minimize(Problem(jnp.sum, (), np.arange(3)), optax.sgd(1.0), steps=1), "must be a pytree of real"),
        (lambda: minimize(Problem(jnp.sum, (), ()), optax.sgd(1.0), steps=1), "with at least one of them"),
        (lambda: minimize(both()[0], newton(), steps=1), "start must be an array"),
        (lambda: nesterov(0.1).update(jnp.ones(1), nesterov(0.1).init(jnp.ones(1)), jnp.ones(1)), "gradient_fn"),
        (lambda: reduce_on_plateau(0.1).update(jnp.ones(1), reduce_on_plateau(0.1).init(jnp.ones(1))), "value"),
        (lambda: svrg(0.1, 3), "key must be given with option"),
        (lambda: best_iterate(Path(jnp.ones(1), jnp.ones(1), jnp.ones(1))), "path must be a Path"),
    ],
)
def test_bad_input(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
