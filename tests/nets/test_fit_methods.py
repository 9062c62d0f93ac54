"""The methods of the optimization room train networks: what they ask for, and what they return."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.landscape import escape_parameters, gaussian_perturbed_descent, perturbed_descent
from corollary.nets import MLP, fit, tanh, train, train_epochs
from corollary.network import Network
from corollary.optimization import averaged, heavy_ball, mass, nesterov, point, reduce_on_plateau, svrg

KEY = jax.random.key(0)
X = jax.random.normal(jax.random.key(1), (12, 2))
Y = jnp.sin(X[:, :1])
START = MLP((2, 4, 1), tanh, key=jax.random.key(2))


def steps_of(method, *, steps, batch_size=None):
    """The networks after each of the first `steps` steps, and the start."""
    found = train(
        START, "squared", (X, Y), method, steps=steps, batch_size=batch_size, key=KEY, measure=lambda network: network
    )
    return [jax.tree.map(lambda a, k=k: a[k], found.record) for k in range(steps + 1)]


def gradient(network):
    return jax.grad(lambda n: 0.5 * jnp.mean(jnp.sum((jax.vmap(n)(X) - Y) ** 2, axis=1)))(network)


def close(found, expected, **tolerance):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **tolerance), found, expected)


def moved(network, direction, size):
    return jax.tree.map(lambda a, d: a - size * d, network, direction)


def scale_of_squared():
    """How the loss named "squared" compares with half the square."""
    one = train(START, "squared", (X, Y), optax.sgd(1.0), steps=1)
    half = 0.5 * jnp.mean(jnp.sum((jax.vmap(START)(X) - Y) ** 2, axis=1))
    return float(one.losses[0] / half)


def test_svrg_has_no_noise_at_the_snapshot():
    size = 0.1 / scale_of_squared()
    noiseless = moved(START, gradient(START), 0.1)
    first = steps_of(svrg(size, 3, option="last"), steps=1, batch_size=2)[1]
    close(first, noiseless, rtol=1e-4, atol=1e-6)
    plain = steps_of(optax.sgd(size), steps=1, batch_size=2)[1]  # which is noisy
    with pytest.raises(AssertionError):
        close(plain, noiseless, rtol=1e-4, atol=1e-6)


def test_svrg_renews_its_snapshot():
    size = 0.1 / scale_of_squared()
    path = steps_of(svrg(size, 3, option="last"), steps=7, batch_size=2)
    for k in range(7):
        noiseless = moved(path[k], gradient(path[k]), 0.1)
        away = max(
            float(jnp.abs(a - b).max()) for a, b in zip(*map(jax.tree.leaves, (path[k + 1], noiseless)), strict=True)
        )
        assert (away < 1e-6) == (k % 3 == 0), (k, away)


def test_the_snapshot_is_returned_and_all_data_count_once():
    # batches of 5 of 12 examples: the last of them is shorter, and still every example counts as much
    found = fit(
        START, "squared", (X, Y), svrg(0.1, 4, key=KEY), steps=4, batch_size=5, key=KEY, measure=lambda n: n, every=1,
        progress=False,
    )  # fmt: skip
    path = [jax.tree.map(lambda a, k=k: a[k], found.record) for k in range(5)]
    for k in range(4):
        close(path[k], START, rtol=0)  # the snapshot, until the epoch ends
    close(found.network, path[4], rtol=0)
    whole = fit(START, "squared", (X, Y), svrg(0.1, 1, option="last"), steps=1, batch_size=5, key=KEY, progress=False)
    close(whole.network, moved(START, gradient(START), 0.1 * scale_of_squared()), rtol=1e-4, atol=1e-6)


def test_the_average_is_returned():
    plain = steps_of(optax.sgd(0.1), steps=4, batch_size=3)
    mean = jax.tree.map(lambda *a: sum(a) / 4, *plain[1:])
    close(steps_of(averaged(optax.sgd(0.1)), steps=4, batch_size=3)[-1], mean, rtol=1e-5, atol=1e-6)
    epochs = [
        train_epochs(START, "squared", (X, Y), m, epochs=1, batch_size=6, key=KEY, measure=lambda n: n)
        for m in (optax.sgd(0.1), averaged(optax.sgd(0.1)))
    ]
    # two steps: the mean of the end and of the point before it, which the losses tell apart from the end
    with pytest.raises(AssertionError):
        close(epochs[1].network, epochs[0].network, rtol=1e-5)
    close(epochs[1].network, jax.tree.map(lambda a: a[-1], epochs[1].record), rtol=0)


@pytest.mark.parametrize(
    "method",
    [
        heavy_ball(0.05, 0.5, form="difference"),
        nesterov(0.05, 0.5),
        mass(0.05, 0.01, 0.5),
        reduce_on_plateau(0.05),
        gaussian_perturbed_descent(0.05, 1e-3, key=KEY),
        averaged(svrg(0.05, 5, key=KEY)),
    ],
)
def test_methods_lower_the_loss(method):
    found = fit(START, "squared", (X, Y), method, steps=60, batch_size=6, key=KEY, progress=False)
    assert found.losses[-5:].mean() < 0.7 * found.losses[:5].mean()


def test_nesterov_looks_ahead_on_the_same_batch():
    size, scale = 0.1, scale_of_squared()
    path = steps_of(nesterov(size, 0.5), steps=2)
    ahead = jax.tree.map(lambda new, old: new + 0.5 * (new - old), path[1], path[0])
    close(path[2], moved(ahead, gradient(ahead), size * scale), rtol=1e-4, atol=1e-6)


def test_perturbed_descent_leaves_a_saddle():
    # at zero weights the gradient of a network without bias vanishes, and there is a direction down
    saddle = jax.tree.map(jnp.zeros_like, {"inner": jnp.ones((3, 2)), "outer": jnp.ones(3)})

    def network(params, x):
        return params["outer"] @ jnp.tanh(params["inner"] @ x)

    subject = Network(network, saddle)
    parameters = escape_parameters(4.0, 4.0, 0.5, 0.1, 9, 1.0)._replace(
        step=jnp.asarray(0.2), radius=jnp.asarray(1e-2), interval=jnp.asarray(50.0)
    )
    arguments = dict(steps=300, key=KEY, progress=False)
    stuck = fit(subject, "squared", (X, Y[:, 0]), optax.sgd(0.2), **arguments)
    np.testing.assert_allclose(stuck.losses[-1], stuck.losses[0], rtol=1e-6)
    free = fit(subject, "squared", (X, Y[:, 0]), perturbed_descent(parameters, key=KEY), **arguments)
    assert free.losses[-1] < 0.1 * stuck.losses[-1]


def test_a_resumed_run_draws_the_same(tmp_path):
    def run(steps, path=None):
        method = averaged(gaussian_perturbed_descent(0.05, 0.1, key=KEY))
        return fit(
            START, "squared", (X, Y), method, steps=steps, batch_size=3, key=KEY, every=5, checkpoint=path,
            progress=False,
        )  # fmt: skip

    run(5, tmp_path / "file")
    close(run(10, tmp_path / "file").network, run(10).network, rtol=0)


def test_point_without_any():
    assert point(START, optax.sgd(0.1).init(START)) is START
