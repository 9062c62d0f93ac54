"""Log-linear models: which laws of pairs they reach, and which not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control
from corollary.language import LogLinear, NGram


@claim(rows=("T15.05",))
def width_of_word_vectors(key, *, tokens: Size = 8, length: Count = 4000, steps: Count = 1500):
    r"""With word vectors as wide as the vocabulary a log-linear model is a bigram model; with narrow ones it is not.

    With the last token as its context and $D\ge V$, $\Pr\propto\exp(v\cdot c)$ reaches every positive law of pairs: the
    trained loss comes within $10^{-3}$ of the empirical conditional entropy, and never below it. With $D=1$ the logits
    have rank one, and those of a text whose laws of pairs were drawn at random do not.
    """

    @jax.jit
    def measure(key):
        law_key, text_key, *keys = jax.random.split(key, 4)
        laws = jax.random.dirichlet(law_key, 2 * jnp.ones(tokens), (tokens,))
        first, after = jax.random.split(text_key)
        noise = jax.random.gumbel(after, (length, tokens))
        move = lambda last, g: (jnp.argmax(jnp.log(laws)[last] + g),) * 2  # noqa: E731
        _, text = jax.lax.scan(move, jax.random.randint(first, (), 0, tokens), noise)
        counted = NGram.fit(text, 2, vocabulary=tokens).laws[1]
        floor = -jnp.mean(jnp.log(counted[text[:-1], text[1:]]))
        pairs = jnp.zeros((tokens, tokens)).at[text[:-1], text[1:]].add(1.0) / (length - 1)

        def trained(width, key):
            def loss(params):  # every context is a single token, so that one pass over the vocabulary has them all
                return -jnp.sum(pairs * jax.nn.log_softmax(eqx.combine(params, static)(jnp.arange(tokens))))

            def step(carry, _):
                params, state = carry
                updates, state = optimiser.update(jax.grad(loss)(params), state)
                return (optax.apply_updates(params, updates), state), None

            optimiser = optax.adam(optax.cosine_decay_schedule(0.05, steps))
            params, static = eqx.partition(LogLinear(tokens, width, key=key), eqx.is_array)
            start = params, optimiser.init(params)
            (params, _), _ = jax.lax.scan(step, start, None, length=steps)
            return loss(params)

        return floor, trained(tokens, keys[0]), trained(1, keys[1])

    floor, wide, narrow = measure(key)
    yield at_most("loss at D = V", wide, floor + 1e-3)
    yield at_least("loss at D = V, not below the entropy", wide, floor)
    yield control("vectors are as wide as the vocabulary: here 1", at_most("loss", narrow, floor + 1e-3))
