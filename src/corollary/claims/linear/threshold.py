"""Single threshold neurons: what they can compute, and where their hyperplane lies."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.linear._truth_tables import numbers_of, tiles
from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal
from corollary.linear import (
    LinearThreshold,
    McCullochPitts,
    binary_inputs,
    find_mcculloch_pitts,
    hyperplane,
    labelings,
    max_margin,
    mcculloch_pitts_tables,
    perceptron,
    perceptron_path,
    separability,
    signed_distance,
    truth_table,
)


@claim(rows=("E01.01",))
def gates(key, *, inputs: Annotated[int, Range(2, 8)] = 6):
    r"""McCulloch-Pitts neurons compute AND, OR and NOT, and n 2^n + 2 functions in all.

    The neuron $\mathbb 1\{\sigma\cdot x\ge\theta\}$ with $\sigma\in\{-1,1\}^n$ is AND for $\sigma=1,\theta=n$, OR for
    $\sigma=1,\theta=1$, NOT for $\sigma=-1,\theta=0$ and $x_1\wedge\neg x_2$ for $\sigma=(1,-1),\theta=1$. Each
    $\sigma$ has $n$ thresholds at which the neuron is not constant, and no two of these $n2^n$ functions are the same;
    with the two constants that makes $n2^n+2$. Since a synapse is never zero, even $f(x)=x_1$ of two inputs is not
    among them, nor are XOR and XNOR.
    """
    sizes = range(1, inputs + 1)
    bits = [np.asarray(binary_inputs(n)).astype(bool) for n in sizes]

    first, second = bits[1].T
    measured = [truth_table(McCullochPitts(np.ones(n), n), n) for n in sizes]
    measured += [truth_table(McCullochPitts(np.ones(n), 1), n) for n in sizes]
    measured += [truth_table(McCullochPitts([-1], 0), 1), truth_table(McCullochPitts([1, -1], 1), 2)]
    wanted = [b.all(1) for b in bits] + [b.any(1) for b in bits] + [[1, 0], first & ~second]
    yield equal("AND, OR, NOT, x1 and not x2: all outputs", np.concatenate(measured), np.concatenate(wanted))
    counts = [len(mcculloch_pitts_tables(n)) for n in sizes]
    yield equal("functions", counts, [n * 2**n + 2 for n in sizes], x=list(sizes), along="inputs")
    absent = np.stack([first ^ second, ~(first ^ second), first, second, ~first, ~second])
    found = [find_mcculloch_pitts(table) is not None for table in absent]
    yield equal("found for XOR, XNOR, x1, x2, not x1, not x2", found, 0)
    # the same enumeration with synapses that may also be absent
    sigma = np.stack(np.meshgrid(*[[-1, 0, 1]] * 2), -1).reshape(-1, 2)
    fires = (sigma @ bits[1].T)[:, None] >= np.arange(-2, 4)[:, None]
    wider = len(np.unique(fires.reshape(-1, 4), axis=0))
    yield control("a synapse may also be zero", equal("functions of two inputs", wider, 2 * 2**2 + 2))
    frame = np.isin(np.arange(16), numbers_of(mcculloch_pitts_tables(2)))
    yield tiles("functions of two inputs, framed: a neuron", frame)


@claim(rows=("M01.03", "E01.14"))
def xor(key, *, sweeps: Size = 1000):
    r"""One threshold neuron cannot compute XOR; one more layer, or one more feature, can.

    No $(w,b)\in\mathbb R^3$ has $\operatorname{sign}(w\cdot x+b)=1$ on $(0,1),(1,0)$ and $-1$ on $(0,0),(1,1)$, nor the
    reverse: the sum of the four points $y_i(x_i,1)$ is zero, so that no $(w,b)$ has a positive product with all of
    them. The other 14 of the 16 Boolean functions of two inputs are linearly separable. With the
    product $x_1x_2$ as a third feature, or with two hidden ReLU units, XOR is computed; on XOR itself the perceptron
    makes a mistake in every sweep.
    """
    x = binary_inputs(2).astype(float)
    y = labelings(4)
    proofs = [separability(x, labels) for labels in y]
    linear = np.array([proof.separable for proof in proofs])
    yield equal("the functions that are not linear, of 16", np.flatnonzero(~linear), [6, 9])
    yes = [np.min(np.asarray(y[k]) * (x @ p.w + p.b)) for k, p in enumerate(proofs) if p.separable]
    yield at_least("least product of the 14 separators", yes, 1e-9)
    no = np.stack([proofs[k].multipliers for k in (6, 9)])
    yield equal("multipliers of the proof for XOR and XNOR", no, 0.25)
    points = np.concatenate([np.asarray(x), np.ones((4, 1))], axis=1)
    yield equal("what they combine", (no * np.asarray(y)[[6, 9]]) @ points, 0.0)
    exclusive, product = y[6], jnp.concatenate([x, x[:, :1] * x[:, 1:]], axis=1)
    path = perceptron_path(x, exclusive, updates=4 * sweeps)
    mistakes = jnp.bincount(path.clock // 4, length=sweeps)
    yield at_least("mistakes in each sweep over XOR", mistakes[:sweeps], 1.0, along="sweep")
    fit = perceptron(product, exclusive)
    yield equal("with the product: converged", fit.converged, 1)
    hidden = jnp.maximum(x @ jnp.ones((2, 2)) - jnp.array([0.0, 1.0]), 0)
    yield equal("two hidden ReLU units", hidden @ jnp.array([1.0, -2.0]), (exclusive + 1) / 2)
    # the distance of the hulls of the classes bounds every margin; nothing but rounding is left of it
    found, wider = max_margin(x, exclusive), max_margin(product, exclusive)
    yield at_most("bound on the margin of XOR", found.bound, 0.0, atol=1e-14)
    yield control("the product is a third feature", at_most("bound on the margin of XOR", wider.bound, 0.0, atol=1e-14))
    yield tiles("functions of two inputs, framed: linearly separable", linear)


@claim(rows=("E01.02", "E01.05", "M01.02", "M04.01"))
def sign_of_distance(key, *, units: Size = 200, points: Size = 500, d: Size = 4):
    r"""A point is classified correctly exactly if its signed distance is positive.

    Let $w\ne0$, $y\in\{-1,1\}$ and $\operatorname{sgn}(0)=0$. Then
    $\operatorname{sgn}(w\cdot x+b)=y$ if and only if $\gamma=y(w\cdot x+b)/\|w\|>0$. On the hyperplane both are false
    for either label. With $\operatorname{sgn}(0)=1$ the equivalence fails there. Absorbing the bias as a weight of a
    constant feature changes no output.
    """
    w_key, b_key, x_key, y_key = jax.random.split(key, 4)
    # small whole numbers: products and sums are exact, and the hyperplane is hit often
    w = jax.random.randint(w_key, (units, d), -3, 4).at[:, 0].set(1).astype(float)
    b = jax.random.randint(b_key, (units,), -3, 4).astype(float)
    x = jax.random.randint(x_key, (units, points, d), -3, 4).astype(float)
    y = jax.random.rademacher(y_key, (units, points)).astype(float)

    @jax.jit
    def measure(w, b, x, y):
        def one(w, b, x, y):
            unit, closed = LinearThreshold.of(w, b), LinearThreshold.of(w, b, at_zero=1)
            absorbed = LinearThreshold.of(jnp.append(b, w))
            constant = jnp.concatenate([jnp.ones((points, 1)), x], axis=1)
            out = jax.vmap(unit)(x)
            return out, jax.vmap(closed)(x), jax.vmap(absorbed)(constant), signed_distance(w, b, x, y)

        return jax.vmap(one)(w, b, x, y)

    out, closed, absorbed, gamma = measure(w, b, x, y)
    on = out == 0
    yield at_least("points on a hyperplane", jnp.sum(on), 1)
    yield equal("classified correctly, against γ > 0", out == y, gamma > 0)
    yield equal("on the hyperplane: correct for either label", (out == y)[on], 0)
    yield equal("output with the bias absorbed", absorbed, out)
    yield control("sgn(0) = 1", equal("classified correctly, against γ > 0", (closed == y)[on], (gamma > 0)[on]))


@claim(rows=("E01.03", "E01.04"))
def hesse_normal_form(key, *, planes: Size = 200, points: Size = 200, d: Size = 5):
    r"""The signed distance is the distance to the hyperplane, and the origin's is |b| over the length of w.

    For $w\ne0$ the boundary $w\cdot x+b=0$ is $\{x:n\cdot x=d\}$ with $n=w/\|w\|$, $d=-b/\|w\|$. Its point
    nearest to the origin is $dn$, at the distance $|d|$, and a point $x$ lies at the distance $|\gamma|$,
    $\gamma=y(w\cdot x+b)/\|w\|$. A positive factor of $(w,b)$ changes none of these; a negative one turns $n$ and $d$
    over.
    """
    keys = jax.random.split(key, 5)
    w, b = jax.random.normal(keys[0], (planes, d)), jax.random.normal(keys[1], (planes,))
    x = 2 * jax.random.normal(keys[2], (planes, points, d))
    y = jax.random.rademacher(keys[3], (planes, points)).astype(float)
    factor = jnp.exp(jax.random.normal(keys[4], (planes,)))

    @jax.jit
    def measure(w, b, x, y, factor):
        def one(w, b, x, y, factor):
            plane = hyperplane(w, b)
            # the nearest point by the multiplier equations of "minimise the distance on the hyperplane"
            system = jnp.block([[jnp.eye(d), w[:, None]], [w[None], jnp.zeros((1, 1))]])
            nearest = jnp.linalg.solve(system, jnp.concatenate([x, jnp.full((points, 1), -b)], axis=1).T).T[:, :d]
            flipped, scaled = hyperplane(-factor * w, -factor * b), hyperplane(factor * w, factor * b)
            return {
                "foot": w @ plane.foot + b,
                "origin": jnp.linalg.norm(plane.foot),
                "others": jnp.min(jnp.linalg.norm(nearest, axis=1)),
                "distance": jnp.linalg.norm(x - nearest, axis=1),
                "gamma": jnp.abs(signed_distance(w, b, x, y)),
                "rescaled": signed_distance(factor * w, factor * b, x, y) - signed_distance(w, b, x, y),
                "planes": jnp.append(scaled.normal - plane.normal, scaled.offset - plane.offset),
                "turned": jnp.append(flipped.normal + plane.normal, flipped.offset + plane.offset),
            }

        return jax.vmap(one)(w, b, x, y, factor)

    m = measure(w, b, x, y, factor)
    yield equal("the foot lies on the hyperplane", m["foot"], 0.0)
    yield equal("distance of the origin", m["origin"], jnp.abs(b) / jnp.linalg.norm(w, axis=1))
    yield at_least("shortest of the other points of the hyperplane", m["others"], m["origin"])
    # a distance is the root of a sum of squares of differences of numbers of the order of one
    yield equal("distance to the nearest point", m["distance"], m["gamma"], atol=1e-10)
    yield equal("change under a positive factor", jnp.concatenate([m["planes"], m["rescaled"]], axis=1), 0.0)
    yield equal("sum with the plane of a negative factor", m["turned"], 0.0)
    # the value over the length of the gradient, for |x|² - 1 in place of w·x + b
    length = jnp.linalg.norm(x, axis=-1)
    quotient = jnp.abs(length**2 - 1) / (2 * length)
    yield control(
        "the boundary is a sphere, not a hyperplane",
        equal("distance to the nearest point", jnp.abs(length - 1), quotient, atol=1e-10),
    )
