"""What is tried out on a network before it is looked at."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary._text import first_line
from corollary.network import BatchLoss, Network
from corollary.network.apart import kind, output_of, require_apart, require_mean
from corollary.network.loss import resolved

X = np.random.default_rng(0).normal(size=(9, 3))
Y = X[:, 0]
W = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
AFFINE = Network(lambda w, x: x @ w, W)
STATISTICS = Network(lambda w, x: (x - x.mean(0)) @ w, W, batched=True)


def test_the_output_of_one_example():
    out = output_of(AFFINE, X)
    assert out.shape == (2,)
    assert out.dtype == X.dtype
    assert output_of(lambda x: x["a"] + x["b"], {"a": X, "b": X}).shape == (3,)


def test_examples_that_do_not_see_each_other_pass():
    require_apart(AFFINE, X)
    require_apart(Network(lambda w, x: jnp.tanh(x @ w), W, batched=True), X)
    jax.jit(lambda x: require_apart(STATISTICS, x) or x)(X)  # values are not known in a trace


def test_a_function_without_arrays_is_a_network():
    require_apart(lambda x: x.sum(), jnp.ones((3, 2)))
    with pytest.raises(ValueError, match="network must return finite numbers"):
        require_apart(lambda x: x.sum() / 0.0, jnp.ones((3, 2)))


def test_batch_statistics_are_noticed():
    with pytest.raises(ValueError, match="the output for an example changes with the other examples in its batch"):
        require_apart(STATISTICS, X)


def test_a_mean_over_examples_passes_and_nothing_else():
    mean = resolved("squared")
    scalar = Network(lambda w, x: x @ w, np.ones(3))
    require_mean(mean, scalar, (X, Y))
    for loss in (
        resolved("squared", "sum"),
        BatchLoss(lambda n, b: jnp.std(jax.vmap(n)(b[0]))),
    ):
        with pytest.raises(ValueError, match="loss must be the mean of its examples' losses"):
            require_mean(loss, scalar, (X, Y))
    require_mean(resolved("squared", "sum"), scalar, (X, Y), apart=False)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda: output_of(AFFINE, X[:, :2]),
            ValueError,
            r"network\(x\) failed for one example of shape \(2,\): ",
        ),
        (
            lambda: output_of(lambda x: (x, x), X),
            TypeError,
            "network must return one real floating-point array, got tup",
        ),
        (
            lambda: output_of(lambda x: x > 0, X),
            TypeError,
            r"one real floating-point array, got shape \(3,\) and dtype bo",
        ),
        (
            lambda: output_of(lambda x: x[:0], X),
            ValueError,
            r"network must return at least one number, got shape \(0,\)",
        ),
        (
            lambda: require_apart(Network(lambda w, x: jnp.log(-(w**2).sum()) * x, W), X),
            ValueError,
            "network must return finite numbers, got NaN or infinity for one of the first examples",
        ),
        (
            lambda: require_mean(BatchLoss(lambda n, b: jax.vmap(n)(b)), AFFINE, X),
            ValueError,
            r"loss must return a real number, the mean over the batch, got shape \(9, 2\)",
        ),
        (
            lambda: require_mean(BatchLoss(lambda n, b: jnp.mean(b) / 0), AFFINE, X),
            ValueError,
            "loss must be finite for this network and these data, got",
        ),
    ],
)
def test_bad_input(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()


def test_words():
    assert first_line(ValueError("\none.\ntwo")) == "ValueError: one"
    assert first_line(ValueError()) == "ValueError"
    assert len(first_line(ValueError(300 * "a"))) == len("ValueError: ") + 200
    assert kind(3) == "int"
    assert kind(eqx.filter_eval_shape(jnp.ones, 2)).startswith("shape (2,) and dtype float")
