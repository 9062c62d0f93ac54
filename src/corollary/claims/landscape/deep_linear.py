"""Saddles of deep linear networks, their Hessians, and why gradient descent finds the global minimum."""

from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.claims.landscape._critical_survey import predictions, signs, spaced, survey
from corollary.claims.landscape._linear_data import linear_data, normal_chain, product
from corollary.claims.nets._pictures import curves
from corollary.evidence import Count, Range, Size, at_least, at_most, claim, control, equal, printed, rate
from corollary.landscape import (
    critical_point,
    critical_value,
    deep_linear_loss,
    escape_direction,
    index_sets,
    nearby,
    principal_directions,
)
from corollary.optimization import chord_gap

Side = Annotated[int, Range(3, 5)]
Width = Annotated[int, Range(1, 4)]
Narrow = Annotated[int, Range(1, 2)]  # fewer units than directions, so that there are sets to leave out


@claim(rows=("B06.08", "B06.11"))
def descent_finds_the_global_minimum(
    key, *, dim: Annotated[int, Range(3, 4)] = 3, starts: Size = 64, steps: Count = 1500
):
    r"""Gradient descent on linear networks ends at the global minimum from every random start.

    Every local minimum of $\frac12\|Y-W_N\cdots W_1X\|_F^2$ is global, with the value of reduced-rank regression
    $\frac12(\mathrm{tr}\Sigma_{yy}-\sum_{i\le p}\lambda_i)$, $p$ the smallest width. With a nonlinearity this is false:
    one ReLU fitted to $1\mapsto1,-1\mapsto2$ has minima of value 2 and 1/2, and can die. So it is with unequal
    weights of the residuals: $\frac12\sum_{ij}\omega_{ij}(M-ab^\top)_{ij}^2$ with $M=\mathrm{diag}(1,\alpha)$,
    $\omega_{ii}=1$ and $\omega_{ij}\alpha>1$ has the second direction as a local minimum.
    """
    shapes = {"one hidden layer": (dim, 2, dim), "two hidden layers": (dim, 3, 2, dim)}
    eta, weight, alpha = 0.05, 3.0, 0.5

    @jax.jit
    def measure(key):
        x, y = linear_data(key, jnp.asarray(spaced(dim)), inputs=dim, outputs=dim, n=3 * dim, white=True)
        floor = critical_value(principal_directions(x, y), jnp.arange(dim) < 2)

        def descend(loss, points):
            slope = jax.vmap(jax.grad(loss))
            move = lambda w: jax.tree.map(lambda a, g: a - eta * g, w, slope(w))  # noqa: E731
            return jax.vmap(loss)(jax.lax.fori_loop(0, steps, lambda _, w: move(w), points))

        keys = jax.random.split(key, starts)
        ends = {
            name: descend(lambda w: deep_linear_loss(w, x, y), jax.vmap(lambda k, s=s: normal_chain(k, s, 0.5))(keys))
            for name, s in shapes.items()
        }

        def one_relu(v):
            inputs, targets = jnp.array([1.0, -1.0]), jnp.array([1.0, 2.0])
            return jnp.sum((targets - v[1] * jax.nn.relu(v[0] * inputs)) ** 2) / 2

        def weighted(v):
            uneven = jnp.array([[1.0, weight], [weight, 1.0]])
            return jnp.sum(uneven * (jnp.diag(jnp.array([1.0, alpha])) - jnp.outer(v[2:], v[:2])) ** 2) / 2

        second = jnp.sqrt(alpha) * jnp.array([0.0, 1.0, 0.0, 1.0])
        trap = weighted(second), jnp.linalg.norm(jax.grad(weighted)(second)), jax.hessian(weighted)(second)
        return ends, floor, descend(one_relu, jax.random.normal(key, (starts, 2))), trap

    ends, floor, relu, (value, slope, hessian) = measure(key)
    for name, values in ends.items():
        # the slowest direction shrinks by 1 - eta s (s - s') each step, long below the rounding at the end
        yield equal(f"{name}: final loss", values, jnp.full(starts, floor), rtol=1e-7, along="start")
    yield control(
        "linear units: here one ReLU", equal("final loss", relu, jnp.full(starts, 0.5), rtol=1e-7, along="start")
    )
    yield equal("weighted residuals: a critical point above the minimum", [value, slope], [0.5, 0.0], atol=1e-12)
    least = np.linalg.eigvalsh(np.asarray(hessian))[0]
    yield control(
        "residuals of equal weight: here unequal",
        at_most("least curvature at a critical point above the minimum", least, -1e-9),
    )


