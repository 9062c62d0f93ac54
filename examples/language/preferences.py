"""Direct preference optimisation of a transformer, held against the optimum that it should end at.

    python examples/language/preferences.py             # a minute or two on a GPU
    python examples/language/preferences.py --quick     # seconds, and it shows

There are 16 prompts and 8 tokens, so that all 4,096 answers of four tokens can be gone through: the law of the
transformer over them is exact, and so is the optimum of RLHF for the reward that the comparisons come from. The policy
begins at the reference and never sees the reward. Every comparison is new (two answers of the reference, the winner
drawn by Bradley and Terry's law) and is used once; more comparisons are larger batches in as many steps.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.foundations import total_variation
from corollary.language import bradley_terry, dpo_loss, rlhf_optimum
from corollary.nets import train
from corollary.nets.attention import LanguageModel
from corollary.nets.initialisations import normal
from corollary.network import BatchLoss

PROMPTS, TOKENS, LENGTH, BETA = 16, 8, 4, 1.0
ANSWERS = np.stack(np.unravel_index(np.arange(TOKENS**LENGTH), (TOKENS,) * LENGTH), -1)
PREFIXES = ANSWERS[::TOKENS, :-1]  # all that can stand before the last token


def logits(model, prompts, answers):
    """The log-probabilities of the next token, after the prompt and after each token but the last."""
    tokens = jnp.concatenate([TOKENS + prompts[:, None], answers[:, : LENGTH - 1]], 1)
    return jax.nn.log_softmax(jax.vmap(model)(tokens)[..., :TOKENS])


def log_probabilities(model, prompts, answers):
    return jnp.take_along_axis(logits(model, prompts, answers), answers[..., None], -1)[..., 0].sum(-1)


@jax.jit
def law(model):
    """The logarithms of the probabilities of all answers to all prompts, from one pass over their prefixes."""

    def of(prompt):
        rows = logits(model, jnp.full(len(PREFIXES), prompt), jnp.asarray(PREFIXES))
        before = jnp.take_along_axis(rows[:, :-1], jnp.asarray(PREFIXES)[..., None], -1)[..., 0].sum(-1)
        return (before[:, None] + rows[:, -1]).ravel()

    return jax.lax.map(of, jnp.arange(PROMPTS))


def random_reward(key):
    """Of standard deviation 1: a term for each token at its place after the prompt, and one for each two neighbours."""
    single, double = jax.random.split(key)
    places = 0.4 * jax.random.normal(single, (PROMPTS, LENGTH, TOKENS))
    pairs = 0.35 * jax.random.normal(double, (TOKENS, TOKENS))
    return places[:, np.arange(LENGTH), ANSWERS].sum(-1) + pairs[ANSWERS[:, :-1], ANSWERS[:, 1:]].sum(-1)


def comparisons(count):
    """The loss of DPO on `count` new comparisons."""

    def loss(model, data, *, key):
        reward, reference = data
        prompt_key, answer_key, winner_key = jax.random.split(key, 3)
        prompts = jax.random.randint(prompt_key, (count,), 0, PROMPTS)
        pairs = jax.random.categorical(answer_key, reference[prompts][:, None], shape=(count, 2))
        rewards = reward[prompts[:, None], pairs]
        first = jax.random.bernoulli(winner_key, bradley_terry(rewards[:, 0], rewards[:, 1]))
        pairs = jnp.where(first[:, None], pairs, pairs[:, ::-1])
        policy = log_probabilities(model, jnp.repeat(prompts, 2), jnp.asarray(ANSWERS)[pairs.ravel()])
        return dpo_loss(policy.reshape(-1, 2), reference[prompts[:, None], pairs], BETA)

    return BatchLoss(loss)


def main(quick, seed):
    width, depth, steps, batches = (16, 1, 20, (4, 16)) if quick else (128, 2, 4000, (64, 256, 1024, 4096))
    reference_key, reward_key, train_key = jax.random.split(jax.random.key(seed), 3)
    start = LanguageModel(
        TOKENS + PROMPTS, LENGTH, width, 2, depth, unroll=depth, key=reference_key, initialisation=normal(0.1)
    )
    reward, reference = random_reward(reward_key), law(start)
    best = rlhf_optimum(reward, jnp.exp(reference), BETA).policy
    far = total_variation(jnp.exp(reference), best)
    print(f"the reference is {float(far.mean()):.3f} from the optimum, in total variation over {PROMPTS} prompts")
    optimiser = optax.adam(optax.warmup_cosine_decay_schedule(0.0, 1e-3, steps // 20, steps))
    found = []
    for batch in batches:
        began = time.perf_counter()
        run = train(start, comparisons(batch), (reward, reference), optimiser, steps=steps, key=train_key)
        distance = np.asarray(total_variation(jnp.exp(law(run.network)), best))
        found.append(distance.mean())
        print(
            f"{batch * steps:11,} comparisons: {distance.mean():.4f} (largest {distance.max():.4f}), "
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )
    slope = np.polyfit(np.log(batches), np.log(found), 1)[0]
    print(f"slope in the number of comparisons {slope:.2f}, of an estimate by the theory -0.50")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    main(args.quick, args.seed)
