"""Training a stochastic network for its bound: what it gains, where the noise goes, and how it depends on the width."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from scipy import stats

from corollary._charts import lines
from corollary.evidence import Range, Size, at_least, at_most, claim, control, monotone, picture
from corollary.generalization import pac_bayes, relu_vc_upper, vc
from corollary.nets import MLP, relu, tanh, train
from corollary.network import cross_entropy

DELTA, DELTA_DRAWS = 0.025, 0.01


def _sample(key, n, d, flips=0.0):
    """Points in the cube and the sign of a sum of two coordinates, some of them turned round."""
    x_key, flip_key = jax.random.split(key)
    x = jax.random.uniform(x_key, (n, d), minval=-1.0)
    return x, (x[:, 0] + x[:, 1] > 0) ^ jax.random.bernoulli(flip_key, flips, (n,))


def _certified(key, sizes, activation, data, steps, pretrained=200):
    start_key, key = jax.random.split(key)
    initial = MLP(sizes, activation, key=start_key)
    network = train(initial, "cross_entropy", data, optax.adam(0.01), steps=pretrained).network
    options = {"delta": DELTA, "delta_draws": DELTA_DRAWS, "draws": 5, "batch_size": 100}
    return pac_bayes(network, "cross_entropy", data, initial=initial, steps=steps, key=key, **options)


@claim(rows=("B09.10",))
def recipe(
    key,
    *,
    n: Annotated[int, Range(500, 10_000)] = 1000,
    d: Annotated[int, Range(2, 50)] = 6,
    width: Size = 12,
    steps: Annotated[int, Range(50, 10_000)] = 300,
):
    r"""Training all means and variances for the bound lowers it, and puts the noise where the loss is flat.

    The prior is normal around the initialisation, the posterior normal around the trained weights with a variance for
    each. Descending the bound (a loss in the place of the error) from there lowers it, below one half, what a coin
    gets, and not for labels that are coins. It stays above the error of the stochastic network on new examples. A
    weight has the more noise the less the training loss bends along it: their ranks are opposed.
    """

    @jax.jit
    def measure(key):
        data_key, coin_key, new_key, run_key = jax.random.split(key, 4)
        x, y = _sample(data_key, n, d)
        labels = jnp.stack([y, jax.random.bernoulli(coin_key, 0.5, (n,))]).astype(int)

        def one(y, steps):
            return _certified(run_key, (d, width, 1), tanh, (x, y), steps)

        def parts(y):
            made = one(y, steps)
            new, wanted = _sample(new_key, 4000, d)
            error = made.posterior.errors((new, wanted.astype(int)), draws=1, key=new_key) / 4000
            means, back = ravel_pytree(made.posterior.mean)
            loss = lambda w: jnp.mean(jax.vmap(lambda a, b: cross_entropy(back(w)(a), b))(x, y))  # noqa: E731
            return made.value, error, ravel_pytree(made.posterior.scale)[0], jnp.diag(jax.hessian(loss)(means))

        return jax.lax.map(parts, labels), one(labels[0], 1).value

    (values, errors, scales, bends), start = (jax.tree.map(np.asarray, part) for part in measure(key))
    yield at_most("bound after training and before", values[0], start)
    yield at_most("error on new examples and bound", errors[0], values[0])
    yield at_most("bound after training", values[0], 0.5)
    yield control("labels that depend on the inputs: here coins", at_most("bound after training", values[1], 0.5))
    # for ranks without relation the coefficient has the standard deviation 1/√(p - 1): five of them
    opposed = -stats.spearmanr(scales[0], bends[0]).statistic
    yield at_least("noise and flatness, correlation of ranks", opposed, 5 / np.sqrt(len(scales[0]) - 1))


@claim(rows=("B09.09",))
def widths(
    key,
    *,
    n: Annotated[int, Range(500, 10_000)] = 1000,
    d: Annotated[int, Range(2, 50)] = 6,
    steps: Annotated[int, Range(50, 10_000)] = 500,
):
    r"""The VC bound grows with the width of a network and says nothing, PAC-Bayes says something at all widths.

    On $n$ fixed examples, networks of one hidden layer of width 8, 64 and 256 are trained from random weights. The
    upper bound $h$ on their VC dimension counts parameters, and the bound that follows, with $h(\ln(2n)+1)$ for the
    logarithm of the growth function, is above 1 and grows with the width. The certificate of each is below one half,
    what a coin gets, but not for labels that are coins, and the largest of them is fewer times the least than among the
    VC bounds.
    """
    sizes = (8, 64, 256)

    @jax.jit
    def measure(key):
        data_key, run_key = jax.random.split(key)
        x, y = _sample(data_key, n, d)
        coins = jax.random.bernoulli(data_key, 0.5, (n,))
        one = lambda width, y: _certified(run_key, (d, width, 1), relu, (x, y.astype(int)), steps, 100).value  # noqa: E731
        return jnp.stack([one(width, y) for width in sizes]), one(sizes[0], coins)

    values, guessed = map(np.asarray, measure(key))
    dims = [relu_vc_upper((d, width, 1)) for width in sizes]
    classical = np.array([float(vc(n, DELTA + DELTA_DRAWS, dimension=h, form="printed").value) for h in dims])
    yield at_least("VC bound", classical, 1.0, x=sizes, along="width")
    yield monotone("VC bound", classical, strict=True, x=sizes, along="width")
    yield at_most("certificate", values, 0.5, x=sizes, along="width")
    growth = classical.max() / classical.min()
    yield at_most("largest certificate over the least, against VC bounds", values.max() / values.min(), growth)
    yield control("labels that depend on the inputs: here coins", at_most("certificate", guessed, 0.5))
    names = {"VC": classical, "PAC-Bayes": values}
    rows = [
        {"width": w, "bound": float(b), "by": name}
        for name, bs in names.items()
        for w, b in zip(sizes, bs, strict=True)
    ]
    yield picture("bounds with the width", lines(rows, "width", "bound", colour="by").properties(width=300, height=190))
