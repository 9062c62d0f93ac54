"""Critics of bounded slope against closed forms, PyTorch's gradients and steps written out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary.generative import WGAN, clip_params, critic_slopes, gradient_penalty, train_wgan

KEY = jax.random.key(0)
X = np.array([[0.5], [2.0], [-1.0], [3.0]])


class Point(eqx.Module):
    theta: jax.Array

    def __call__(self, z):
        return 0 * z + self.theta


class Line(eqx.Module):
    w: jax.Array

    def __call__(self, x):
        return self.w * x


def wgan(theta=0.0, w=0.2):
    return WGAN(Point(jnp.asarray(theta)), Line(jnp.asarray(w)))


def test_the_value_is_the_difference_of_means():
    assert float(wgan(0.5, 2.0).value(X, jnp.ones((2, 1)))) == pytest.approx(2 * (float(X.mean()) - 0.5))
    weighted = wgan(0.0, 1.0).value(X, jnp.ones((2, 1)), x_weights=jnp.array([1.0, 0, 0, 0]))
    assert float(weighted) == pytest.approx(0.5)
    assert wgan().sample(3, key=KEY).shape == (3, 1)


def test_parameters_are_cut_back_in_place():
    clipped = clip_params({"a": jnp.array([0.05, -2.0]), "b": (jnp.asarray(3.0),)}, 0.1)
    np.testing.assert_allclose(clipped["a"], [0.05, -0.1])
    assert clipped["b"][0].item() == 0.1


def test_the_penalty_is_pytorchs():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    a, b, x, fake, share = (rng.normal(size=s) for s in ((5, 3), (5,), (4, 3), (4, 3), (4,)))
    share = np.abs(share) % 1
    between = torch.tensor(share[:, None] * x + (1 - share[:, None]) * fake, requires_grad=True)
    scores = torch.tanh(between @ torch.tensor(a).T) @ torch.tensor(b)
    (slopes,) = torch.autograd.grad(scores.sum(), between)
    found = gradient_penalty(lambda x: b @ jnp.tanh(a @ x), x, fake, share)
    assert float(found) == pytest.approx(float(((slopes.norm(dim=1) - 1) ** 2).mean()))
    np.testing.assert_allclose(
        critic_slopes(lambda x: b @ jnp.tanh(a @ x), between.detach().numpy()), slopes.norm(dim=1)
    )


def test_a_flat_critic_can_still_learn():
    slope = jax.grad(lambda w: gradient_penalty(Line(w), X, -X, jnp.full(4, 0.5)))(0.0)
    assert np.isfinite(slope)


def test_clipped_training_written_out():
    run = train_wgan(
        wgan(), X, optax.sgd(0.1), steps=3, critic_steps=2, clip=0.3, key=KEY, measure=lambda g: g.critic.w
    )
    w, theta, losses = 0.2, 0.0, []
    for _ in range(3):
        for _ in range(2):
            losses.append(-w * (float(X.mean()) - theta))
            w = float(np.clip(w + 0.1 * (float(X.mean()) - theta), -0.3, 0.3))
        theta += 0.1 * w
    assert float(run.gan.critic.w) == pytest.approx(w)
    assert float(run.gan.generator.theta) == pytest.approx(theta)
    np.testing.assert_allclose(run.losses, losses[1::2])
    assert run.record.shape == (4,)
    assert np.abs(run.record).max() <= 0.3


def test_penalised_training_finds_the_slope_in_closed_form():
    run = train_wgan(
        wgan(),
        X,
        optax.sgd(0.1),
        generator_optimiser=optax.sgd(0.0),
        steps=1,
        critic_steps=300,
        penalty=2.0,
        key=KEY,
    )
    assert float(run.gan.critic.w) == pytest.approx(1 + float(X.mean()) / 4)


def test_a_run_taken_up_again_ends_with_the_same_bits(tmp_path):
    def run(name, **changes):
        given = {"wgan": wgan(), "data": X, "optimiser": optax.adam(0.1), "steps": 4, "batch_size": 2, "every": 2}
        return train_wgan(
            **given | {"clip": 0.3, "critic_steps": 2, "key": KEY, "checkpoint": tmp_path / name} | changes
        )

    straight = run("straight")
    run("broken", steps=2)
    again = run("broken")
    assert float(straight.gan.critic.w) == float(again.gan.critic.w)
    assert float(straight.gan.generator.theta) == float(again.gan.generator.theta)
    np.testing.assert_array_equal(straight.losses, again.losses)
    for changes, names in (
        ({"clip": 0.4}, r"clip \(0.3, not 0.4\)"),
        ({"clip": None, "penalty": 1.0}, r"clip \(0.3, not None\), penalty \(None, not 1.0\)"),
        ({"critic_steps": 3}, r"critic_steps \(2, not 3\)"),
    ):
        with pytest.raises(ValueError, match=f"is of a run with another {names}"):
            run("broken", **changes)


def test_sentences():
    with pytest.raises(TypeError, match="critic must be a network of one example, got int"):
        WGAN(jnp.tanh, 3)
    with pytest.raises(ValueError, match=r"the critic must return one number for an example, got shape \(2,\)"):
        critic_slopes(lambda x: jnp.ones(2) * x, X)
    with pytest.raises(ValueError, match="x and fake must be as many examples of one shape"):
        gradient_penalty(jnp.sum, X, X[:2], jnp.ones(4))
    with pytest.raises(ValueError, match="params must have at least one array"):
        clip_params({}, 1.0)
    with pytest.raises(ValueError, match="most must be positive"):
        clip_params([1.0], 0.0)
    with pytest.raises(TypeError, match="wgan must be a WGAN"):
        train_wgan(3, X, optax.sgd(0.1), steps=1, clip=1.0, key=KEY)
    for bounds in ({}, {"clip": 1.0, "penalty": 1.0}):
        with pytest.raises(ValueError, match="one of clip and penalty must be given, and not both"):
            train_wgan(wgan(), X, optax.sgd(0.1), steps=1, key=KEY, **bounds)
    with pytest.raises(ValueError, match="penalty must be positive"):
        train_wgan(wgan(), X, optax.sgd(0.1), steps=1, penalty=-1.0, key=KEY)
