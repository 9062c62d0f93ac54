"""What recurrent networks are used for, on tasks whose best loss is known."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims._drawn import drawn
from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal
from corollary.nets import train
from corollary.nets.recurrent import Elman, autoregression_loss, classification_loss, labelling_loss
from corollary.network import BatchLoss
from corollary.network.losses import cross_entropy


@claim(rows=("E05.02",))
def three_uses(key, *, units: Size = 12, training: Count = 400, length: Annotated[int, Range(4, 32)] = 8):
    r"""One network labels every step, predicts the next input or classifies the whole sequence.

    Asked for the next bit of a chain that stays with probability $q=0.9$, an Elman network comes within 3 % of the
    entropy rate $-q\ln q-(1-q)\ln(1-q)$, below which no network goes. Asked for the parity of fair bits so far at every
    step, or at the end for the bit that was in the majority, it learns to answer with a loss of at most a fifth of
    guessing, $\ln2$. Without a state that is carried on the parity is out of reach: it is the bit itself in the first
    of $T$ steps and independent of it later, which leaves the entropy of a coin that shows heads with probability
    $\frac12+\frac1{2T}$. The three losses are weighted sums of the same losses of single steps.
    """
    stay, tests = 0.9, 1000
    even, last = np.full(length, 1 / length), np.arange(length) == length - 1
    # the weights of the steps when labelling, predicting and classifying; the last task is labelling without memory
    weights = np.stack([even, (1.0 - last) / (length - 1), 1.0 * last, even])
    tasks, memory = np.arange(4), np.array([1.0, 1, 1, 0])

    def sequences(key, n):
        """Bits, and what is asked at each step, for all tasks: (n, 4, length) each."""
        draws = jax.random.uniform(key, (n, length, 2))
        moves = (draws[..., 0] > stay).at[:, 0].set(draws[:, 0, 0] > 0.5)
        chain, fair = jnp.cumsum(moves, axis=1) % 2, (draws[..., 1] > 0.5).astype(int)
        parity = jnp.cumsum(fair, axis=1) % 2
        majority = jnp.broadcast_to((2 * fair.sum(1, keepdims=True) > length).astype(int), fair.shape)
        shown = jnp.stack([fair, chain, fair, fair], axis=1)
        return shown, jnp.stack([parity, jnp.roll(chain, -1, axis=1), majority, parity], axis=1)

    @jax.jit
    def measure(key):
        net_key, run_key, test_key = jax.random.split(key, 3)
        start = drawn(lambda key: Elman(2, units, 2, key=key), net_key)
        known, fresh = sequences(run_key, 1000), sequences(test_key, tests)

        @jax.vmap
        def trained(task, weight, memory):
            def remembering(model):
                return eqx.tree_at(lambda m: m.cell.recurrent, model, memory * model.cell.recurrent)

            def each(model, shown, asked):
                steps = jax.vmap(cross_entropy)(remembering(model)(jax.nn.one_hot(shown[task], 2)), asked[task])
                return weight @ steps

            loss = BatchLoss(lambda model, batch: jnp.mean(jax.vmap(each, (None, 0, 0))(model, *batch)))
            found = train(start, loss, known, optax.adam(0.02), steps=training, key=run_key, batch_size=40).network
            return jax.vmap(each, (None, 0, 0))(found, *fresh), remembering(found)

        losses, models = trained(tasks, weights, memory)
        # the chain itself as the predictor, on the same sequences
        changed = fresh[0][:, 1, 1:] != fresh[0][:, 1, :-1]
        chance = -jnp.log(jnp.where(changed, 1 - stay, stay)).mean(1)
        model = jax.tree.map(lambda a: a[0], models)
        bits, asked = jax.nn.one_hot(fresh[0][0], 2), fresh[1][0]
        library = jnp.stack(
            [
                labelling_loss(model, bits[0], asked[0], cross_entropy),
                autoregression_loss(model, bits[1], cross_entropy, fresh[0][0, 1]),
                classification_loss(model, bits[2], asked[2, -1], cross_entropy),
            ]
        )
        single = jax.vmap(lambda b, a: jax.vmap(cross_entropy)(model(b), a))(bits, asked)
        return losses, chance, library, jnp.sum(weights * single, axis=1)[:3]

    losses, chance, library, single = jax.device_get(measure(key))
    rate = -(stay * np.log(stay) + (1 - stay) * np.log(1 - stay))
    # five standard errors of what the test sequences leave open; against the chain itself much of it cancels
    excess = losses[1] - chance
    luck = 5 * excess.std() / tests**0.5
    yield equal("three losses", library, single, rtol=1e-12)
    yield at_most("next bit: excess over the entropy rate", excess.mean() / rate, 0.03 + luck / rate)
    yield at_least("next bit: not below the entropy rate", excess.mean() / rate, -luck / rate)
    guessing = losses.mean(1) / np.log(2)
    yield at_most("parity, majority: loss over that of guessing", guessing[np.array([0, 2])], 0.2)
    heads = (1 + 1 / length) / 2
    coin = -(heads * np.log(heads) + (1 - heads) * np.log(1 - heads)) / np.log(2)
    luck = 5 * losses[3].std() / np.log(2) / tests**0.5
    yield at_least("parity without memory: no better than the coin", guessing[3], coin - luck)
    yield control("parity without memory", at_most("loss over that of guessing", guessing[3], 0.2))
