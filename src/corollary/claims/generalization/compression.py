"""Compressed networks: what their margins say, and bounds that pay for everything that was chosen."""

from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims._drawn import drawn
from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, frequency_at_most, printed
from corollary.generalization import (
    compression_bound,
    compression_error,
    only_kept,
    prune,
    quantise,
    truncate,
)
from corollary.generalization.compression import on_grid
from corollary.nets import MLP, relu

DELTA = 0.05


def _margins(outputs, y):
    """The right output less the largest other, by NumPy."""
    outputs, y = np.asarray(outputs), np.asarray(y)
    right = np.take_along_axis(outputs, y[..., None], -1)[..., 0]
    others = np.where(np.arange(outputs.shape[-1]) == y[..., None], -np.inf, outputs)
    return right - others.max(-1)


def _against_the_label(outputs, y, gamma):
    """Outputs moved by γ each, so as to hurt most: the right one down, all others up."""
    right = np.arange(outputs.shape[-1]) == np.asarray(y)[..., None]
    return np.asarray(outputs) + gamma * np.where(right, -1.0, 1.0)


@claim(rows=("T05.24", "T05.26"))
def margin_of_a_compressed_network(key, *, n: Annotated[int, Range(20, 1000)] = 200, classes: Size = 4):
    r"""A network that is within γ errs at most where the margin of the original is 2γ or less.

    If $|f(x)[j]-g(x)[j]|\le\gamma$ for all outputs $j$ on a sample, then on that sample the share $\hat L_0(g)$ of
    errors, ties among them, is at most the share $\hat L_{2\gamma}(f)$ of margins up to $2\gamma$. Here $g$ is a
    network pruned to a half, rounded to a few levels, and of low rank, with the $\gamma$ that was measured; and the
    outputs moved by $\gamma$ so as to hurt most, for which both shares are the same. Moved by $2\gamma$, they err more
    often.
    """
    net_key, x_key, y_key = jax.random.split(key, 3)
    network = drawn(lambda k: MLP((6, 20, classes), relu, key=k), net_key)
    x = jax.random.normal(x_key, (n, 6))
    outputs = np.asarray(jax.vmap(network)(x))
    # labels of the network itself with some noise, so that margins lie on both sides of 0
    y = np.argmax(outputs + np.asarray(jax.random.normal(y_key, outputs.shape)), 1)
    size = prune(network, 1).kept
    half = sum(leaf.size for leaf in jax.tree.leaves(size)) // 2
    smaller = [
        prune(network, half),
        *(quantise(network, levels) for levels in (4, 16, 64)),
        truncate(network, 0.1, (x, y)),
    ]
    gammas = np.array([float(compression_error(network, c.network, x)) for c in smaller])
    errors = [np.mean(_margins(jax.vmap(c.network)(x), y) <= 0) for c in smaller]
    margins = _margins(outputs, y)
    # what is 2γ apart but for rounding counts as within
    shares = np.mean(margins <= 2 * gammas[:, None] * (1 + 1e-12), 1)
    yield at_most("errors of the compressed network", errors, shares)
    grid = np.array([0.05, 0.1, 0.2, 0.4])
    worst = [np.mean(_margins(_against_the_label(outputs, y, g), y) <= 0) for g in grid]
    yield equal("errors of the outputs that are moved most", worst, np.mean(margins <= 2 * grid[:, None], 1))
    far = [np.mean(_margins(_against_the_label(outputs, y, 2 * g), y) <= 0) for g in grid]
    yield control(
        "no output moves by more than γ: here by 2γ",
        at_most("errors of the outputs that are moved", far, np.mean(margins <= 2 * grid[:, None], 1)),
    )


@claim(rows=("T05.26",), erratum="With several classes the margin of the original must be 2γ, where γ is printed.")
def margin_as_printed(key, *, n: Annotated[int, Range(20, 1000)] = 100, classes: Annotated[int, Range(2, 10)] = 3):
    r"""A network that is within γ errs at most where the margin of the original is γ or less.

    As printed. Outputs with margins of $1.5\gamma$, of which the right one moves down by $\gamma$ and the others up by
    $\gamma$, are all wrong, and no margin was $\gamma$ or less. All were $2\gamma$ or less.
    """
    gamma, (base_key, y_key) = 0.1, jax.random.split(key)
    y = np.asarray(jax.random.randint(y_key, (n,), 0, classes))
    base = np.asarray(jax.random.normal(base_key, (n, 1)))
    outputs = base + 1.5 * gamma * (np.arange(classes) == y[:, None])
    margins, moved = _margins(outputs, y), _against_the_label(outputs, y, gamma)
    errors = np.mean(_margins(moved, y) <= 0)
    yield at_most("largest change of an output", np.abs(moved - outputs).max(), gamma)
    yield at_most("errors, against margins up to 2γ", errors, np.mean(margins <= 2 * gamma))
    yield printed(at_most("errors, against margins up to γ", errors, np.mean(margins <= gamma)))


