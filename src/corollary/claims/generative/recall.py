"""Generated examples in place of a test set."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.evidence import Size, at_least, at_most, claim, control
from corollary.generative import predicted_accuracy


@claim(rows=("T16.19",), full={"repeats": 20})
def generated_test_set(key, *, n: Size = 60, dim: Size = 10, width: Size = 60, repeats: Size = 6):
    r"""The accuracy on samples of a generator that saw only the training data predicts the accuracy on new data.

    Two normal classes in $\mathbb R^{10}$; the generator is a normal law fitted to each class of $n=60$ training
    examples. Classifiers are ridge regressions on 60 random ReLU features with 20 penalties from $10^{-8}$ to $10^4$,
    from those that interpolate to those that do nothing. Over these classifiers predicted and true accuracy have a
    correlation above 0.8 (the mean over data sets). The accuracy on the training examples themselves says nothing of
    the kind: it is highest where the true one is not.
    """
    penalties = 10.0 ** jnp.linspace(-8, 4, 20)

    def one(key):
        keys = jax.random.split(key, 6)
        mean = jax.random.normal(keys[0], (dim,))
        mean = 1.0 * mean / jnp.linalg.norm(mean)

        def examples(key, count):
            y_key, x_key = jax.random.split(key)
            y = jax.random.bernoulli(y_key, shape=(count,)).astype(int)
            return (2 * y[:, None] - 1) * mean + jax.random.normal(x_key, (count, dim)), y

        x, y = examples(keys[1], n)
        w = jax.random.normal(keys[2], (width, dim)) / jnp.sqrt(dim)
        b = jax.random.normal(keys[3], (width,))
        features = lambda x: jax.nn.relu(x @ w.T + b)  # noqa: E731
        phi = features(x)

        def solved(penalty):
            gram = phi.T @ phi + penalty * jnp.eye(width)
            return jnp.linalg.solve(gram, phi.T @ (2.0 * y - 1))

        weights = jax.lax.map(solved, penalties)
        # the generator: mean and covariance of each class, with a little of the identity
        share = jnp.stack([y == 0, y == 1], 1).astype(float)
        count = share.sum(0)
        means = share.T @ x / count[:, None]
        inner = x - means[y]
        covariance = inner.T @ inner / (n - 2)
        factor = jnp.linalg.cholesky(covariance + 1e-6 * jnp.eye(dim))

        def sample(size, *, key):
            y_key, x_key = jax.random.split(key)
            kinds = jax.random.bernoulli(y_key, count[1] / n, (size,)).astype(int)
            return means[kinds] + jax.random.normal(x_key, (size, dim)) @ factor.T, kinds

        def accuracies(v):
            classify = lambda x: jnp.array([-1.0, 1.0]) * (features(x) @ v)  # noqa: E731
            made = predicted_accuracy(classify, sample, 4000, key=keys[4]).value
            true = predicted_accuracy(classify, lambda size, *, key: examples(key, size), 4000, key=keys[5]).value
            again = predicted_accuracy(classify, lambda size, *, key: (x[:size], y[:size]), n, key=keys[5]).value
            return made, true, again

        return jax.lax.map(accuracies, weights)

    made, true, again = (np.asarray(a) for a in jax.jit(lambda k: jax.lax.map(one, jax.random.split(k, repeats)))(key))
    correlations = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(made, true, strict=True)])
    by_heart = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(again, true, strict=True)])
    # two thirds of the variance; that of 20 unrelated pairs is above 0.56 once in a hundred times
    yield at_least("correlation of predicted and true accuracy", correlations.mean(), 0.8)
    # what generator and test say differs by the fit of the generator, √(d/n) in units of the noise, on a slope of 0.4
    yield at_most("mean distance of predicted and true accuracy", np.abs(made - true).mean(), 0.4 * np.sqrt(dim / n))
    yield control(
        "examples that the classifier has not seen: here those it was trained on",
        at_least("correlation of predicted and true accuracy", by_heart.mean(), 0.8),
    )
