import jax
import numpy as np

from corollary.language import MarkovChain, exhaustive_search, sample_sequence


def test_markov_chain_by_viterbi():
    rng = np.random.default_rng(2)
    chain = MarkovChain(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4), 4))
    best = np.log(chain.initial)
    for _ in range(4):
        best = np.max(best[:, None] + np.log(chain.transition), 0)
    np.testing.assert_allclose(exhaustive_search(chain, [0], 5).log_probability[0], best.max(), rtol=1e-12)


def test_truncated_samples_have_the_filtered_law():
    p = np.array([0.4, 0.3, 0.2, 0.1])
    chain, n = MarkovChain(p, np.tile(p, (4, 1))), 20_000
    for options, law in [
        ({}, p),
        ({"temperature": 0.5}, p**2 / np.sum(p**2)),
        ({"top_k": 3, "top_p": 0.7}, np.array([4, 3, 0, 0]) / 7),  # 7/9 of the mass of three tokens
    ]:
        drawn = sample_sequence(chain, [0], n, key=jax.random.key(0), **options)
        freq = np.bincount(drawn.tokens, minlength=4) / n
        law = np.asarray(law)
        assert (np.abs(freq - law) <= 5 * np.sqrt(law * (1 - law) / n)).all()  # five standard deviations
        np.testing.assert_allclose(drawn.log_probability, np.log(p)[drawn.tokens].sum(), rtol=1e-9)
