"""Searching for the most probable sequence, and drawing sequences at random."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Count, Range, at_least, at_most, claim, control, equal, estimate
from corollary.language import (
    ConditionalTable,
    MarkovChain,
    beam_search,
    exhaustive_search,
    greedy_search,
    sample_sequence,
    table_beam_search,
    top_k_filter,
    top_p_filter,
)


class _Counted(dict):
    """Probabilities that count how many of them were looked at."""

    def __init__(self, law, seen):
        super().__init__(law)
        self.seen = seen

    def items(self):
        self.seen[0] += len(self)
        return super().items()


@claim(rows=("B10.51",))
def search_costs(key, *, k: Annotated[int, Range(2, 4)] = 3, length: Annotated[int, Range(5, 8)] = 7):
    r"""Exhaustive, greedy and beam search look at K^N, NK and at most NBK probabilities.

    With $K$ tokens and $N$ steps there are $K^N$ sequences. Greedy search evaluates $K$ candidates in each step, $NK$
    in all. Beam search of width $B$ has $\min(B,K^{n-1})$ hypotheses before step $n$ and evaluates
    $$\sum_{n=1}^N\min(B,K^{n-1})K\le NBK$$
    candidates. Without pruning that sum is $\frac{K(K^N-1)}{K-1}$, which no multiple of $N$ bounds.
    """
    initial, *rows = np.asarray(jax.random.dirichlet(key, jnp.ones(k), (k + 1,))).tolist()
    seen = [0]
    first = _Counted(dict(enumerate(initial)), seen)
    after = {i: _Counted(dict(enumerate(row)), seen) for i, row in enumerate(rows)}

    def cost(width, steps):
        seen[0] = 0
        return len(table_beam_search(first, after, width, steps)), seen[0]

    n, widths = np.arange(1, length + 1), (1, 2, k, 2 * k)
    found = np.array([[cost(b, int(s))[1] for s in n] for b in widths])
    formula = np.array([[sum(min(b, k ** (i - 1)) * k for i in range(1, s + 1)) for s in n] for b in widths])
    leaves, all_of_them = np.array([cost(k**length, int(s)) for s in n]).T
    yield equal("sequences of exhaustive search", leaves, float(k) ** n, rtol=0, atol=0, x=n, along="length")
    yield equal("evaluations of greedy search", found[0], n * k, rtol=0, atol=0, x=n, along="length")
    yield equal("evaluations of beam search, four widths", found, formula, rtol=0, atol=0, x=n, along="length")
    yield at_most(
        "evaluations of beam search, at most NBK", found, np.outer(widths, n) * k, rtol=0, x=n, along="length"
    )
    predicted = k * (float(k) ** n - 1) / (k - 1)
    yield equal("evaluations without pruning", all_of_them, predicted, rtol=0, atol=0, x=n, along="length")
    yield control(
        "the beam is pruned to its width: here not",
        at_most("evaluations", all_of_them, 2 * n * k, rtol=0, x=n, along="length"),
    )

    class Watched(MarkovChain):
        """Counts every evaluation of a row of probabilities, inside compiled loops too."""

        def step(self, token, cache):
            jax.debug.callback(lambda t: seen.__setitem__(0, seen[0] + k * np.size(t)), token)
            return super().step(token, cache)

    chain = Watched(jnp.asarray(initial), jnp.asarray(rows))
    seen[0] = 0
    jax.block_until_ready([greedy_search(chain, [0], length), beam_search(chain, [0], length, k + 1)])
    jax.effects_barrier()
    both = length * k + k + k * k + (length - 2) * (k + 1) * k
    yield equal("evaluations of the compiled searches, widths 1 and K+1 together", seen[0], both, rtol=0, atol=0)


@claim(rows=("B10.47", "B10.48", "B10.49", "B10.50", "T15.01", "T15.15", "T15.18"))
def beam_between_greedy_and_exhaustive(key, *, trees: Count = 200):
    r"""Beam search goes from greedy to exhaustive search, and more width can find less.

    Let $V_B$ be the probability of the best sequence of $N$ tokens that beam search of width $B$ finds among $K^N$.
    Then $V_1$ is greedy search's, $V_B\le V_{\max}$ for all $B$, and $V_B=V_{\max}$ for $B\ge K^{N-1}$. It is not
    monotone in between: in a tree where A (.40) has three equal continuations that are certain to go on, and B (.35)
    has two of .45 that then split evenly in three, width 1 finds $.4/3$ and width 2 only $.35\cdot.45/3$. In the
    text's example (A .40, B .35, C .25; A1 .50 and A2 .20 after A, B1 .80 after B) greedy search finds (A, A1) with
    probability .20 and width 2 finds (B, B1) with .28. The probabilities of all sequences sum to 1.
    """
    k, length = 3, 3
    # the tree of the statement, by rows: the start; after A, B, C; after AA, AB, ...
    even = [1 / 3, 1 / 3, 1 / 3]
    worse = [[0.40, 0.35, 0.25], even, [0.45, 0.45, 0.10], even, *[[1.0, 0.0, 0.0]] * 3, *[even] * 6]

    @jax.jit
    def measure(key, worse):
        def one(p):
            tree = ConditionalTable(p)
            everything, greedy = exhaustive_search(tree, [0], length), greedy_search(tree, [0], length)
            beams = [beam_search(tree, [0], length, b) for b in (1, 2, k ** (length - 1))]
            values = jnp.stack([b.log_probability[0] for b in beams])
            return jnp.exp(everything.log_probability), greedy.tokens, beams[0].tokens[0], jnp.exp(values)

        random = jax.random.dirichlet(key, jnp.ones(k), (trees, len(worse)))
        return jax.vmap(one)(jnp.concatenate([random, worse[None]]))

    everything, greedy, narrow, values = measure(key, jnp.asarray(worse))
    best, found = everything[:, 0], values[-1]
    # products of a few probabilities: a few roundings each
    yield equal("sum over all sequences", everything.sum(1), 1.0, rtol=1e-12, along="tree")
    yield equal("width 1 finds the tokens of greedy search", narrow, greedy, rtol=0, atol=0)
    yield equal("width K^(N-1) finds the best", values[:, 2], best, rtol=1e-12, along="tree")
    yield at_most("width 2 finds at most the best", values[:, 1], best, along="tree")
    yield control("the width is K^(N-1): here 1", equal("width 1", values[:, 0], best, rtol=1e-12, along="tree"))
    yield equal("a tree where width 2 is worse", found, [0.4 / 3, 0.35 * 0.45 / 3, 0.4 / 3], rtol=1e-12)

    initial, after = {"A": 0.40, "B": 0.35, "C": 0.25}, {"A": {"A1": 0.50, "A2": 0.20}, "B": {"B1": 0.80}}
    (top, p), (second, q) = table_beam_search(initial, after, 2, 2)
    yield equal("the text's example by its listing", [p, q], [0.28, 0.20], rtol=1e-12)
    names = ["A", "B", "C", "A1", "A2", "B1", "other"]  # what the text leaves out, as one more token
    transition = np.eye(7)[[6] * 7]
    for token, law in after.items():
        row = [law.get(name, 0.0) for name in names]
        transition[names.index(token)] = [*row[:-1], 1 - sum(row)]
    chain = MarkovChain([0.40, 0.35, 0.25, 0, 0, 0, 0], transition)
    wide, thin = beam_search(chain, [0], 2, 2), table_beam_search(initial, after, 1, 2)
    yield equal("the text's example by the compiled search", np.exp(wide.log_probability), [0.28, 0.20], rtol=1e-12)
    yield equal("and by greedy search", thin[0][1], 0.20, rtol=1e-12)
    spelled = [[names.index(t) for t in s] for s in (top, second)]
    yield equal("sequences (B, B1) and (A, A1)", [spelled, wide.tokens], [[[1, 5], [0, 3]]] * 2, rtol=0, atol=0)


@claim(rows=("B10.52", "B10.53", "B10.54", "B10.55", "T15.14", "T15.16", "T15.17"))
def truncated_sampling(
    key,
    *,
    vocabulary: Annotated[int, Range(40, 1000)] = 50,
    k: Annotated[int, Range(2, 20)] = 10,
    mass: Annotated[float, Range(0.7, 0.99)] = 0.9,
    laws: Annotated[int, Range(100, 10_000)] = 400,
    draws: Annotated[int, Range(2000, 1_000_000)] = 5000,
):
    r"""Top-k keeps a number of tokens and top-p a probability, and what is drawn follows the truncated law.

    Top-$k$ sampling keeps exactly the $k$ most probable tokens; the probability that it keeps varies with the law.
    Top-$p$ sampling keeps the smallest set of tokens that has the probability $p$: without its least likely member it
    has less, and the logarithm of its size grows with the entropy of the law (here softmax of normal logits at
    temperatures from 0.1 to 5). A sequence drawn token by token, each from the truncated law $q$ given those before
    it, has the probability $\prod_nq(y_n\mid y_{1:n-1})$.
    """
    depth, tokens = 3, 4

    @jax.jit
    def measure(key):
        law_key, temperature_key, tree_key, draw_key = jax.random.split(key, 4)
        temperatures = jnp.exp(jax.random.uniform(temperature_key, (laws, 1), minval=jnp.log(0.1), maxval=jnp.log(5.0)))
        p = jax.nn.softmax(jax.random.normal(law_key, (laws, vocabulary)) / temperatures)
        entropy = jax.scipy.special.entr(p).sum(-1)
        kept = [top_k_filter(p, k) > 0, top_p_filter(p, mass) > 0]
        sizes = [jnp.sum(s, -1) for s in kept]
        sums = [jnp.sum(jnp.where(s, p, 0.0), -1) for s in kept]
        least = jnp.min(jnp.where(kept[1], p, 1.0), -1)
        dropped = jnp.max(jnp.where(kept[1], 0.0, p), -1)

        tree = ConditionalTable.random(tokens, depth, key=tree_key)
        filtered = [tree.p, top_p_filter(tree.p, 0.6), top_k_filter(tree.p, 2)]

        def law(table):  # of all sequences, one by one
            node, p = jnp.zeros(tokens**depth, int), jnp.ones(tokens**depth)
            for t in np.indices((tokens,) * depth).reshape(depth, -1):
                p, node = p * table[node, t], tokens * node + 1 + t
            return p

        laws_of_sequences = jax.vmap(law)(jnp.stack(filtered))
        surprises = -laws_of_sequences @ jnp.log(laws_of_sequences[0])

        def drawn(**options):
            keys = jax.random.split(draw_key, draws)
            return jax.vmap(lambda key: -sample_sequence(tree, [0], depth, key=key, **options).log_probability)(keys)

        samples = [*jax.vmap(lambda p: drawn(top_p=p))(jnp.array([1.0, 0.6])), drawn(top_k=2)]
        return entropy, sizes, sums, least, dropped, surprises, samples

    entropy, sizes, sums, least, dropped, exact, drawn = measure(key)
    yield equal("tokens that top-k keeps", sizes[0], float(k), rtol=0, atol=0, along="law")
    yield at_least("mass that top-p keeps", sums[1], mass, along="law")
    yield at_most("mass without its least likely token", sums[1] - least, mass, rtol=1e-12, along="law")
    yield at_least("least likely token kept against the likeliest dropped", least, dropped, along="law")
    together = np.corrcoef(np.log(np.asarray(sizes[1], float)), np.asarray(entropy))[0, 1]
    yield at_least("correlation of the log of the number kept by top-p with the entropy", together, 0.9)
    yield control("tokens are kept by mass: here by number", at_least("mass kept", sums[0], mass, along="law"))
    names = ("all tokens", "top-p", "top-k")
    for name, value, samples, wrong in zip(names, exact, drawn, (exact[2], exact[0], exact[0]), strict=True):
        yield estimate(f"surprise of sequences drawn from {name}", samples, value, wrong=wrong)
