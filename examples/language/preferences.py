"""Direct preference optimisation of a transformer, held against the optimum that it should end at.

    python examples/language/preferences.py             # minutes on a GPU
    python examples/language/preferences.py --quick     # seconds, and it shows

There are 16 prompts and 8 tokens, so that all 4,096 answers of four tokens can be gone through: the law of the
transformer over them is exact, and so is the optimum of RLHF for the reward that the comparisons come from. The policy
begins at the reference and never sees the reward. Two answers of the reference are compared, and the winner is drawn by
Bradley and Terry's law.

How far from the optimum? The theory of estimates has an answer without a free constant, from the information in one
comparison, and it falls with slope -1/2 in their number N. It asks for a fixed number of parameters, each of them known
well from N comparisons, for an optimum that some choice of them attains, and for a training that goes to the end.

- **A reward that the network can express**: the optimum is the reference with other embeddings, and they are trained
  (464 numbers, of which 390 matter, because the layers are normalised). The loss on N comparisons is minimised to the
  end by natural gradient. Here the premises hold, and the slope is -1/2.
- **Any reward**, and all parameters of a larger network, trained by Adam in one pass over new comparisons. What it
  expresses is, with time, the whole table of 65,520 free numbers, but with few comparisons it finds only what varies
  slowly: the number of parameters that the comparisons resolve grows with N, and the slope is flatter. Beside it stands
  what a table, with a reward of its own for every answer, would have.
"""

import argparse
import time
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from corollary.foundations import total_variation
from corollary.language import bradley_terry, dpo_loss, rlhf_optimum
from corollary.nets import train
from corollary.nets.attention import LanguageModel
from corollary.nets.initialisations import normal
from corollary.network import BatchLoss

PROMPTS, TOKENS, LENGTH, BETA = 16, 8, 4, 1.0
ANSWERS = np.stack(np.unravel_index(np.arange(TOKENS**LENGTH), (TOKENS,) * LENGTH), -1)
PREFIXES = ANSWERS[::TOKENS, :-1]  # all that can stand before the last token


class Problem(NamedTuple):
    """A reward for every answer to every prompt, and logarithms of the probabilities of the reference."""

    reward: jax.Array
    reference: jax.Array

    @property
    def optimum(self):
        return rlhf_optimum(self.reward, jnp.exp(self.reference), BETA).policy


def of_prompt(model, prompt):
    """The logarithms of the probabilities of all answers to a prompt, from one pass over their prefixes."""

    def of(prefix):
        rows = jax.nn.log_softmax(model(jnp.concatenate([TOKENS + prompt[None], prefix]))[:, :TOKENS])
        return jnp.take_along_axis(rows[:-1], prefix[:, None], -1).sum() + rows[-1]

    return jax.vmap(of)(jnp.asarray(PREFIXES)).ravel()


def law(model):
    return jax.vmap(of_prompt, (None, 0))(model, jnp.arange(PROMPTS))


def compare(problem, each, key):
    """`each` comparisons of answers to every prompt: their numbers, the preferred one first."""
    answer_key, winner_key = jax.random.split(key)

    def draw(key, law):
        return jax.random.choice(key, law.size, (each, 2), p=law)

    pairs = jax.vmap(draw)(jax.random.split(answer_key, PROMPTS), jnp.exp(problem.reference))
    rewards = at(problem.reward, pairs)
    first = jax.random.bernoulli(winner_key, bradley_terry(rewards[..., 0], rewards[..., 1]))
    return jnp.where(first[..., None], pairs, pairs[..., ::-1])


def at(values, pairs):
    """The values of the compared answers, prompt by prompt."""
    return jax.vmap(lambda values, pairs: values[pairs])(values, pairs)


def loss(model, problem, pairs):
    """That of DPO on comparisons."""
    policy, reference = at(law(model), pairs), at(problem.reference, pairs)
    return dpo_loss(policy.reshape(-1, 2), reference.reshape(-1, 2), BETA)


def weights(rewards, reference):
    """How much one comparison at a prompt tells about the difference of the rewards of each two answers."""
    share = bradley_terry(rewards[:, None], rewards[None])
    return jnp.exp(reference[:, None] + reference[None]) * share * (1 - share)


