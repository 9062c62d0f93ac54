import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.generative import discriminator_samples, memorising_discriminator, memorising_generator

KEY = jax.random.key(0)
X, Y = np.random.default_rng(0).normal(size=(2, 12, 3))


def test_the_generator_recites_each_example_from_its_interval():
    generator = memorising_generator(X)
    made = jax.vmap(lambda u: generator(u, jnp.zeros(3)))((jnp.arange(12) + 0.5) / 12)
    np.testing.assert_allclose(made, X, atol=1e-12)
    assert generator.parameters == 11 * 7 + 15
    # half way up a step
    between = generator(1 / 12 + 0.5e-3 / 11, jnp.zeros(3))
    np.testing.assert_allclose(between, (X[0] + X[1]) / 2, atol=1e-9)


def test_images_with_noise():
    images = X.reshape(4, 3, 3)
    drawn = memorising_generator(images, noise=0.01).sample(200, key=KEY)
    assert drawn.shape == (200, 3, 3)
    off = jnp.min(jnp.sum((drawn[:, None] - images) ** 2, (2, 3)), 1)
    assert 9e-4 * 0.7 < float(jnp.median(off)) < 9e-4 * 1.3
    alone = memorising_generator(images[:1]).sample(5, key=KEY)
    np.testing.assert_allclose(alone, jnp.broadcast_to(images[0], (5, 3, 3)))


def test_the_discriminator_knows_one_sample_by_heart():
    known = memorising_discriminator(X, Y)
    np.testing.assert_array_equal(jax.vmap(known)(X), 1.0)
    np.testing.assert_array_equal(jax.vmap(known)(Y), 0.0)
    least = min(float(jnp.sum((a - b) ** 2)) for a in X for b in Y)
    assert float(known.tau) == pytest.approx(least / 2)
    wide = memorising_discriminator(X, Y, tau=4.0)
    want = max(max(0.0, 1 - float(jnp.sum((Y[0] - a) ** 2)) / 4) for a in X)
    assert float(wide(Y[0])) == pytest.approx(want)


def test_the_number_of_examples():
    assert float(discriminator_samples(10, 0.5, delta=0.1)) == pytest.approx(8 * (10 * np.log(17) + np.log(20)))
    twice = discriminator_samples(20, 0.5, delta=0.1) - discriminator_samples(10, 0.5, delta=0.1)
    assert float(twice) == pytest.approx(80 * np.log(17))


def test_bad_arguments():
    with pytest.raises(ValueError, match="x and y must have no example in common"):
        memorising_discriminator(X, X[:2])
    with pytest.raises(ValueError, match=r"y must hold examples of the shape of those of x, \(3,\), got \(12, 2\)"):
        memorising_discriminator(X, Y[:, :2])
    with pytest.raises(ValueError, match=r"x must be one example of 3 numbers, got shape \(2,\)"):
        memorising_discriminator(X, Y)(jnp.zeros(2))
    with pytest.raises(ValueError, match="width must be in"):
        memorising_generator(X, width=1.0)
    with pytest.raises(ValueError, match="examples must hold at least one example"):
        memorising_generator(jnp.zeros((0, 3)))
    with pytest.raises(ValueError, match="epsilon must be in"):
        discriminator_samples(3, 0.0)
