r"""Sequences: those of text M, and those whose answer lies far back, which recurrent networks are asked to remember.

Both tasks of memory have a network without memory to compare with: it can do no better than `adding_baseline` and
`copy_baseline` say.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray

from corollary._types import Scalar
from corollary._validate import positive, real, whole, within
from corollary.catalog import implements
from corollary.data._types import Data

__all__ = [
    "adding_baseline",
    "adding_problem",
    "book_sequence_table",
    "copy_baseline",
    "copy_problem",
    "plant_series",
]


@implements("M13.01")
def book_sequence_table() -> Data:
    """Table 13.1 as printed: inputs and outputs of five steps, each (5,)."""
    return Data(jnp.array([1.025, 0.893, 1.068, 1.035, 1.028]), jnp.array([-0.041, -0.033, -0.029, -0.026, -0.024]))


@implements("M13.01")
def plant_series(
    length: int, *, key: PRNGKeyArray, memory: Scalar = 0.9, noise: Scalar = 0.07, start: Scalar = -0.05
) -> Data:
    r"""A longer series of the look of Table 13.1: inputs near 1, and outputs that follow them slowly.

    $X_t=1+$ `noise` $\xi_t$ with normal $\xi$; the hidden $Z_t=\rho Z_{t-1}+(1-\rho)(X_t-1)$, with $\rho=$ `memory`,
    begins at `start`, and $Y_t=\tanh(Z_t)$. The series behind the table itself is not printed. Both are (length,).
    """
    memory = within("memory", real("memory", memory, ""), 0.0, 1.0)
    noise, start = positive("noise", real("noise", noise, "")), real("start", start, "")
    pull = noise * jax.random.normal(key, (whole("length", length),))

    def advance(z, pull):
        z = memory * z + (1 - memory) * pull
        return z, z

    states = jax.lax.scan(advance, start.astype(jnp.result_type(pull, memory, start)), pull)[1]
    return Data(1 + pull, jnp.tanh(states))


def adding_problem(n: int, length: int, *, key: PRNGKeyArray) -> Data:
    r"""`n` sequences of `length` pairs (number, mark): the answer is the sum of the two marked numbers.

    The numbers are uniform on $[0,1]$; one mark is in the first half and one in the second, each uniformly placed.
    `x` is (n, length, 2), `y` is (n,) in $[0,2]$.

    >>> adding_problem(2, 5, key=key).x.shape
    (2, 5, 2)
    """
    n, length = whole("n", n), whole("length", length, 2)
    numbers_key, first_key, second_key = jax.random.split(key, 3)
    numbers = jax.random.uniform(numbers_key, (n, length))
    half, time = length // 2, jnp.arange(length)
    first = jax.random.randint(first_key, (n, 1), 0, half)
    second = jax.random.randint(second_key, (n, 1), half, length)
    marks = ((time == first) | (time == second)).astype(numbers.dtype)
    return Data(jnp.stack([numbers, marks], axis=-1), jnp.sum(numbers * marks, axis=1))


def adding_baseline() -> float:
    r"""The least mean squared error of a constant, 1: the variance $\frac16$ of a sum of two uniform numbers."""
    return 1 / 6


def copy_problem(n: int, length: int, symbols: int = 8, remembered: int = 10, *, key: PRNGKeyArray) -> Data:
    r"""`n` sequences of `remembered` symbols to be repeated after `length` steps.

    The alphabet is the blank 0, the symbols $1,\dots,s$ and the signal $s+1$, so `symbols + 2` tokens. Over
    `length + 2 * remembered` steps `x` shows the symbols (independent, uniform), then `length - 1` blanks, the signal,
    and blanks; `y` is blank until the signal and then repeats the symbols. Every symbol comes back after
    `length + remembered` steps. Both are integers of shape (n, length + 2 * remembered).
    """
    n, length = whole("n", n), whole("length", length)
    symbols, remembered = whole("symbols", symbols, 2), whole("remembered", remembered)
    word = jax.random.randint(key, (n, remembered), 1, symbols + 1)
    blank = jnp.zeros((n, length + remembered), word.dtype)
    return Data(
        jnp.concatenate([word, blank.at[:, length - 1].set(symbols + 1)], axis=1),
        jnp.concatenate([blank, word], axis=1),
    )


def copy_baseline(length: int, symbols: int = 8, remembered: int = 10) -> float:
    r"""The least mean cross-entropy, in nats a step, of a network that forgets the symbols but counts the steps.

    It guesses among $s$ symbols in $r$ of $T+2r$ steps: $\frac{r\ln s}{T+2r}$.
    """
    length, symbols, remembered = whole("length", length), whole("symbols", symbols, 2), whole("remembered", remembered)
    return remembered * math.log(symbols) / (length + 2 * remembered)