def error(spread, optimum):
    """The expected total variation, from the standard deviations of normal errors of the logarithms of a law."""
    return np.sqrt(1 / (2 * np.pi)) * float(jnp.mean(jnp.sum(optimum * spread, -1)))


# --- a reward that the network can express --------------------------------------------------------------------------


class Tuned(NamedTuple):
    """A network as a function of those of its parameters that are trained, in one vector."""

    vector: jax.Array
    join: object


def embeddings(network):
    """The embeddings of the tokens, of the prompts and of the places."""
    chosen = eqx.tree_at(
        lambda n: jax.tree.leaves(n.embedding), jax.tree.map(lambda _: False, network), replace_fn=lambda _: True
    )
    trained, kept = eqx.partition(network, chosen)
    vector, back = ravel_pytree(trained)
    return Tuned(vector, lambda vector: eqx.combine(back(vector), kept))


def information(tuned, vector, problem, rewards):
    """What one comparison tells about the parameters: a matrix, at these rewards."""

    def of(prompt):
        slopes = jax.jacfwd(lambda v: of_prompt(tuned.join(v), prompt))(vector)
        shares = weights(rewards[prompt], problem.reference[prompt])
        return 2 * BETA**2 * slopes.T @ (shares.sum(1)[:, None] * slopes - shares @ slopes)

    return jax.lax.map(of, jnp.arange(PROMPTS)).mean(0)


def root(values, vectors):
    """The root of the inverse of the information, and along how many directions there is any."""
    known = values > 1e-6 * values[-1]  # the rest is noise of float32: directions that no law depends on
    return vectors * jnp.where(known, jnp.where(known, values, 1.0) ** -0.5, 0.0), known


def expected(tuned, vector, problem):
    """The total variation that the theory predicts from N comparisons, times the root of N. And what can be known."""
    values, vectors = jnp.linalg.eigh(information(tuned, vector, problem, problem.reward))
    scaled, known = root(values, vectors)

    def spread(prompt):
        slopes = jax.jacfwd(lambda v: of_prompt(tuned.join(v), prompt))(vector)
        return jnp.linalg.norm(slopes @ scaled, axis=1)

    found = error(jax.lax.map(spread, jnp.arange(PROMPTS)), problem.optimum)
    return found, int(known.sum()), float(values[-1] / values[known].min())


def scoring(tuned, problem):
    """`step(vector, pairs) -> (vector, left)`, by natural gradient, and twice what it gained in the likelihood."""

    @jax.jit
    def step(vector, pairs):
        slope = jax.grad(lambda v: loss(tuned.join(v), problem, pairs))(vector)
        implied = BETA * (law(tuned.join(vector)) - problem.reference)
        scaled, _ = root(*jnp.linalg.eigh(information(tuned, vector, problem, implied)))
        move = scaled.T @ slope
        return vector - scaled @ move, pairs[..., 0].size * move @ move

    return step


def expressible(width, sizes, repeats, rounds, seed):
    """DPO to the end on N comparisons of a reward that other embeddings explain exactly."""
    reference_key, move_key, data_key = jax.random.split(jax.random.key(seed), 3)
    start = LanguageModel(
        TOKENS + PROMPTS, LENGTH, width, 2, 1, unroll=1, key=reference_key, initialisation=normal(0.3)
    )
    tuned = embeddings(start)
    answer = tuned.vector + 0.1 * jax.random.normal(move_key, tuned.vector.shape)
    reference = jax.jit(law)(start)
    problem = Problem(BETA * (jax.jit(law)(tuned.join(answer)) - reference), reference)
    far = total_variation(jnp.exp(reference), problem.optimum)
    print(f"the reference is {float(far.mean()):.3f} from the optimum, in total variation over {PROMPTS} prompts")
    unit, known, condition = expected(tuned, answer, problem)
    print(
        f"{known} of {answer.size} parameters matter; the information on them differs by a factor of {condition:,.0f}"
    )
    step = scoring(tuned, problem)
    draw = jax.jit(compare, static_argnums=1)
    found = np.zeros((repeats, len(sizes)))
    for i, each in enumerate(sizes):
        began, n = time.perf_counter(), each * PROMPTS
        for j in range(repeats):
            pairs, vector = draw(problem, each, jax.random.fold_in(data_key, j)), tuned.vector
            for _ in range(rounds):
                vector, left = step(vector, pairs)
            policy = jnp.exp(jax.jit(law)(tuned.join(vector)))
            found[j, i] = float(jnp.mean(total_variation(policy, problem.optimum)))
        print(
            f"{n:13,} comparisons: {found[:, i].mean():.4f}, predicted {unit / n**0.5:.4f}; "
            f"the last step gained {float(left):.2g}, {time.perf_counter() - began:.0f} s",
            flush=True,
        )
    slopes = np.polyfit(np.log(sizes), np.log(found).T, 1)[0]
    wide = f" ± {2 * slopes.std(ddof=1) / repeats**0.5:.3f}" if repeats > 1 else ""
    print(f"slope in the number of comparisons {slopes.mean():.3f}{wide}, by the theory -0.5")
    return found


