"""The figures of the texts, on digits and networks of our own: small perturbations, and random ones of their size."""

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.data import digits
from corollary.evidence import Count, at_least, at_most, claim, monotone, picture
from corollary.nets import MLP, relu, train
from corollary.robustness import Ball, fgsm, pgd


@claim(rows=("B12.07", "T18.01"))
def small_perturbations(key, *, steps: Count = 150):
    r"""A perturbation of a tenth of the range changes the class of most digits, random signs of that size hardly any.

    The texts show a panda and a pig, ImageNet and two large networks; here the statements about them are measured on
    networks with 64 units and 8 by 8 digits, 900 to train on and 400 others. The accuracy under sign steps of size
    $\epsilon$ falls with $\epsilon$, at least five times as far as under random signs of the same size; with
    $\|\delta\|_\infty\le0.1$ of the range of a pixel, projected ascent changes the class of most digits that were
    right.
    """
    x, y = digits()
    order_key, net_key, sign_key = jax.random.split(key, 3)
    order = jax.random.permutation(order_key, x.shape[0])
    x, y = jnp.asarray(x)[order], jnp.asarray(y)[order]
    sizes = np.array([0.0, 2 / 255, 4 / 255, 8 / 255, 0.05, 0.075, 0.1])

    @jax.jit
    def measure(net_key, sign_key, x, y):
        begin = MLP((64, 64, 10), relu, key=net_key, initialisation=jax.nn.initializers.he_normal())
        network = train(begin, "cross_entropy", (x[:900], y[:900]), optax.adam(5e-3), steps=steps).network
        test = x[900:1300], y[900:1300]
        stepped = jax.vmap(lambda r: 1 - fgsm(network, "cross_entropy", test, Ball(np.inf, r, 0.0, 1.0)).success.mean())
        signs = jax.random.rademacher(sign_key, test[0].shape, test[0].dtype)
        noisy = jax.vmap(lambda r: jnp.clip(test[0] + r * signs, 0, 1))(sizes)
        random = jnp.mean(jnp.argmax(jax.vmap(jax.vmap(network))(noisy), -1) == test[1], 1)
        made = pgd(network, "cross_entropy", test, Ball(np.inf, 0.1, 0.0, 1.0))
        right = jnp.argmax(jax.vmap(network)(test[0]), 1) == test[1]
        changed = jnp.sum(made.success & right) / jnp.sum(right)
        one = jnp.argmax(made.success & right)
        return stepped(sizes), random, changed, (test[0][one], made.inputs[one], made.distance.max())

    stepped, random, changed, (before, after, farthest) = jax.tree.map(np.asarray, measure(net_key, sign_key, x, y))
    yield picture("a digit, its perturbation ten times enlarged, and the digit perturbed", _strip(before, after))
    # one example in 400 may be lucky
    yield monotone("accuracy under the sign step", stepped, "decreasing", atol=0.0051, x=sizes, along="ε")
    yield at_least(
        "accuracy lost to the sign step, five times that to random signs",
        stepped[0] - stepped[-1],
        5 * abs(random[0] - random[-1]),
    )
    yield at_most("size of the perturbations", farthest, 0.1)
    yield at_least("share of digits changed within a tenth of the range", changed, 0.5)


def _strip(before, after):
    """Three images side by side; grey is no change."""
    images = (("digit", before), ("ten times the change", 0.5 + 10 * (after - before) / 2), ("perturbed", after))
    rows = [
        {"image": name, "row": i // 8, "column": i % 8, "value": float(v)}
        for name, image in images
        for i, v in enumerate(np.asarray(image))
    ]
    square = (
        alt.Chart(alt.Data(values=rows))
        .mark_rect()
        .encode(
            x=alt.X("column:O", axis=None),
            y=alt.Y("row:O", axis=None),
            color=alt.Color("value:Q", scale=alt.Scale(scheme="greys", domain=[0, 1]), legend=None),
            column=alt.Column("image:N", sort=[name for name, _ in images], title=None),
        )
    )
    return square.properties(width=120, height=120)
