"""The vision transformer: patches, and what it has to learn that a convolution knows."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.nets.attention._small import trainable
from corollary.evidence import Count, Size, at_least, claim, control, equal
from corollary.nets import train
from corollary.nets.attention import ViT, from_patches, image_patches, token_cross_entropy
from corollary.network import BatchLoss

ADAM = optax.adam(3e-3)


@claim(rows=("B10.64", "E06.19"))
def patches_are_a_convolution(key, *, rows: Size = 3, columns: Size = 4, patch: Size = 4, channels: Size = 3):
    r"""Embedding the patches of an image is a convolution, and without positions their order does not matter.

    An image of $H\times W$ pixels has $HW/P^2$ patches of $P\times P$; cutting it loses nothing. A linear map of each
    patch is the convolution with that map as its kernel and the stride $P$. The encoder sees the patches and [CLS], one
    token more, and its class does not change when the patches change places, unless positions are added to them.
    """
    shape = channels, rows * patch, columns * patch

    @jax.jit
    def measure(key):
        net_key, image_key, order_key = jax.random.split(key, 3)
        net = trainable(lambda key: ViT(shape, patch, 5, 8, 2, 1, hidden=8, key=key), net_key, std=0.5)
        image = jax.random.normal(image_key, shape)
        tokens = net.tokens(image) - net.places.table
        windows = jax.lax.conv_general_dilated(image[None], net.kernel(), (patch, patch), "VALID")[0]
        by_convolution = windows.reshape(8, -1).T + net.embedding.bias
        order = jnp.roll(jax.random.permutation(order_key, rows * columns), 1)
        moved = from_patches(image_patches(image, patch)[order], shape)

        def logits(image, scale):
            places = scale * net.places.table
            return net.readout(net.encoder(net.tokens(image) - net.places.table + places)[0])

        four = jax.vmap(logits)(jnp.stack([image, moved] * 2), jnp.array([0.0, 0.0, 1.0, 1.0]))
        back = from_patches(image_patches(image, patch), shape)
        return tokens[1:], by_convolution, (image, back), four, net(image)

    tokens, convolved, (image, back), four, logits = measure(key)
    yield equal("embedded patches", tokens, convolved, rtol=1e-12, atol=1e-12)
    yield equal("image from its patches", back, image, rtol=0.0, atol=0.0)
    yield equal("tokens", len(tokens) + 1, rows * columns + 1)
    yield equal("with positions: the network itself", four[2], logits, rtol=1e-12)
    yield equal("class scores after the patches changed places", four[1], four[0], rtol=1e-10, atol=1e-12)
    yield control("with positions", equal("class scores", four[3], four[2], rtol=1e-10, atol=1e-12))


@claim(rows=("E06.20",), no_control="The text gives a possible reason for an observation, and no premise to break.")
def inductive_bias(key, *, steps: Count = 150, runs: Size = 2):
    r"""A vision transformer needs more examples than a convolutional network, and the more it gets the less it lags.

    One of two small figures lies anywhere in an image with noise. A convolution with a maximum over all places knows
    that the place does not matter; the transformer must see the figures in many places. With few images the
    convolutional network makes fewer errors on new ones; with many, the transformer has gained more than it has.
    (An observation, not a theorem: averages of a few runs.)
    """
    side, most = 8, 512
    sizes = np.array([16, most])
    figures = np.array([[[1, 1, 1], [0, 0, 0], [1, 1, 1]], [[1, 0, 1], [1, 0, 1], [1, 0, 1]]], float)

    def draw(key, n):
        place_key, label_key, noise_key = jax.random.split(key, 3)
        at = jax.random.randint(place_key, (n, 2), 0, side - 2)
        labels = jax.random.bernoulli(label_key, shape=(n,)).astype(int)
        blank = jax.vmap(lambda p, f: jax.lax.dynamic_update_slice(jnp.zeros((side, side)), f, p))
        images = blank(at, jnp.asarray(figures)[labels]) + 0.3 * jax.random.normal(noise_key, (n, side, side))
        return images[:, None], labels

    def make(key):
        return ViT((1, side, side), 2, 2, 16, 2, 1, hidden=16, key=key), jnp.zeros((9, 8)), jnp.zeros((8, 2))

    def convolutional(net, image):
        windows = jnp.stack([image[0, i : i + side - 2, j : j + side - 2] for i in range(3) for j in range(3)], -1)
        return jax.nn.relu(windows @ net[1]).max((0, 1)) @ net[2]

    @jax.jit
    def measure(key):
        def one(key, size):
            keys = jax.random.split(key, 4)
            net, (x, y), (new, answers) = trainable(make, keys[0]), draw(keys[1], most), draw(keys[2], most)

            def both(net, images):
                return jnp.stack([jax.vmap(net[0])(images), jax.vmap(lambda image: convolutional(net, image))(images)])

            @BatchLoss
            def loss(net, chosen):
                chosen = chosen % size
                return token_cross_entropy(both(net, x[chosen]), jnp.stack([y[chosen]] * 2)).sum(0).mean()

            run = train(net, loss, jnp.arange(most), ADAM, steps=steps, batch_size=32, key=keys[3])
            return jnp.mean(both(run.network, new).argmax(-1) != answers, 1)

        grid = jax.vmap(lambda key: jax.vmap(lambda size: one(key, size))(sizes))
        return grid(jax.random.split(key, runs)).mean(0)

    errors = measure(key)
    gap = errors[:, 0] - errors[:, 1]
    yield at_least("few images: errors of the transformer beyond the other's", gap[0], 0.05)
    yield at_least("how much smaller that is with many images", gap[0] - gap[-1], 0.0)
    yield at_least("few images against many: errors of the transformer", errors[0, 0], errors[-1, 0])