@claim(rows=("T05.26", "T05.44"))
def bound_for_what_was_written_down(
    key, *, n: Annotated[int, Range(20, 1000)] = 100, d: Size = 30, draws: Annotated[int, Range(2000, 20_000)] = 2000
):
    r"""A classifier of q numbers with r values is bounded through their count, if their places are paid.

    With probability $1-\delta$, $L(g)\le\hat L(g)+\sqrt{(q\ln r+\ln\binom dq+\ln(1/\delta))/(2n)}$ for all $g$ with $q$
    of $d$ coordinates that take $r$ values, and so for those that a compressor picks by looking at the sample. Here it
    takes the largest coordinates of the mean of $yx$, rounded; the label is the sign of a normal direction, wrong with
    probability 0.1, and the error is exact, by the angle. Where the mask spells the labels (one coordinate per cell
    of a law with many cells, kept if the sample has a 1 there) a bound that does not pay for it is exceeded by samples
    of coins, and the one that pays is not.
    """
    law_key, draw_key, cell_key = jax.random.split(key, 3)
    q, levels, cells = 4, 4, 20 * n

    @jax.jit
    def measure(law_key, draw_key, cell_key):
        truth = jax.random.normal(law_key, (d,)) * jnp.exp(-jnp.arange(d) / 2)
        truth = truth / jnp.linalg.norm(truth)

        def one(key):
            x_key, flip_key = jax.random.split(key)
            x = jax.random.normal(x_key, (n, d))
            y = jnp.sign(x @ truth) * jnp.where(jax.random.bernoulli(flip_key, 0.1, (n,)), -1, 1)
            w = y @ x / n
            kept = jnp.zeros(d, bool).at[jnp.argsort(-jnp.abs(w))[:q]].set(True)
            g = jnp.where(kept, on_grid(jnp.where(kept, w, 0), levels), 0)
            angle = jnp.arccos(jnp.clip(g @ truth / jnp.linalg.norm(g), -1, 1))
            return jnp.mean(y * (x @ g) <= 0), 0.1 + 0.8 * angle / jnp.pi

        def spelled(key):
            x_key, y_key = jax.random.split(key)
            cell = jax.random.randint(x_key, (n,), 0, cells)
            y = jax.random.bernoulli(y_key, 0.5, (n,))
            mask = jnp.zeros(cells, bool).at[cell].max(y)
            return jnp.mean(mask[cell] != y), jnp.sum(mask)

        inside, outside = jax.lax.map(one, jax.random.split(draw_key, draws), batch_size=50)
        return inside, outside, *jax.lax.map(spelled, jax.random.split(cell_key, draws), batch_size=50)

    inside, outside, fitted, kept = (np.asarray(a) for a in measure(law_key, draw_key, cell_key))
    bound = compression_bound(n, q, levels, DELTA, mask=d, risk=inside).value
    yield frequency_at_most("error beyond the bound", outside > np.asarray(bound), DELTA)
    # every function of the cells errs on half of the coins; the values of the kept coordinates are all 1
    paid = compression_bound(n, kept, 1, DELTA, mask=cells, risk=fitted).value
    free = compression_bound(n, kept, 1, DELTA, risk=fitted).value
    yield frequency_at_most("half, beyond the bound with the mask", np.asarray(paid) < 0.5, DELTA)
    yield control(
        "the places of the numbers were fixed before: here they spell the labels, and are not paid",
        frequency_at_most("half, beyond the bound without the mask", np.asarray(free) < 0.5, DELTA),
    )


@claim(rows=("T05.25",))
def initial_network_as_helper(
    key, *, n: Annotated[int, Range(20, 500)] = 60, steps: Annotated[int, Range(5, 100)] = 20
):
    r"""After short training it takes fewer values to write down how far a network went than where it is.

    The initial network is drawn before the data and may be used in writing the trained one down, for nothing: a helper
    string. Rounded to the same number of levels, 4, 8, 16 or 32, the difference from it leaves the outputs nearer to
    what they were than the parameters themselves do; the numbers that are paid are the same. Another network drawn in
    the same way does not help.
    """
    net_key, other_key, x_key = jax.random.split(key, 3)
    levels = (4, 8, 16, 32)
    optimiser = optax.sgd(0.05)

    @eqx.filter_jit
    def measure(net_key, other_key, x_key):
        x = jax.random.normal(x_key, (n, 6))
        y = jnp.sin(x[:, :1])
        start, other = (drawn(lambda k: MLP((6, 40, 1), relu, key=k), k) for k in (net_key, other_key))
        params, rest = eqx.partition(start, eqx.is_array)

        def step(params, _):
            slope = jax.grad(lambda p: jnp.mean((jax.vmap(eqx.combine(p, rest))(x) - y) ** 2))(params)
            return optax.apply_updates(params, optimiser.update(slope, optimiser.init(params))[0]), None

        network = eqx.combine(jax.lax.scan(step, params, None, length=steps)[0], rest)
        errors = [
            [compression_error(network, quantise(network, r, helper=h).network, x) for r in levels]
            for h in (None, start, other)
        ]
        nats = [[quantise(network, r, helper=h).description.total for r in levels] for h in (None, start)]
        return jnp.array(errors), jnp.array(nats)

    errors, nats = (np.asarray(a) for a in measure(net_key, other_key, x_key))
    alone, helped, wrong = errors
    yield equal("nats with the helper and without", nats[1], nats[0])
    yield at_most("change of the outputs with the helper", helped, alone, x=levels, along="levels")
    yield control(
        "the helper is where training began: here another network",
        at_most("change of the outputs", wrong, alone),
    )