# --- any reward -----------------------------------------------------------------------------------------------------


def random_reward(key):
    """Of standard deviation 1: a term for each token at its place after the prompt, and one for each two neighbours."""
    single, double = jax.random.split(key)
    places = 0.4 * jax.random.normal(single, (PROMPTS, LENGTH, TOKENS))
    pairs = 0.35 * jax.random.normal(double, (TOKENS, TOKENS))
    return places[:, np.arange(LENGTH), ANSWERS].sum(-1) + pairs[ANSWERS[:, :-1], ANSWERS[:, 1:]].sum(-1)


def of_table(problem):
    """The total variation of a table with a reward of its own for every answer: over sqrt(N), from N."""
    told = jax.lax.map(lambda of: weights(*of).sum(1), (problem.reward, problem.reference))
    return error((PROMPTS / (2 * BETA**2 * told)) ** 0.5, problem.optimum)


def in_one_pass(each):
    return BatchLoss(lambda model, problem, *, key: loss(model, problem, compare(problem, each, key)))


def unrestricted(width, depth, steps, sizes, seed):
    """One pass of Adam over new comparisons; more of them are larger batches in as many steps."""
    reference_key, reward_key, train_key = jax.random.split(jax.random.key(seed), 3)
    start = LanguageModel(
        TOKENS + PROMPTS, LENGTH, width, 2, depth, unroll=depth, key=reference_key, initialisation=normal(0.1)
    )
    problem = Problem(random_reward(reward_key), jax.jit(law)(start))
    far = total_variation(jnp.exp(problem.reference), problem.optimum)
    print(f"the reference is {float(far.mean()):.3f} from the optimum")
    optimiser, table = optax.adam(optax.warmup_cosine_decay_schedule(0.0, 1e-3, steps // 20, steps)), of_table(problem)
    found = []
    for each in sizes:
        began, n = time.perf_counter(), each * PROMPTS * steps
        run = train(start, in_one_pass(each), problem, optimiser, steps=steps, key=train_key)
        distance = np.asarray(total_variation(jnp.exp(jax.jit(law)(run.network)), problem.optimum))
        found.append(distance.mean())
        print(
            f"{n:13,} comparisons: {distance.mean():.4f} (largest {distance.max():.4f}), a table {table / n**0.5:.4f}, "
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )
    slope = np.polyfit(np.log(sizes), np.log(found), 1)[0]
    print(f"slope in the number of comparisons {slope:.3f}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few comparisons and steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=("expressible", "any"), help="one of the two rewards")
    args = parser.parse_args()
    if args.only != "any":
        print("A reward that the network can express, its embeddings trained to the end:")
        shape = (4, (100, 400), 1, 1) if args.quick else (16, (16_000, 64_000, 256_000, 1_024_000), 4, 10)
        with jax.default_matmul_precision("highest"):  # flat directions are lost in the precision of a GPU's default
            expressible(*shape, args.seed)
    if args.only != "expressible":
        print("Any reward, all parameters of a larger network, one pass:")
        shape = (16, 1, 20, (4, 16)) if args.quick else (128, 2, 4000, (4, 16, 64, 256, 1024, 4096))
        unrestricted(*shape, args.seed)
