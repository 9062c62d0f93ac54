"""Cloze questions against brute force over all of them, and where laws are zero."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import entropy

from corollary.language import ClozeQuestion, cloze_question

RNG = np.random.default_rng(0)
P, Q = RNG.dirichlet(np.ones(6), (2, 7))


def test_two_choices_are_the_farthest_of_all_questions():
    found = cloze_question(P, Q)
    sets = np.array(list(itertools.product([0, 1], repeat=6)))
    np.testing.assert_allclose(found.disagreement, ((P - Q) @ sets.T).max(1), atol=1e-15)
    np.testing.assert_array_equal(found.options == 0, P > Q)
    np.testing.assert_allclose(found.human[:, 0], np.where(P > Q, P, 0).sum(1), rtol=1e-14)
    np.testing.assert_allclose(found.excess, [entropy(h, m) for h, m in zip(found.human, found.model, strict=True)])


def test_more_choices_cut_further_and_keep_the_laws():
    ratio = np.log(P / Q)
    for choices in (4, 8):
        found = jax.jit(cloze_question, static_argnames="choices")(P, Q, choices=choices)
        for law, held in ((P, found.human), (Q, found.model)):
            sums = [np.bincount(o, w, choices) for o, w in zip(np.asarray(found.options), law, strict=True)]
            np.testing.assert_allclose(held, sums, rtol=1e-13)
        for row, options in zip(ratio, np.asarray(found.options), strict=True):
            assert (np.diff(options[np.argsort(-row)]) >= 0).all()  # options go down with the ratio
            for side, most in ((options < choices // 2, row.max()), (options >= choices // 2, -row.min())):
                for option in np.unique(options[side]):
                    assert np.ptp(row[options == option]) <= most / (choices // 2) + 1e-12


def test_winograd():
    question = ClozeQuestion(jnp.arange(2), jnp.array([1.0, 0.0]), jnp.array([0.5, 0.5]))
    np.testing.assert_allclose([question.loss, question.excess], np.log(2))
    assert question.entropy == 0
    solved = question._replace(model=jnp.array([1.0, 0.0]))
    assert solved.loss == solved.excess == solved.disagreement == 0


def test_laws_with_zeros():
    found = cloze_question([0.5, 0.5, 0.0, 0.0], [0.5, 0.0, 0.5, 0.0], 4)
    assert found.options.tolist() == [2, 0, 3, 2]
    assert found.disagreement == 0.5
    assert np.isinf(found.excess)
    assert cloze_question(P[0], P[0]).disagreement == 0


def test_sentences():
    with pytest.raises(ValueError, match="human must sum to 1"):
        cloze_question([0.5, 0.4], [0.5, 0.5])
    with pytest.raises(ValueError, match="choices must be even"):
        cloze_question(P, Q, 3)
    with pytest.raises(ValueError, match="model must have shape"):
        cloze_question([0.5, 0.5], [0.2, 0.3, 0.5])
