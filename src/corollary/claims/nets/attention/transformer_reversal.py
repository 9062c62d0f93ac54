"""Encoder and decoder together, on a small translation: the same words in reversed order."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.nets.attention._small import trainable
from corollary.evidence import Count, at_least, at_most, claim, control
from corollary.nets import train
from corollary.nets.attention import Transformer, sinusoidal_positions, token_cross_entropy
from corollary.network import BatchLoss

ADAM = optax.adam(5e-3)


@claim(rows=("B10.42", "E06.10", "E06.12", "M13.42"))
def order_needs_positions(key, *, steps: Count = 200):
    r"""A transformer learns to reverse a sentence, and without positions in the source it cannot.

    The sentences are all orders of $n$ different words, equally likely, and the target is the source reversed. Without
    positions the encoder is equivariant and attention to its output invariant under permutations of the source, so that
    the decoder knows the words and not their order: every such model has a loss of at least $\frac1n\ln n!$ nats per
    word, the entropy of the target, at every step of its training. With sinusoidal positions the loss goes to zero.
    """
    n = 4
    source = np.array(list(itertools.permutations(range(n))))
    target = source[:, ::-1]
    floor = math.log(math.factorial(n)) / n

    @jax.jit
    def measure(key):
        options = {"hidden": 16, "positions": "none", "order": "pre"}
        net = trainable(lambda key: Transformer(n, n, n, 16, 2, 1, key=key, **options), key)
        places = sinusoidal_positions(n, 16)
        inputs = jnp.concatenate([jnp.full((len(target), 1), net.start), target[:, :-1]], 1)

        def loss(net, scale):
            def logits(words, tokens):
                context = net.encoder(net.source(words) + scale * places)
                return jax.vmap(net.readout)(net.decoder(net.target(tokens) + places, context))

            return token_cross_entropy(jax.vmap(logits)(source, inputs), target).mean()

        scales = jnp.array([1.0, 0.0])
        return jax.vmap(lambda scale: train(net, BatchLoss(loss), scale, ADAM, steps=steps).losses)(scales)

    losses = measure(key)
    yield at_least("without positions: loss in training", losses[1], floor, along="step")
    yield at_most("without positions: distance from that at the end", losses[1, -1] - floor, 0.2)
    yield at_most("with positions: loss at the end", losses[0, -1], 0.05)
    yield control("with positions", at_least("loss in training", losses[0], floor, along="step"))