@claim(rows=("T05.44",))
def pruned_and_retrained(
    key,
    *,
    n: Annotated[int, Range(200, 4000)] = 1000,
    data_sets: Annotated[int, Range(2, 100)] = 8,
    steps: Annotated[int, Range(50, 1000)] = 150,
):
    r"""Pruned to a tenth, retrained and rounded, a network fits its sample as before and has a bound below one half.

    A network of 161 parameters is trained, with a penalty on their moduli, on points of which two of six coordinates
    decide, with a margin; of its parameters the 16 largest stay, these are trained again, and rounded to 64 levels. The
    share of training errors grows by no more than 0.02. With $q\ln r$ for their values, $\ln\binom{161}{16}$ for their
    places and everything else that was chosen, the bound on the error of the small network is below ½ and holds, the
    error being that on all points of the law. With 16 places at random in place of the largest, it does not fit.
    """
    optimiser = optax.adam(0.05)

    def make(key):
        return MLP((6, 20, 1), relu, key=key)

    @eqx.filter_jit
    def measure(key):
        law_key, set_key = jax.random.split(key)
        points = jax.random.uniform(law_key, (4000, 6), minval=-1.0)
        score = points[:, 0] + points[:, 1]
        points = points.at[:, 0].add(0.3 * jnp.sign(score))  # nobody is within 0.3 of the border
        truth = jnp.where(score > 0, 1.0, -1.0)

        def fitted(params, rest, x, y, transformation, penalty=0.0):
            def loss(p):
                size = sum(jnp.sum(jnp.abs(leaf)) for leaf in jax.tree.leaves(p))
                return jnp.mean(jnp.logaddexp(0.0, -y * jax.vmap(eqx.combine(p, rest))(x)[:, 0])) + penalty * size

            def step(state, _):
                params, memory = state
                updates, memory = transformation.update(jax.grad(loss)(params), memory, params)
                return (optax.apply_updates(params, updates), memory), None

            return jax.lax.scan(step, (params, transformation.init(params)), None, length=steps)[0][0]

        def one(key):
            row_key, net_key, other_key = jax.random.split(key, 3)
            rows = jax.random.randint(row_key, (n,), 0, len(points))
            x, y = points[rows], truth[rows]
            params, rest = eqx.partition(drawn(make, net_key), eqx.is_array)
            whole = eqx.combine(fitted(params, rest, x, y, optimiser, 0.01), rest)

            def small(kept):
                start = jax.tree.map(lambda p, k: jnp.where(k, p, 0), eqx.filter(whole, eqx.is_array), kept)
                again = fitted(start, rest, x, y, optax.chain(optimiser, only_kept(kept)))
                return quantise(eqx.combine(again, rest), 64, kept=kept)

            def wrong(network, x, y):
                return jnp.mean(y * jax.vmap(network)(x)[:, 0] <= 0)

            # the 16 largest of another network are 16 places that have nothing to do with this one
            largest, places = (prune(net, 16).kept for net in (whole, drawn(make, other_key, std=1.0)))
            final, other = small(eqx.filter(largest, eqx.is_array)), small(eqx.filter(places, eqx.is_array))
            bound = final.bound((x, y), DELTA).value
            training = [wrong(network, x, y) for network in (whole, final.network, other.network)]
            return jnp.stack([*training, wrong(final.network, points, truth), bound, final.description.parameters])

        return jax.lax.map(one, jax.random.split(set_key, data_sets))

    whole, final, scattered, error, bound, numbers = np.asarray(measure(key)).T
    yield equal("numbers that are written down", numbers, 16)
    yield at_most("training errors more than before", final - whole, 0.02)
    yield at_most("bound", bound, 0.5)
    # each may fail with probability δ; what is between them here is some ten deviations of the training error
    yield at_least("bound, against the error on the law", bound, error)
    yield control(
        "the largest are kept: here 16 others",
        at_most("training errors more than before", scattered - whole, 0.02),
    )