@claim(rows=("B06.11",))
def deep_saddles(key, *, inputs: Side = 3, outputs: Side = 3, first: Width = 3, second: Narrow = 2):
    r"""Saddles of deep linear networks have a way down, but for middle products of low rank the Hessian hides it.

    Let $XX^\top$ and $XY^\top$ have full rank and the strengths $s_i$ be distinct. At the critical point of the set $I$
    of a network of $N\ge3$ layers, $|I|=r\le p$ with $p$ the smallest hidden width, the Hessian has
    $\#\{i\notin I,j\in I:s_i>s_j\}$ negative and $r(k+d-r)$ minus that many positive eigenvalues, all others are zero.
    If the product of the layers between the first and the last has rank $p$, every critical point but the global
    minimum has a negative one. If $I$ are the $r<p$ strongest directions there is none, and yet the point is a saddle:
    along a chain of idle units the loss is $L-s_i\epsilon^N+\frac12\epsilon^{2N}$. With $N=3$, $W_1=0$, $W_3=0$ and any
    $W_2$, the eigenvalues are $\pm s_i\sigma_j(W_2)$ and 0.
    """
    sizes, strengths = (inputs, first, second, outputs), spaced(min(inputs, outputs))
    hidden, width = (first, second), min(first, second)
    sets = index_sets(strengths.size, width)
    steps = jnp.linspace(0.0, 1.0, 9)
    (values, slopes, spectra), expected = survey(sizes, sets)(key, jnp.asarray(strengths))

    @jax.jit
    def measure(key):
        x, y = linear_data(key, jnp.asarray(strengths), inputs=inputs, outputs=outputs, n=3 * max(sizes), white=True)
        principal = principal_directions(x, y)
        # the strongest directions, one fewer than there could be
        chosen = jnp.arange(strengths.size) < width - 1
        start = critical_point(principal, chosen, hidden)
        way = escape_direction(principal, chosen, hidden)
        along = jax.vmap(lambda e: deep_linear_loss([w + e * v for w, v in zip(start, way, strict=True)], x, y))(steps)
        middle = jax.random.normal(key, (second, first))
        empty = jnp.zeros((first, inputs)), middle, jnp.zeros((outputs, second))
        flat, unravel = ravel_pytree(empty)
        curvature = jnp.linalg.eigvalsh(jax.hessian(lambda v: deep_linear_loss(unravel(v), x, y))(flat))
        return along - along[0], curvature, jnp.linalg.svd(middle, compute_uv=False)

    along, curvature, gains = measure(key)
    counts = signs(spectra)
    predicted, exact = predictions(strengths, sets, sizes)
    yield equal("slope", slopes, np.zeros_like(slopes), atol=1e-12)
    yield equal("value", values, expected, along="set")
    for i, name in enumerate(("negative", "zero", "positive")):
        yield equal(f"{name} eigenvalues", counts[..., i], np.stack([predicted[:, i]] * 2), atol=0, along="set")
    yield equal("all eigenvalues, white inputs", spectra[0], exact, atol=1e-11)
    full, leading = sets.sum(1) == width, np.all(np.diff(sets.astype(int), axis=1) <= 0, axis=1)
    yield at_least("negative eigenvalues, middle product of rank p", counts[:, full & ~leading, 0], 1, along="set")
    yield control(
        "a middle product of full rank: here lower",
        at_least("negative eigenvalues", counts[:, leading & ~full, 0], 1),
    )
    best = strengths[width - 1]
    yield equal("loss along idle units", along, -best * steps**3 + steps**6 / 2, atol=1e-12, x=steps, along="step")
    pairs = np.outer(strengths, gains).ravel()
    zeros = np.zeros(np.asarray(curvature).size - 2 * pairs.size)
    yield equal(
        "eigenvalues with empty first and last layers", curvature, np.sort(np.r_[pairs, -pairs, zeros]), atol=1e-11
    )


