"""Adversarial networks against PyTorch's cross entropy, SciPy, brute force and steps written out in NumPy."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import optimize
from scipy.special import expit

from corollary.generative import (
    GAN,
    alternating,
    optimal_discriminator,
    optimal_value,
    sample_weight,
    train_gan,
)

KEY = jax.random.key(0)
X = np.array([[0.5], [2.0], [-1.0]])
Z = np.array([[0.1], [0.7]])


class Shift(eqx.Module):
    theta: jax.Array

    def __call__(self, z):
        return z + self.theta


class Fixed(eqx.Module):
    theta: jax.Array

    def __call__(self, z):
        return 0 * z + self.theta


class Line(eqx.Module):
    w: jax.Array
    b: jax.Array

    def __call__(self, x):
        return self.w * x + self.b


def gan(f="log", w=1.5, b=-0.2, theta=0.3):
    return GAN(Shift(jnp.asarray(theta)), Line(jnp.asarray(w), jnp.asarray(b)), f)


def test_losses_are_pytorchs_cross_entropy():
    torch = pytest.importorskip("torch")
    entropy = torch.nn.functional.binary_cross_entropy_with_logits
    on_real = torch.tensor(np.asarray(1.5 * X - 0.2))
    on_fake = torch.tensor(np.asarray(1.5 * (Z + 0.3) - 0.2))
    both = entropy(on_real, torch.ones_like(on_real)) + entropy(on_fake, torch.zeros_like(on_fake))
    assert float(gan().discriminator_loss(X, Z)) == pytest.approx(float(both))
    assert float(gan().value(X, Z)) == pytest.approx(-float(both))
    assert float(gan().generator_loss(Z)) == pytest.approx(float(entropy(on_fake, torch.ones_like(on_fake))))
    saturating = -float(entropy(on_fake, torch.zeros_like(on_fake)))
    assert float(gan().generator_loss(Z, saturating=True)) == pytest.approx(saturating)


def test_weights_stand_for_repeated_examples():
    twice = jnp.concatenate([X, X[:1]])
    weights = jnp.array([0.5, 0.25, 0.25])
    assert float(gan().value(X, Z, x_weights=weights)) == pytest.approx(float(gan().value(twice, Z)))
    repeated = gan().discriminator_gradient(twice, Z)
    weighted = gan().discriminator_gradient(X, Z, x_weights=weights)
    np.testing.assert_allclose(jax.tree.leaves(weighted), jax.tree.leaves(repeated))


@pytest.mark.parametrize("f", ["log", "identity", jnp.sqrt])
def test_formulas_of_the_gradients_against_differences(f):
    h = 1e-6

    def judged(w):
        return float(gan(f, w=w).discriminator_loss(X, Z))

    found = gan(f).discriminator_gradient(X, Z).w
    assert float(found) == pytest.approx((judged(1.5 + h) - judged(1.5 - h)) / (2 * h), rel=1e-6)
    for saturating in (True, False):

        def fooled(theta, saturating=saturating):
            return float(gan(f, theta=theta).generator_loss(Z, saturating=saturating))

        found = gan(f).generator_gradient(Z, saturating=saturating).theta
        assert float(found) == pytest.approx((fooled(0.3 + h) - fooled(0.3 - h)) / (2 * h), rel=1e-6)


def test_what_examples_weigh():
    np.testing.assert_allclose(sample_weight("identity", jnp.array([0.2, 0.9])), [1, 1])
    np.testing.assert_allclose(sample_weight("log", jnp.array([0.2, 0.9]), saturating=True), [1.25, 10])
    np.testing.assert_allclose(sample_weight(lambda d: d**2, 0.4), 0.8)


def test_the_best_discriminator_by_brute_force():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    best = optimize.minimize(lambda b: -(p @ np.log(expit(b)) + q @ np.log(expit(-b))), np.zeros(3))
    np.testing.assert_allclose(expit(best.x), optimal_discriminator(p, q), atol=1e-5)
    assert float(optimal_value(p, q)) == pytest.approx(-best.fun)
    on_grid = np.max(p[:, None] * np.linspace(0, 1, 11) + q[:, None] * (1 - np.linspace(0, 1, 11)), 1).sum()
    assert float(optimal_value(p, q, "identity")) == pytest.approx(on_grid)
    assert float(optimal_value([1.0, 0.0], [0.0, 1.0])) == pytest.approx(0)
    assert float(optimal_value(p, p)) == pytest.approx(-np.log(4))


def test_steps_to_the_shift_without_sampling():
    """The game on N(a, 1) with exact expectations, beside the same steps by Gauss and Hermite in NumPy."""
    z, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    first = []
    for a in (1.0, 2.0, 4.0):
        w = b = theta = 0.0
        k = 0
        while abs(theta - a) >= 0.01:
            k += 1
            fake, real = expit(w * (z + theta) + b), 1 - expit(w * (z + a) + b)
            by_w, by_b = weights @ (fake * (z + theta) - real * (z + a)), weights @ (fake - real)
            w, b = w - 0.1 * by_w, b - 0.1 * by_b
            theta = theta + 0.1 * w * (weights @ expit(w * (z + theta) + b))
        first.append(k)
    assert first == [55, 78, 143]  # 54, 77 and 142, counted from 0

    def steps(a):
        def loss(judge, maker):
            game = GAN(maker, judge)
            return game.discriminator_loss(z[:, None] + a, z[:, None], x_weights=weights, z_weights=weights)

        zero = jnp.zeros(())
        play = alternating(loss, (Line(zero, zero), Shift(zero)), step=0.1, steps=200)
        return jnp.argmax(jnp.abs(play.y.theta - a) < 0.01)

    assert jax.vmap(steps)(jnp.array([1.0, 2.0, 4.0])).tolist() == first


def test_training_takes_the_steps_of_the_game():
    game = GAN(Fixed(jnp.asarray(0.3)), Line(jnp.asarray(0.2), jnp.asarray(0.1)))  # nothing random in it
    z = jnp.zeros((3, 1))
    for saturating in (True, False):
        run = train_gan(game, X, optax.sgd(0.1), steps=6, saturating=saturating, key=KEY)
        losses = (
            lambda d, g: GAN(g, d).discriminator_loss(X, z),
            lambda d, g, s=saturating: GAN(g, d).generator_loss(z, saturating=s),
        )
        play = alternating(losses, (game.discriminator, game.generator), step=0.1, steps=6)
        judge, maker = play.end
        np.testing.assert_allclose(run.gan.generator.theta, maker.theta, rtol=1e-12)
        np.testing.assert_allclose(run.gan.discriminator.w, judge.w, rtol=1e-12)
        np.testing.assert_allclose(run.losses, play.values[:-1], rtol=1e-12)


def test_a_trained_pair_for_each_key_and_what_is_measured():
    x = 2 + jax.random.normal(KEY, (300, 1))

    def run(key):
        return train_gan(
            gan(theta=0.0, w=0.0, b=0.0),
            x,
            optax.sgd(0.1),
            steps=300,
            batch_size=32,
            discriminator_steps=2,
            key=key,
            measure=lambda g: g.generator.theta,
            every=100,
        )

    many = jax.vmap(lambda key: run(key).record)(jax.random.split(KEY, 3))
    assert many.shape == (3, 4)
    np.testing.assert_array_equal(many[:, 0], 0)
    np.testing.assert_allclose(many[:, -1], x.mean(), atol=0.3)
    alone = run(jax.random.split(KEY, 3)[0])
    np.testing.assert_allclose(alone.record, many[0], rtol=1e-9)
    assert alone.losses.shape == alone.generator_losses.shape == (300,)
    assert alone.gan.sample(5, key=KEY).shape == (5, 1)


def test_a_run_taken_up_again_ends_with_the_same_bits(tmp_path):
    def run(name, **changes):
        given = {"gan": gan(), "data": X, "optimiser": optax.adam(0.1), "steps": 6, "batch_size": 2, "every": 2}
        measure = lambda g: g.generator.theta  # noqa: E731
        return train_gan(**given | {"key": KEY, "measure": measure, "checkpoint": tmp_path / name} | changes)

    straight = run("straight")
    run("broken", steps=2)
    again = run("broken")
    for a, b in zip(*(jax.tree.leaves(eqx.filter(r, eqx.is_array)) for r in (straight, again)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert straight.record.shape == (4,)
    assert straight.losses.shape == straight.generator_losses.shape == (6,)
    plain = run("plain", checkpoint=None)
    np.testing.assert_allclose(again.losses, plain.losses, rtol=1e-6)
    np.testing.assert_allclose(again.record, plain.record, rtol=1e-6)
    for changes, names in (
        ({"gan": gan("identity")}, r"f \(log, not identity\)"),
        ({"gan": GAN(Shift(jnp.zeros(1)), Line(jnp.zeros(1), jnp.zeros(1)))}, "networks"),
        ({"data": X + 1}, "data"),
        ({"optimiser": optax.adam(0.2)}, "optimiser, generator_optimiser"),
        ({"generator_optimiser": optax.sgd(0.2)}, "generator_optimiser"),
        (
            {"saturating": True, "discriminator_steps": 2},
            r"saturating \(False, not True\), discriminator_steps \(1, not",
        ),
        ({"key": jax.random.key(1), "batch_size": 3}, r"key, batch_size \(2, not 3\)"),
        ({"every": 3}, r"every \(2, not 3\)"),
    ):
        with pytest.raises(ValueError, match=f"is of a run with another {names}"):
            run("broken", **changes)


def test_sentences():
    with pytest.raises(TypeError, match="generator must be a network of one example, got float"):
        GAN(1.0, jnp.tanh)
    with pytest.raises(ValueError, match="f must be one of 'log', 'identity', got 'exp'"):
        GAN(jnp.tanh, jnp.tanh, "exp")
    with pytest.raises(ValueError, match=r"the discriminator must return one number for an example, got shape \(2,\)"):
        GAN(jnp.tanh, lambda x: jnp.ones(2)).value(X, Z)
    with pytest.raises(ValueError, match=r"z must have shape \(m, 1\)"):
        gan().generator_loss(jnp.ones((2, 3)))
    with pytest.raises(ValueError, match="x must have examples along the first axis"):
        gan().value(jnp.ones(3), Z)
    with pytest.raises(ValueError, match="x_weights must have shape"):
        gan().value(X, Z, x_weights=jnp.ones(2))
    with pytest.raises(ValueError, match="d must be in"):
        sample_weight("log", 1.5)
    with pytest.raises(ValueError, match="p must be zero or more"):
        optimal_discriminator(-0.1, 0.2)
    with pytest.raises(TypeError, match="gan must be a GAN, got float"):
        train_gan(1.0, X, optax.sgd(0.1), steps=1, key=KEY)
    for wrong, message in (
        ({"data": jnp.ones(3)}, "data must have examples along the first axis"),
        ({"data": jnp.ones((3, 2))}, r"the generator must return examples like those of data, \(2,\), got \(1,\)"),
        ({"steps": 3, "every": 2}, "every must divide steps"),
        ({"discriminator_steps": 0}, "discriminator_steps must be at least 1"),
    ):
        with pytest.raises(ValueError, match=message):
            train_gan(**({"gan": gan(), "data": X, "optimiser": optax.sgd(0.1), "steps": 1, "key": KEY} | wrong))
    with pytest.raises(TypeError, match="generator_optimiser must be an Optax transformation"):
        train_gan(gan(), X, optax.sgd(0.1), generator_optimiser=0.1, steps=1, key=KEY)
    with pytest.raises(TypeError, match="measure must be a function of the trained pair"):
        train_gan(gan(), X, optax.sgd(0.1), measure=3, steps=1, key=KEY)
