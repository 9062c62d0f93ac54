import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.normalisation import (
    BatchNorm,
    NormalisedMLP,
    ScalarProductNetwork,
    batch_normalise,
    batch_normalise_backward,
    layer_normalise,
    updated_output,
)

RNG = np.random.default_rng(0)
Z = RNG.normal(2.0, 3.0, (6, 4))
SCALE, SHIFT = RNG.normal(size=4), RNG.normal(size=4)


@pytest.mark.parametrize("unbiased", [False, True])
def test_batch_normalise_and_its_gradients(unbiased):
    out, moments = batch_normalise(Z, SCALE, SHIFT, eps=0.1, unbiased=unbiased)
    variance = Z.var(0, ddof=int(unbiased))
    np.testing.assert_allclose(out, SCALE * (Z - Z.mean(0)) / np.sqrt(variance + 0.1) + SHIFT, rtol=1e-12)
    np.testing.assert_allclose(moments.mean, Z.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, variance, rtol=1e-12)
    up = RNG.normal(size=Z.shape)

    def loss(z, scale, shift):
        return jnp.sum(up * batch_normalise(z, scale, shift, eps=0.1, unbiased=unbiased).values)

    expected = jax.grad(loss, argnums=(0, 1, 2))(jnp.asarray(Z), SCALE, SHIFT)
    for found, wanted in zip(batch_normalise_backward(Z, SCALE, up, eps=0.1, unbiased=unbiased), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)


def test_batch_norm_is_equinox_s_own_and_its_running_statistics_too():
    ours, (theirs, state) = (
        BatchNorm(4, momentum=0.7),
        eqx.nn.make_with_state(eqx.nn.BatchNorm)(4, axis_name="batch", momentum=0.7, mode="batch"),
    )
    images = RNG.normal(1.0, 2.0, (5, 3, 3, 4))  # positions count as examples
    moments = ours.state()
    for _ in range(2):
        out, moments = ours.batch(images, moments)
        expected, state = jax.vmap(theirs, in_axes=(0, None), out_axes=(0, None), axis_name="batch")(
            jnp.asarray(images.transpose(0, 3, 1, 2)), state
        )
        np.testing.assert_allclose(out, expected.transpose(0, 2, 3, 1), rtol=1e-10, atol=1e-12)
    evaluated = ours(images[0], moments)
    # Equinox undoes the weight of the starting values; without that, by hand
    mean, variance = np.zeros(4), np.ones(4)
    for _ in range(2):
        mean = 0.7 * mean + 0.3 * images.mean((0, 1, 2))
        variance = 0.7 * variance + 0.3 * images.reshape(-1, 4).var(0, ddof=1)
    np.testing.assert_allclose(evaluated, (images[0] - mean) / np.sqrt(variance + 1e-5), rtol=1e-10)


def test_batch_norm_of_16_bits_averages_in_32():
    with jax.enable_x64(False):
        z = (RNG.normal(size=(4096, 1)) + 10).astype("float32")
        norm = BatchNorm(1)
        low, state = norm.batch(jnp.asarray(z, jnp.bfloat16), norm.state())
        assert (low.dtype, state.mean.dtype) == (jnp.bfloat16, jnp.float32)
        np.testing.assert_allclose(state.mean, 0.1 * z.mean(), rtol=2e-4)
        np.testing.assert_allclose(np.asarray(low, float), (z - z.mean()) / z.std(), atol=0.05)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: batch_normalise(Z[0]), "z must have an axis of examples before its features"),
        (lambda: batch_normalise(Z[:1], unbiased=True), "at least two examples for an unbiased variance"),
        (lambda: batch_normalise(Z * [1, 1, 0, 1], eps=0.0), "eps must be positive where a feature"),
        (lambda: batch_normalise(Z, eps=-1.0), "eps must be zero or more"),
        (lambda: batch_normalise_backward(Z, SCALE, Z[1:]), "upstream must have the shape of z"),
        (lambda: BatchNorm(0), "features must be at least 1"),
        (lambda: BatchNorm(4, momentum=1.0), "momentum must be in"),
        (lambda: BatchNorm(4).batch(Z[:1], BatchNorm(4).state()), "z must hold at least two examples"),
        (lambda: layer_normalise(np.ones(3), eps=0.0), "eps must be positive where all features"),
        (lambda: NormalisedMLP((3, 1), key=jax.random.key(0)), "sizes must be a sequence of input"),
        (lambda: NormalisedMLP((3, 2, 1), key=jax.random.key(0), kind="group"), "kind must be one of"),
        (lambda: NormalisedMLP((3, 2, 1), key=jax.random.key(0))(np.ones(3)), "statistics must hold the moments"),
        (lambda: ScalarProductNetwork(np.ones((2, 2))), "weights must have shape"),
        (lambda: updated_output(np.ones(3), np.ones(2)), "slopes must have shape"),
    ],
)
def test_bad_input_is_one_sentence(call, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        call()