@claim(rows=("B06.11",))
def flatness_at_the_origin(key, *, dim: Annotated[int, Range(2, 5)] = 3):
    r"""The loss of a linear network is neither convex nor concave, and with depth N it leaves the origin with power N.

    For $N=2$ the Hessian at $W=0$ has the eigenvalues $\pm s_i$, each as often as there are hidden units (and zeros);
    for $N\ge3$ it vanishes. Along a line $\epsilon V$ the loss changes by $-\epsilon^N\langle\Sigma_{yx},V_N\cdots V_1
    \rangle+\frac12\epsilon^{2N}\|V_N\cdots V_1X\|_F^2$: a line with a positive product leads down, its mirror image in
    one layer up. The origin is a saddle at every depth. The loss is below its chords in one layer alone, and above the
    chord between a minimum and its mirror image in two layers.
    """
    depths, width = (2, 3, 4), 2
    steps = jnp.geomspace(0.02, 0.2, 12)

    @jax.jit
    def measure(key):
        x, y = linear_data(key, jnp.asarray(spaced(dim)), inputs=dim, outputs=dim, n=3 * dim, white=True)
        principal = principal_directions(x, y)
        found = []
        for depth in depths:
            hidden = (width,) * (depth - 1)
            origin = critical_point(principal, jnp.zeros(dim, bool), hidden)
            flat, unravel = ravel_pytree(origin)
            loss = lambda v, unravel=unravel: deep_linear_loss(unravel(v), x, y)  # noqa: E731
            line = normal_chain(jax.random.fold_in(key, depth), (dim, *hidden, dim))
            overlap = jnp.sum((y.T @ x) * product(line))
            line = (line[0] * jnp.sign(overlap), *line[1:])
            mirrored = (-line[0], *line[1:])
            fall, rise = (jax.vmap(loss)(steps[:, None] * ravel_pytree(w)[0]) - loss(flat) for w in (line, mirrored))
            best = critical_point(principal, jnp.arange(dim) < width, hidden)
            twin = (-best[0], *best[1:-1], -best[-1])
            other = (best[0] + line[0], *best[1:])
            gaps = [chord_gap(loss, ravel_pytree(best)[0], ravel_pytree(w)[0]) for w in (twin, other)]
            square = jnp.sum((product(line) @ x.T) ** 2)
            found.append((jax.hessian(loss)(flat), fall, rise, jnp.abs(overlap), square, jnp.stack(gaps)))
        return found

    found = measure(key)
    lines = {}
    for depth, (hessian, fall, rise, overlap, square, gaps) in zip(depths, found, strict=True):
        name = f"depth {depth}"
        spectrum = np.linalg.eigvalsh(np.asarray(hessian))
        ends = np.repeat(spaced(dim), width)
        predicted = np.sort(np.r_[ends, -ends]) if depth == 2 else np.zeros(spectrum.size)
        yield equal(f"{name}: Hessian at the origin", spectrum, predicted, atol=1e-12)
        change = square * steps ** (2 * depth) / 2
        yield equal(f"{name}: down", fall, change - overlap * steps**depth, atol=1e-13, x=steps, along="step")
        yield equal(f"{name}: up", rise, change + overlap * steps**depth, atol=1e-13, x=steps, along="step")
        yield at_most(f"{name}: chord between mirror images, above the loss", gaps[0], -1e-6)
        yield at_least(f"{name}: chord in one layer, above the loss", gaps[1], 1e-6)
        # half the difference of both ways is the odd term alone; what is left is rounding, 1e-9 of the smallest value
        odd = (np.asarray(rise) - np.asarray(fall)) / 2
        yield rate(f"{name}: power of the step", steps, odd, float(depth), tolerance=0.01, along="step")
        lines[name] = np.asarray(fall) / float(overlap)
    yield curves("Loss along a line through the origin", np.asarray(steps), lines, "step", "change over overlap")
    hessian = np.asarray(found[1][0])
    yield control(
        "two layers: here three",
        equal("least curvature at the origin", np.linalg.eigvalsh(hessian)[0], -spaced(dim)[0], atol=1e-12),
    )


@claim(
    rows=("B06.11",),
    erratum="A saddle by Definition 24 has a Hessian of both signs, which the origin of a deep network does not have; "
    "the premises on the data are missing too.",
)
def printed_saddles(key, *, dim: Annotated[int, Range(2, 5)] = 3):
    r"""Theorem 46 as printed: for any data and depth all other critical points have Hessians of both signs.

    "For any depth $H\ge1$ and for any layer widths and any input-output dimensions" the loss "is non-convex", and
    "every critical point that is not a global minimum is a saddle point", that is, its Hessian "has both positive and
    negative eigenvalues" (Definition 24). With two hidden layers the Hessian at the origin is zero, and the origin a
    saddle only in the sense that there are lower and higher points in every ball. With inputs that are all zero, which
    nothing excludes, the loss is constant; with inputs of full rank it is not convex.
    """

    @jax.jit
    def measure(key):
        x, y = linear_data(key, jnp.asarray(spaced(dim)), inputs=dim, outputs=dim, n=3 * dim)
        line = normal_chain(key, (dim, 2, 2, dim))
        flat, unravel = ravel_pytree(line)
        slope = jax.grad(lambda v: deep_linear_loss(unravel(v), x, y))(0 * flat)
        hessian = jax.hessian(lambda v: deep_linear_loss(unravel(v), x, y))(0 * flat)
        principal = principal_directions(x, y)
        excess = deep_linear_loss(unravel(0 * flat), x, y) - critical_value(principal, jnp.arange(dim) < 2)
        around = nearby(lambda v: deep_linear_loss(unravel(v), x, y), 0 * flat, key=key)
        # between two minima that mirror each other
        best = critical_point(principal, jnp.arange(dim) < 2, (2, 2))
        ends = [ravel_pytree(w)[0] for w in (best, (-best[0], best[1], -best[2]))]
        gaps = [chord_gap(lambda v, s=s: deep_linear_loss(unravel(v), s * x, y), *ends) for s in (0.0, 1.0)]
        return slope, hessian, excess, around.saddle, gaps

    slope, hessian, excess, saddle, (empty, full) = measure(key)
    spectrum = np.linalg.eigvalsh(np.asarray(hessian))
    yield equal("slope at the origin", slope, np.zeros_like(slope), atol=1e-12)
    yield at_least("loss at the origin above the minimum", excess, 0.1)
    yield printed(at_most("least eigenvalue at the origin", spectrum[0], -1e-6))
    yield printed(at_least("largest eigenvalue at the origin", spectrum[-1], 1e-6))
    yield equal("lower and higher points in every ball about the origin", saddle, 1)
    yield printed(at_most("chord between mirror images, above the loss, inputs zero", empty, -1e-6))
    yield at_most("chord between mirror images, above the loss, inputs of full rank", full, -1e-6)
