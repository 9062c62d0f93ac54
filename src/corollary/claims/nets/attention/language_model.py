"""Decoders as language models: what they reach on a source of known entropy, and what they do not."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.nets.attention._small import trainable
from corollary.evidence import Count, at_least, at_most, claim, control, equal
from corollary.nets import empirical_risk, train
from corollary.nets.attention import LanguageModel, token_cross_entropy
from corollary.network import BatchLoss

CHAIN, STEPS = optax.adam(1e-2), optax.adam(3e-3)


def _entropy(p, axis=-1):
    return -jnp.sum(p * jnp.log(p), axis)


@claim(rows=("B10.63", "E06.11", "T15.07"))
def entropy_rate(key, *, steps: Count = 150):
    r"""A decoder comes down to the entropy of its source, and no lower as long as it is masked.

    Let $y$ be a Markov chain with initial law $\pi$ and transitions $P$. For every model, inputs (start,
    $y_1,\dots,y_{T-1}$) and targets $(y_1,\dots,y_T)$ give
    $$-\frac1T\mathbb E\ln p(y_{1:T})\ge\frac1T\Big(H(\pi)+\sum_{n<T}\sum_ip_n(i)H(P_i)\Big),$$
    with equality for the true law. Here the expectation is over all sequences, exactly, and a decoder with one block is
    trained on it: it stays above the entropy at every step and ends within 0.02 nats. Without the causal mask the
    inputs hold the answers, and the loss falls below the entropy. What a model without context would lose, the
    information between neighbours, is more than 0.02.
    """
    k, length = 3, 5
    sequences = np.array(list(itertools.product(range(k), repeat=length)))
    masks = jnp.stack([jnp.tri(length, dtype=bool), jnp.ones((length, length), bool)])

    @jax.jit
    def measure(key):
        net_key, p_key = jax.random.split(key)
        # rows of low entropy: each state has a favourite successor
        p = 0.7 * jnp.roll(jnp.eye(k), 1, 1) + 0.3 * jax.random.dirichlet(p_key, jnp.ones(k), (k + 1,))[:k]
        start = jnp.full(k, 1 / k)
        laws = start[sequences[:, 0]] * jnp.prod(p[sequences[:, :-1], sequences[:, 1:]], 1)
        net = trainable(lambda key: LanguageModel(k, length, 16, 2, 1, key=key, hidden=16), net_key)
        inputs = jnp.concatenate([jnp.full((len(sequences), 1), net.start), sequences[:, :-1]], 1)

        def loss(net, mask):
            def logits(tokens):
                return net.encoder(net.embedding(tokens), mask) @ net.embedding.weight[:k].T

            return laws @ token_cross_entropy(jax.vmap(logits)(inputs), sequences).mean(1)

        run = jax.vmap(lambda mask: train(net, BatchLoss(loss), mask, CHAIN, steps=steps))(masks)
        states = jax.lax.scan(lambda s, _: (s @ p, s), start, length=length)[1]
        rows = (_entropy(start) + states[:-1].sum(0) @ _entropy(p)) / length
        without = _entropy(states).mean() - rows
        return run.losses, _entropy(laws) / length, rows, without

    losses, entropy, rows, without = measure(key)
    yield equal("entropy of all sequences: by the rows of the chain", entropy, rows)
    yield at_least("loss in training", losses[0], entropy, along="step")
    yield at_most("distance from the entropy at the end", losses[0, -1] - entropy, 0.02)
    yield control("without the mask", at_least("loss in training", losses[1], entropy, along="step"))
    yield control("without context", at_most("distance from the entropy", without, 0.02))


@claim(rows=("B10.65",))
def longer_than_trained(key, *, steps: Count = 500, starts: Count = 3):
    r"""A decoder that composes a few steps perfectly does not compose more of them.

    A decoder with two blocks learns the parity of the bits so far, on all sequences of five bits. On sequences of ten
    bits, the same rule, its answers at positions six to ten are little better than chance: nothing in the architecture
    makes it iterate a step. The premise is that it has learned, which is not the luck of every start: of a few starts
    the one with the least loss in training is looked at. (The text lists such weaknesses without numbers; no theorem
    is meant. Most runs give the shares 1 and 0.5; 0.9 and 0.75 are asked for.)
    """
    short, long = 5, 10
    bits = np.array(list(itertools.product(range(2), repeat=long)))
    parity = bits.cumsum(1) % 2
    seen = bits[:: 2 ** (long - short), :short]

    @jax.jit
    def measure(key):
        options = {"hidden": 32, "positions": "sinusoidal"}

        known = seen, parity[:: 2 ** (long - short), :short]

        def one(key):
            net = trainable(lambda key: LanguageModel(2, long, 16, 2, 2, key=key, **options), key)
            model = train(net, "cross_entropy", known, STEPS, steps=steps).network
            right = jax.vmap(model)(bits).argmax(-1) == parity
            return empirical_risk(model, "cross_entropy", known), right.mean(0)

        losses, right = jax.vmap(one)(jax.random.split(key, starts))
        return right[jnp.argmin(losses)]

    right = measure(key)
    yield at_least("share of right answers, as long as trained", right[:short], 0.9, along="position")
    yield at_most("share of right answers, twice as long", right[short:].mean(), 0.75)
