"""Noisy images of digits in a Hopfield network: correlated patterns, and the weights that hold them."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np

from corollary.data import digits
from corollary.evidence import Count, at_least, at_most, claim, control, equal, monotone, picture
from corollary.memory import certain_radius, crosstalk, hebbian, pseudo_inverse, random_signs, settle, unstable_units


@claim(rows=("E01.34",), full={"trials": 200})
def noisy_digits(key, *, trials: Count = 24):
    r"""Images of the ten digits are fixed points of the projection, not of the Hebbian weights.

    One image of 8 by 8 pixels of each digit, black or white by the middle grey. They are correlated, so that the
    Hebbian weights do not hold them: exactly those pixels move whose cross-talk has
    $x_{t,i}C^0_{t,i}<-\frac{n-1}n$ (a tie moves a white pixel). With $W=P-\operatorname{diag}P$, $P$ the
    projection onto their span, all are fixed points, and every image with up to $d$ wrong pixels comes back, $d$ the
    largest number with $2\sum|w_{ij}|<1-P_{ii}$ over the $d$ largest weights of each unit. Beyond that the share of
    images retrieved falls as the noise grows.
    """
    pick_key, noise_key, random_key = jax.random.split(key, 3)
    data = digits()
    order = np.asarray(jax.random.permutation(pick_key, len(data.y)))
    chosen = [order[np.argmax(np.asarray(data.y)[order] == d)] for d in range(10)]
    patterns = jnp.where(jnp.asarray(data.x)[jnp.array(chosen)] > 0.5, 1.0, -1.0)
    n = patterns.shape[1]
    others = random_signs(patterns.shape, key=random_key)
    hebb, projection = hebbian(patterns), pseudo_inverse(patterns)  # n = 64: the Hebbian weights are exact
    noise = jnp.array([0.0, 0.05, 0.1, 0.2, 0.3, 0.5])

    @jax.jit
    def measure(key, patterns, others, hebb, projection):
        """Where noisy images go, with three kinds of weights, as one batch of runs."""
        draws = jax.random.uniform(key, (len(noise), trials, 10, n))
        flips = jnp.where(draws < noise[:, None, None, None], -1.0, 1.0).reshape(-1, 10, n)
        single = jnp.broadcast_to((1 - 2 * jnp.eye(n))[:, None], (n, 10, n))
        flips = jnp.concatenate([single, flips])

        def retrieved(weights, patterns):
            def one(goal, flip):
                return (settle(weights, 0.0, goal * flip, max_sweeps=50).state == goal).all()

            return jax.vmap(lambda flip: jax.vmap(one)(patterns, flip))(flips)

        weights = jnp.stack([hebb, projection, pseudo_inverse(others)])
        found = jax.vmap(retrieved)(weights, jnp.stack([patterns, patterns, others]))
        loose = jax.vmap(lambda w: jax.vmap(lambda x: unstable_units(w, 0.0, x).sum())(patterns))(weights[:2])
        shares = found[:, n:].reshape(3, len(noise), -1).mean(-1)
        radius = jax.vmap(lambda x: certain_radius(projection, x))(patterns)
        return loose, found[1, :n], dict(zip(("Hebbian", "projection", "random"), shares, strict=True)), radius

    loose, single, share, radius = measure(noise_key, patterns, others, hebb, projection)
    margin = patterns * crosstalk(patterns) + (n - 1) / n
    predicted = ((margin < 0) | ((margin == 0) & (patterns < 0))).sum(1)
    digit = jnp.arange(10)
    yield equal("pixels that move, Hebbian weights", loose[0], predicted, rtol=0, atol=0, x=digit, along="digit")
    yield equal("pixels that move, projection", loose[1], 0, rtol=0, atol=0, x=digit, along="digit")
    yield control(
        "the weights are Hebbian, not the projection, and the images correlated",
        equal("pixels that move", loose[0], 0, rtol=0, atol=0, x=digit, along="digit"),
    )
    certain = radius >= 1
    yield equal("one wrong pixel, where it is surely repaired", single[:, certain], 1, rtol=0, atol=0)
    yield at_least("digits with a certain radius of one or more", certain.sum(), 1)
    # shares of 10 trials or more images: five standard errors of a difference of two
    slack = 5 * (0.5 / (10 * trials)) ** 0.5
    for name in ("projection", "random"):
        yield monotone(f"share retrieved, {name}", share[name], "decreasing", atol=slack, x=noise, along="noise")
    yield at_most("share retrieved: Hebbian against projection", share["Hebbian"], share["projection"] + slack)
    yield at_most("share retrieved at 50 % noise, where nothing is left of the image", share["projection"][-1], slack)
    yield _rows(noise_key, patterns, projection)


def _rows(key, patterns, weights):
    """Stored image, a noisy copy, and where the network takes it."""
    noisy = patterns * jnp.where(jax.random.uniform(key, patterns.shape) < 0.1, -1, 1)
    final = jax.vmap(lambda x: settle(weights, 0.0, x).state)(noisy)
    cells = [
        {
            "x": 9 * d + i % 8,
            "x2": 9 * d + i % 8 + 1,
            "y": -9 * row - i // 8,
            "y2": -9 * row - i // 8 - 1,
            "v": float(v),
        }
        for row, images in enumerate((patterns, noisy, final))
        for d, image in enumerate(np.asarray(images))
        for i, v in enumerate(image)
    ]
    chart = (
        alt.Chart(alt.Data(values=cells))
        .mark_rect()
        .encode(
            alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, 89], nice=False)),
            alt.X2("x2:Q"),
            alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[-26, 0], nice=False)),
            alt.Y2("y2:Q"),
            alt.Color("v:Q", legend=None, scale=alt.Scale(range=["#eef2f5", "#22313f"])),
        )
    )
    return picture("stored, with a tenth of the pixels wrong, retrieved", chart.properties(width=445, height=130))
