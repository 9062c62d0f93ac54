"""Influence against gradients and Hessians in whole matrices, and against retraining."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression

from corollary import Network, nets
from corollary.attribution import Solver, blame, continued_removal, group_influence, influence, self_influence

SIZES = (3, 4, 2)


def _setting(n=11, m=5):
    rng = np.random.default_rng(0)
    network = nets.MLP(SIZES, nets.tanh, key=jax.random.key(1))
    draw = lambda k: (rng.normal(size=(k, 3)), rng.normal(size=(k, 2)))  # noqa: E731
    return network, draw(n), draw(m)


def _matrices(network, data):
    """Gradients of single examples in rows and the Hessian of the mean loss, by differentiating in a flat vector."""
    flat, unravel = ravel_pytree(network)

    def losses(theta):
        x, y = map(jnp.asarray, data)
        return 0.5 * jnp.sum((jax.vmap(unravel(theta))(x) - y) ** 2, 1)

    both = jax.jit(lambda t: (jax.jacrev(losses)(t), jax.hessian(lambda t: losses(t).mean())(t)))
    return tuple(map(np.asarray, both(flat)))


@pytest.fixture(scope="module")
def setting():
    with jax.enable_x64(True):
        network, train, test = _setting()
        gradients, hessian = _matrices(network, train)
        return network, train, test, gradients, _matrices(network, test)[0], hessian


SOLVERS = {
    "dense": (Solver("dense"), 1e-10),
    "cg": (Solver("cg", tolerance=1e-11), 1e-8),
    "lissa": (Solver("lissa", tolerance=1e-11, products=5000), 1e-8),
    "lanczos": (Solver("lanczos", rank=26, tolerance=1e-12), 1e-9),
    "projected": (Solver("projected", rank=26), 1e-9),
}


@pytest.mark.parametrize("kind", SOLVERS)
def test_every_solver_against_whole_matrices(setting, kind):
    network, train, test, gradients, of_tests, hessian = setting
    solver, tolerance = SOLVERS[kind]
    damping = 1.0 - np.linalg.eigvalsh(hessian)[0]
    found = influence(network, "squared", train, test, solver=solver, damping=damping, batch_size=64)
    expected = gradients @ np.linalg.solve(hessian + damping * np.eye(len(hessian)), of_tests.T) / len(gradients)
    np.testing.assert_allclose(found.scores, expected, rtol=0, atol=tolerance * np.abs(expected).max())
    assert found.residual.shape == (5,)
    assert np.all(found.residual < 1e-7)
    np.testing.assert_allclose(found.premises.gradient_norm, np.linalg.norm(gradients.mean(0)), rtol=1e-10)
    np.testing.assert_allclose(found.premises.least, np.linalg.eigvalsh(hessian)[0], rtol=1e-6)
    np.testing.assert_allclose(found.premises.largest, np.linalg.eigvalsh(hessian)[-1], rtol=1e-6)
    # finishing the training takes all gradients at once
    np.testing.assert_allclose(found.premises.drift, -expected.sum(0), atol=1e-7)


@pytest.mark.parametrize("kind", ["lanczos", "projected"])
def test_residuals_of_subspaces_say_what_is_left_out(setting, kind):
    network, train, test, gradients, of_tests, hessian = setting
    found = influence(network, "squared", train, test, solver=Solver(kind, rank=6, tolerance=1e-10), damping=3.0)
    matrix = hessian + 3 * np.eye(len(hessian))
    # the solutions from their inner products with all gradients, which span a part of the space only: rebuild them
    values, vectors = np.linalg.eigh(hessian)
    if kind == "lanczos":
        top = np.argsort(-np.abs(values))[:6]
        basis = vectors[:, top].T
    else:
        basis = np.asarray(jax.random.normal(jax.random.key(0), (6, len(hessian))))
    solutions = np.linalg.solve(basis @ matrix @ basis.T, basis @ of_tests.T).T @ basis
    left = np.linalg.norm(solutions @ matrix - of_tests, axis=1) / np.linalg.norm(of_tests, axis=1)
    np.testing.assert_allclose(found.scores, gradients @ solutions.T / len(gradients), atol=1e-9)
    np.testing.assert_allclose(found.residual, left, atol=1e-6)
    assert np.all(found.residual > 1e-3)


def test_batches_change_nothing(setting):
    """Forty test points at once, with all gradients, and three at a time, by derivatives along their solutions."""
    network, train, test, *_ = setting
    many = tuple(np.concatenate([a + shift for shift in range(8)]) for a in test)
    whole = influence(network, "squared", train, many, damping=3.0)
    small = influence(network, "squared", train, many, damping=3.0, batch_size=3)
    np.testing.assert_allclose(small.scores, whole.scores, atol=1e-12 * float(jnp.abs(whole.scores).max()))
    np.testing.assert_allclose(small.premises.drift, whole.premises.drift, rtol=1e-9)


def test_gauss_newton_and_penalty(setting):
    network, train, test, gradients, of_tests, _ = setting
    flat, unravel = ravel_pytree(network)
    outputs = np.asarray(jax.jit(jax.jacrev(lambda t: jax.vmap(unravel(t))(jnp.asarray(train[0]))))(flat))
    matrix = np.einsum("nkp,nkq->pq", outputs, outputs) / len(gradients)
    found = influence(network, "squared", train, test, damping=0.2, penalty=0.3, curvature="gauss_newton")
    expected = gradients @ np.linalg.solve(matrix + 0.5 * np.eye(len(matrix)), of_tests.T) / len(gradients)
    np.testing.assert_allclose(found.scores, expected, atol=1e-11)
    slope = gradients.mean(0) + 0.3 * np.asarray(flat)
    np.testing.assert_allclose(found.premises.gradient_norm, np.linalg.norm(slope), rtol=1e-10)


def test_own_and_group(setting):
    network, train, test, *_ = setting
    every = influence(network, "squared", train, train, damping=3.0)
    own = self_influence(network, "squared", train, damping=3.0, batch_size=4)
    np.testing.assert_allclose(own.scores, np.diagonal(every.scores), atol=1e-12)
    groups = np.arange(11) % 3
    found = group_influence(network, "squared", train, test, groups, damping=3.0, batch_size=4)
    one_by_one = np.asarray(influence(network, "squared", train, test, damping=3.0).scores)
    expected = np.stack([one_by_one[groups == g].sum(0) for g in range(3)])
    np.testing.assert_allclose(found.scores, expected, atol=1e-12)


def test_random_batches_of_lissa(setting):
    network, train, test, gradients, of_tests, hessian = setting
    solver = Solver("lissa", products=400, scale=60.0)
    found = influence(network, "squared", train, test, solver=solver, damping=6.0, batch_size=5, key=jax.random.key(3))
    expected = gradients @ np.linalg.solve(hessian + 6 * np.eye(len(hessian)), of_tests.T) / len(gradients)
    # noise of batches of 5, averaged over the last scale / damping = 10 terms
    assert np.corrcoef(np.ravel(found.scores), np.ravel(expected))[0, 1] > 0.98
    assert np.all(found.residual < 0.5)
    assert np.any(found.residual > 1e-3)


def test_against_retraining_of_scikit_learn():
    rng = np.random.default_rng(3)
    n, c = 60, 0.05
    x = rng.normal(size=(n, 3))
    y = (x @ [1.0, -1.0, 0.5] + rng.logistic(size=n) > 0).astype(int)
    z, t = rng.normal(size=(3,)), 1
    fitted = lambda keep: LogisticRegression(  # noqa: E731
        C=1 / (n * c), fit_intercept=False, solver="newton-cholesky", tol=1e-10
    ).fit(x[keep], y[keep])
    margin = lambda w: np.log1p(np.exp(-(2 * t - 1) * (w @ z)))  # noqa: E731
    everything = fitted(np.arange(n) >= 0).coef_[0]
    real = np.array([margin(fitted(np.arange(n) != i).coef_[0]) - margin(everything) for i in range(n)])
    network = Network(lambda w, x: w @ x, jnp.asarray(everything))
    found = influence(network, "binary_cross_entropy", (x, y), (z[None], np.array([t])), penalty=c)
    assert found.premises.gradient_norm < 1e-6
    assert abs(found.premises.drift[0]) < 1e-5
    assert spearmanr(found.scores[:, 0], real).statistic > 0.99
    # leverages are some 5 %, by which a removal is underestimated
    assert 0.9 < np.asarray(found.scores[:, 0]) @ real / (real @ real) < 1.0


def test_inside_a_program(setting):
    network, train, test, *_ = setting
    outside = influence(network, "squared", train, test, damping=3.0).scores

    @jax.jit
    def inside(network, damping):
        return influence(network, "squared", train, test, damping=damping).scores

    np.testing.assert_allclose(inside(network, 3.0), outside, atol=1e-12)


def test_labels_that_the_network_has_no_output_for():
    """They would be read off another class, or as NaN."""
    network, x = nets.MLP((3, 4, 2), nets.tanh, key=jax.random.key(0)), np.ones((4, 3))
    right, wrong = (x, np.array([0, 1, 1, 0])), (x, np.array([0, 1, 2, 0]))
    beyond = "targets must hold labels from 0 to 1, got 2 at index 2"
    asked = (
        lambda train, test: influence(network, "cross_entropy", train, test, damping=9.0),
        lambda train, test: group_influence(network, "cross_entropy", train, test, [0, 0, 1, 1], damping=9.0),
        lambda train, test: blame(network, "cross_entropy", train, test),
        lambda train, test: continued_removal(network, "cross_entropy", train, test, [0], step=0.1, steps=2),
    )
    for ask in asked:
        for train, test in ((wrong, right), (right, wrong)):
            with pytest.raises(ValueError, match=beyond):
                ask(train, test)
    with pytest.raises(ValueError, match=beyond):
        self_influence(network, "cross_entropy", wrong, damping=9.0)
    with pytest.raises(ValueError, match="targets must hold labels from 0 to 1, got -1"):
        influence(network, "cross_entropy", (x, np.array([0, 1, -1, 0])), right, damping=9.0)


def test_sentences(setting):
    network, train, test, *_, hessian = setting
    least = np.linalg.eigvalsh(hessian)[0]
    with pytest.raises(ValueError, match="damping must be zero or more"):
        influence(network, "squared", train, test, damping=-1.0)
    for kind in ("dense", "cg", "lissa"):
        with pytest.raises(ValueError, match=f"must be positive after damping, got the least eigenvalue {least:.3g}"):
            influence(network, "squared", train, test, solver=Solver(kind, products=50))
    # more parameters than points: a Gauss-Newton matrix with zero eigenvalues, positive or negative in rounding
    with pytest.raises(ValueError, match="must be positive after damping"):
        influence(network, "squared", train, test, curvature="gauss_newton")
    with pytest.raises(ValueError, match=r"shapes that train has, \(3,\), \(2,\) for one of them, got \(4,\), \(2,\)"):
        influence(network, "squared", train, (np.ones((5, 4)), test[1]))
    with pytest.raises(ValueError, match="solver must be one of"):
        influence(network, "squared", train, test, solver="exact")
    with pytest.raises(ValueError, match="the series of lissa diverges: a residual grew to"):
        influence(network, "squared", train, test, solver=Solver("lissa", scale=0.5), damping=3.0)
    with pytest.raises(ValueError, match="curvature must be one of"):
        influence(network, "squared", train, test, curvature="fisher")
    with pytest.raises(ValueError, match="groups must have shape"):
        group_influence(network, "squared", train, test, [0, 1])
    with pytest.raises(TypeError, match="their number is the shape of the result"):
        jax.jit(lambda g: group_influence(network, "squared", train, test, g, damping=3.0).scores)(jnp.arange(11) % 2)
