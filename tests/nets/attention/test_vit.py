import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.nets.attention import ViT, from_patches, image_patches

KEY = jax.random.key(0)
IMAGE = np.random.default_rng(0).normal(size=(3, 8, 12))


def test_patches_by_slicing_and_back():
    found = image_patches(IMAGE, 4)
    wanted = [IMAGE[:, i : i + 4, j : j + 4].ravel() for i in (0, 4) for j in (0, 4, 8)]
    np.testing.assert_array_equal(found, np.stack(wanted))
    np.testing.assert_array_equal(from_patches(found, IMAGE.shape), IMAGE)


def test_written_out():
    model = ViT(IMAGE.shape, 4, 5, 8, 2, 1, key=KEY, dropout=0.1)
    tokens, logits, key_logits = eqx.filter_jit(lambda m: (m.tokens(IMAGE), m(IMAGE), m(IMAGE, key=KEY)))(model)
    assert tokens.shape == (7, 8)  # six patches and [CLS]
    embedded = np.asarray(image_patches(IMAGE, 4)) @ np.asarray(model.embedding.weight).T + np.asarray(
        model.embedding.bias
    )
    wanted = np.concatenate([model.cls, embedded]) + np.asarray(model.places.table)
    np.testing.assert_allclose(tokens, wanted, rtol=1e-12)
    first = eqx.filter_jit(model.encoder)(jnp.asarray(wanted))[0]
    np.testing.assert_allclose(logits, model.readout.weight @ first + model.readout.bias, rtol=1e-10, atol=1e-12)
    assert np.abs(key_logits - logits).max() > 1e-4
    with pytest.raises(ValueError, match=r"image must have shape \(3, 8, 12\)"):
        model(IMAGE[:, :4])


def test_refused():
    with pytest.raises(ValueError, match="image must have a height and width that are multiples of the patch size 5"):
        image_patches(IMAGE, 5)
    with pytest.raises(ValueError, match="image must have a height and width that are multiples of the patch size 5"):
        ViT(IMAGE.shape, 5, 5, 8, 2, 1, key=KEY)
    with pytest.raises(ValueError, match="rows must be the square patches"):
        from_patches(np.zeros((6, 47)), IMAGE.shape)
