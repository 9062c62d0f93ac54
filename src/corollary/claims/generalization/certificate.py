"""Certificates are redrawn end to end on laws whose risks are known, and broken by a prior that has seen the sample."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.stats import norm

from corollary.evidence import Probability, Range, at_most, claim, control, frequency_at_most
from corollary.generalization import pac_bayes
from corollary.nets import MLP, train

Certificates = Annotated[int, Range(2000, 20_000)]


def _law(key, atoms, d, flips):
    """Points that are equally likely, and the probability of the label 1 at each: that of a direction, or flipped."""
    points = jax.random.normal(key, (atoms, d)) / np.sqrt(d)
    return points, jnp.where(points[:, 0] > 0, 1 - flips, flips)


def _wrong(stochastic, points, likely):
    """The error of a stochastic linear classifier: its output at a point is normal, and wrong in one of two tails."""
    (weight,), (scale,) = (jax.tree.leaves(tree) for tree in (stochastic.mean, stochastic.scale))
    positive = norm.cdf((points @ weight[0]) / jnp.sqrt(points**2 @ scale[0] ** 2))
    return jnp.mean(positive * (1 - likely) + (1 - positive) * likely)


@claim(rows=("B09.10",), full={"certificates": 20_000})
def certificates_hold(
    key,
    *,
    certificates: Certificates = 2000,
    steps: Annotated[int, Range(20, 1000)] = 25,
    delta: Probability = 0.025,
    delta_draws: Probability = 0.01,
):
    r"""A certificate fails with probability at most δ + δ', training and counting included.

    A sample of $n$ independent examples trains a linear network from a random start; `pac_bayes` trains a normal
    posterior, chooses the prior's variance, counts the errors of fresh networks and adds all of it up. The risk of the
    stochastic network on the law, a sum over its points, is above the certificate with probability at most
    $\delta+\delta'$, if the centre of the prior does not depend on the sample.
    """

    def one(key, law, n, fitted):
        points, likely = law
        sample_key, label_key, start_key, train_key = jax.random.split(key, 4)
        rows = jax.random.randint(sample_key, (n,), 0, len(points))
        data = points[rows], jax.random.bernoulli(label_key, likely[rows]).astype(int)
        start = MLP((points.shape[1], 1), bias=False, key=start_key)
        network = train(start, "cross_entropy", data, optax.adam(0.05), steps=steps).network
        initial = start
        if fitted:  # the centre of the prior has seen the sample, and the network is trained a little further
            initial, network = network, train(network, "cross_entropy", data, optax.sgd(0.01), steps=1).network
        made = pac_bayes(
            network,
            "cross_entropy",
            data,
            initial=initial,
            delta=delta,
            delta_draws=delta_draws,
            steps=steps,
            draws=2,
            batch_size=25,
            key=train_key,
        )
        return made.value, _wrong(made.posterior, points, likely)

    @jax.jit
    def measure(key):
        law_key, run_key = jax.random.split(key)
        keys = jax.random.split(run_key, certificates)

        def run(law, n, fitted):
            return jax.lax.map(lambda k: one(k, law, n, fitted), keys, batch_size=500)

        easy, hard = _law(law_key, 64, 5, 0.1), _law(law_key, 400, 100, 0.3)
        return run(easy, 100, False), run(hard, 50, False), run(hard, 50, True)

    (value, risk), (other, risk_beside), (broken, risk_there) = measure(key)
    most = delta + delta_draws
    yield frequency_at_most("risk above its certificate", np.asarray(risk > value), most)
    yield at_most("risk in the mean", np.mean(risk), np.mean(value))
    beside = np.asarray(risk_beside > other)
    yield frequency_at_most("risk above its certificate, fewer examples than dimensions", beside, most)
    yield control(
        "the prior's centre does not depend on the sample: here it is a network trained on it",
        frequency_at_most("risk above its certificate", np.asarray(risk_there > broken), most),
    )
