"""Convexity, optimality conditions and directions of descent."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed
from corollary.optimization import (
    Problem,
    chord_gap,
    classify_critical_point,
    curvature_range,
    double_well,
    gradient_product,
    least_squares,
    max_descent_step,
    minimize,
    quadratic,
    random_cosines,
    random_quadratic,
    ridge_logistic,
    steepest_step,
    tangent_gap,
)


def _data(key, n, dim):
    x_key, y_key = jax.random.split(key)
    return jax.random.normal(x_key, (n, dim)), jax.random.bernoulli(y_key, shape=(n,)).astype(float)


@claim(rows=("B05.03", "B05.15", "B05.32", "M17.03", "M17.04"))
def characterisations(key, *, dim: Size = 4, pairs: Count = 2000):
    r"""Chords above, tangents below, monotone gradients and positive curvature are one and the same.

    For a differentiable $f$ on a convex set these are equivalent: $f(\alpha x+(1-\alpha)y)\le\alpha f(x)+(1-\alpha)
    f(y)$; $f(y)\ge f(x)+\nabla f(x)\cdot(y-x)$; $\langle\nabla f(x)-\nabla f(y),x-y\rangle\ge0$; and
    $\nabla^2f\succeq0$ for a $C^2$ function. If $f$ is $\mu$-strongly convex the four are at least
    $\frac\mu2\alpha(1-\alpha)\|x-y\|^2$, $\frac\mu2\|x-y\|^2$, $\mu\|x-y\|^2$ and $\mu$, attained by a quadratic along
    its flattest axis. Where one of them fails, so do the others.
    """

    @jax.jit
    def measure(key):
        data_key, q_key, x_key, y_key, a_key = jax.random.split(key, 5)
        x, y = 3 * jax.random.normal(x_key, (pairs, dim)), 3 * jax.random.normal(y_key, (pairs, dim))
        weight = jax.random.uniform(a_key, (pairs,), minval=0.05, maxval=0.95)
        logistic = ridge_logistic(*_data(data_key, 20, dim), 0.1)
        form = random_quadratic(dim, 10.0, key=q_key)
        hessian, _ = form.data
        flat = jnp.linalg.eigh(hessian)[1][:, 0]
        strong = {
            "ridge logistic": (logistic, y),
            "quadratic": (form, y),
            "its flat axis": (form, x + (1 + jnp.abs(y[:, :1])) * flat),
        }

        def share(f, mu, y):
            """How much of its lower bound each of the four has to spare, in units of |x - y|^2."""
            square = jnp.sum((x - y) ** 2, axis=1)
            chord = jax.vmap(lambda u, v, a: chord_gap(f, u, v, a))(x, y, weight) / (weight * (1 - weight) * square)
            tangent = jax.vmap(lambda u, v: tangent_gap(f, u, v))(x, y) / square
            product = jax.vmap(lambda u, v: gradient_product(f, u, v))(x, y) / square
            middle = weight[:, None] * x + (1 - weight[:, None]) * y
            least, _ = curvature_range(f, middle)
            return jnp.stack([2 * chord.min(), 2 * tangent.min(), product.min(), least]) - mu

        merely = {
            "log-sum-exp": jax.nn.logsumexp,
            "fourth powers": lambda t: jnp.sum(t**4),
            "rank one": lambda t: t.sum() ** 2,
        }
        # half as curved as mu along the flat axis
        weaker = hessian - 0.5 * form.mu * jnp.outer(flat, flat)
        along = share(lambda t: 0.5 * t @ weaker @ t, form.mu, strong["its flat axis"][1])
        broken = {
            "cosines": lambda t: jnp.cos(t).sum(),
            "logarithms": lambda t: jnp.log1p(t**2).sum(),
            "a network": lambda t: (jnp.tanh(t[0]) * t[1] + jnp.tanh(t[2]) * t[3] - 1) ** 2,
        }
        return (
            {name: (share(p, p.mu, v), p.mu) for name, (p, v) in strong.items()},
            jnp.stack([share(f, 0.0, y) for f in merely.values()]),
            {name: share(f, 0.0, y) for name, f in broken.items()},
            along,
        )

    strong, merely, broken, along = measure(key)
    # in units of the squared distance the differences of values lose eps |f| / |x - y|^2, with |f| up to 1e4
    rounding = 1e-9
    for name, (spare, _) in strong.items():
        yield at_least(f"{name}: chord, tangent, gradient, curvature above mu", spare, 0.0, atol=rounding)
    yield equal("its flat axis: attained", strong["its flat axis"][0][:3], 0.0, atol=rounding)
    yield at_least("convex functions: all four", merely, 0.0, atol=rounding)
    for name, spare in broken.items():
        yield at_most(f"{name}: all four fail together", spare, -1e-3)
    name = "chord, tangent, gradient, curvature above mu"
    yield control("a curvature of half of mu along one axis", at_least(name, along, 0.0, atol=rounding))
    yield control("a function that is not convex", at_least("all four", broken["cosines"], 0.0, atol=rounding))


@claim(rows=("B05.04", "M17.04"))
def local_minima_are_global(key, *, starts: Size = 64, steps: Count = 400):
    r"""A convex function has no local minimum that is not global, a strictly convex one only one minimiser.

    If $f$ is convex, every local minimum is a global one and $\nabla f=0$ suffices for it, so that descent from
    anywhere ends at the same value; if strictly convex, at the same point. Where there are more unknowns than
    equations the value is the same and the point is not: what is orthogonal to the data stays as it was.
    """

    @jax.jit
    def measure(key):
        a_key, b_key, s_key, t_key = jax.random.split(key, 4)
        x, y = _data(a_key, 30, 3)
        # two equations for three unknowns, with singular values 1 and 1/2
        rows = jnp.linalg.qr(jax.random.normal(b_key, (3, 3)))[0] * jnp.array([[1.0], [0.5], [0.0]])
        flat = least_squares(rows[:2], jnp.array([1.0, -1.0]))
        strict = ridge_logistic(x, y, 0.3)
        begin = 3 * jax.random.normal(s_key, (starts, 3))

        def ends(p):
            path = jax.vmap(lambda s: minimize(p, optax.sgd(1 / p.L), steps=steps, start=s))(begin)
            return path.value[:, -1] - p.minimum, path.theta[:, -1]

        # both wells get starts, whatever the seed
        side = jnp.linspace(-1.5, 1.5, starts) + 0.01 * jax.random.normal(t_key, (starts,))
        well = double_well(0.3)
        wells = jax.vmap(lambda s: minimize(well, optax.sgd(0.05), steps=steps, start=s).value[-1])(side)
        # the rows of the data span a plane: the rest of a start survives
        normal = jnp.linalg.svd(flat.data[0])[2][-1]
        return ends(flat), ends(strict), wells, begin @ normal, normal

    (value, theta), (excess, where), wells, kept, normal = measure(key)
    # 400 steps of factors 3/4 and about 1/2 leave rounding only
    yield equal("rank-deficient least squares: one value", value, 0.0, atol=1e-12)
    yield equal("rank-deficient least squares: each start keeps its part", theta @ normal, kept, atol=1e-9)
    yield equal("strictly convex: one value", excess, 0.0, atol=1e-12)
    yield equal("strictly convex: one point", where, where.mean(0), atol=1e-9)
    yield control("two wells, not convex", equal("one value", wells, wells.min(), atol=1e-3))
    yield control(
        "convex, not strictly", equal("one point", jnp.linalg.norm(theta - theta.mean(0), axis=1), 0.0, atol=1e-3)
    )


@claim(rows=("B05.05",))
def descent_direction(key, *, dim: Size = 6, directions: Size = 200):
    r"""A direction that makes an acute angle with the negative gradient goes down at first, and how far.

    Let $f$ be differentiable and $\nabla f(x)\cdot s<0$, that is, an angle in $[0,\frac\pi2)$ between $s$ and
    $-\nabla f(x)$. Then $f(x+\alpha s)<f(x)$ for all small $\alpha>0$; if $f$ is $L$-smooth for all
    $0<\alpha<-\frac{2\nabla f(x)\cdot s}{L\|s\|^2}$, and no further for a quadratic along its steepest axis. At a right
    angle, which the text includes, a convex function never decreases.
    """
    degrees = jnp.array([0.0, 30.0, 60.0, 80.0, 89.0, 89.9])
    fractions = jnp.linspace(0.01, 0.99, 50)

    @jax.jit
    def measure(key):
        f_key, x_key, s_key, q_key = jax.random.split(key, 4)
        wavy, bowl = random_cosines(dim, key=f_key, terms=20), random_quadratic(dim, 5.0, key=q_key)
        points = jax.random.normal(x_key, (directions, dim))
        sideways = jax.random.normal(s_key, (directions, dim))

        def change(problem, x, side, angle, fraction):
            slope = problem.gradient(x)
            down = -slope / jnp.linalg.norm(slope)
            side = side - (side @ down) * down
            s = jnp.cos(angle) * down + jnp.sin(angle) * side / jnp.linalg.norm(side)
            a = fraction * jnp.where(angle < jnp.pi / 2 - 1e-6, max_descent_step(slope, s, problem.L), 1.0)
            # of the first-order change, so that the number does not hang on the scale
            return (problem(x + a * s) - problem(x)) / (a * jnp.linalg.norm(slope) * jnp.maximum(jnp.cos(angle), 1e-3))

        def table(problem, angles, fractions):
            one = jax.vmap(lambda x, s, t, r: change(problem, x, s, t, r), in_axes=(0, 0, None, None))
            grid = jax.vmap(jax.vmap(one, in_axes=(None, None, None, 0)), in_axes=(None, None, 0, None))
            return grid(points, sideways, angles, fractions).max(-1)

        right = jnp.array([jnp.pi / 2, 2.0])
        top = quadratic(jnp.array([1.0, 0.1]))
        e = jnp.array([1.0, 0.0])
        limit = max_descent_step(top.gradient(e), -e, top.L)
        edge = jax.vmap(lambda r: top(e - r * limit * e) - top(e))(jnp.array([0.99, 1.0, 1.01]))
        angles = jnp.deg2rad(degrees)
        return table(wavy, angles, fractions), table(bowl, right, jnp.array([1e-3, 0.1, 1.0])), edge

    acute, obtuse, edge = measure(key)
    yield at_most("change over first-order change, within the limit", acute.max(1), -1e-4, x=degrees, along="degrees")
    yield equal("a quadratic along its top axis: level again at the limit", edge[1], 0.0, atol=1e-15)
    yield at_most("a quadratic along its top axis: lower just before", edge[0], -1e-3)
    yield at_least("a convex function at 90 degrees and beyond", obtuse, 0.0)
    yield control("a step 1 % beyond the limit", at_most("change", edge[2], 0.0))
    yield control("an angle of 90 degrees or more", at_most("change", obtuse, 0.0))


@claim(rows=("B05.06", "T02.09"))
def optimality_conditions(key, *, dim: Size = 5, count: Size = 50):
    r"""Gradient zero and curvature not negative are necessary for a minimum; positive curvature is sufficient.

    At a local minimum of a $C^2$ function $\nabla f=0$ and $\nabla^2f\succeq0$; where $\nabla f=0$ and
    $\nabla^2f\succ0$ there is a local minimum. A singular Hessian leaves it open: $x^4$ has a minimum at 0, $x^3$ and
    the monkey saddle $x^3-3xy^2$ have none. Gradient descent on $(w_1^2-1)^2+w_2^2$ ends at a minimum $(\pm1,0)$
    unless $w_1=0$, from where it ends at the saddle.
    """

    @jax.jit
    def measure(key):
        q_key, s_key = jax.random.split(key)
        keys = jax.random.split(q_key, count)

        def surroundings(f, x, radius, key):
            around = jax.random.normal(key, (500, x.size))
            around = radius * around / jnp.linalg.norm(around, axis=1, keepdims=True)
            return jax.vmap(f)(x + around) - f(x)

        def one(key):
            """A random quadratic, definite or not: the verdict of the Hessian, and what is found nearby."""
            a_key, b_key, c_key = jax.random.split(key, 3)
            spectrum = jax.random.uniform(a_key, (dim,), minval=0.2, maxval=1.0)
            signs = jnp.where(jax.random.bernoulli(b_key), 1.0, jnp.where(jnp.arange(dim) == 0, -1.0, 1.0))
            rotation = jnp.linalg.qr(jax.random.normal(c_key, (dim, dim)))[0]
            problem = quadratic(spectrum * signs, rotation=rotation)
            verdict = classify_critical_point(problem, jnp.zeros(dim))
            # the sphere holds the eigenvectors themselves too: chance might miss a narrow cone
            near = jnp.append(surroundings(problem, jnp.zeros(dim), 1e-2, c_key), jax.vmap(problem)(1e-2 * rotation.T))
            return verdict.minimum, verdict.saddle, near.min() > 0, (near.min() < 0) & (near.max() > 0)

        def flat(f, size):
            verdict = classify_critical_point(f, jnp.zeros(size))
            near = surroundings(f, jnp.zeros(size), 1e-2, s_key)
            return verdict.inconclusive, verdict.second_order, near.min() > 0

        gallery = jax.tree.map(
            lambda *rows: jnp.stack(rows),
            flat(lambda x: x[0] ** 4, 1),
            flat(lambda x: x[0] ** 3, 1),
            flat(lambda x: x[0] ** 3 - 3 * x[0] * x[1] ** 2, 2),
        )
        wells = Problem(lambda w: (w[0] ** 2 - 1) ** 2 + w[1] ** 2, (), jnp.zeros(2))
        begin = jax.random.uniform(s_key, (count, 2), minval=-1.5, maxval=1.5)
        begin = begin.at[:, 0].add(0.05 * jnp.sign(begin[:, 0]))
        begin = jnp.concatenate([begin, begin.at[:, 0].set(0.0)])
        ends = jax.vmap(lambda s: minimize(wells, optax.sgd(0.05), steps=400, start=s).theta[-1])(begin)
        kinds = jax.lax.map(lambda w: classify_critical_point(wells, w), ends)
        target = jnp.stack([jnp.sign(begin[:, 0]), jnp.zeros(2 * count)], 1)
        return jax.lax.map(one, keys), gallery, ends, target, kinds.minimum, kinds.saddle

    (minimum, saddle, is_minimum, is_saddle), (open_, passes, truly), ends, target, at_minimum, at_saddle = measure(key)
    half = at_minimum.shape[0] // 2
    yield equal("definite Hessian: a minimum nearby", minimum, is_minimum)
    yield equal("indefinite Hessian: higher and lower nearby", saddle, is_saddle)
    yield equal("x^4, x^3, monkey saddle: derivatives do not decide", open_, 1)
    yield equal("x^4, x^3, monkey saddle: truly minima", truly, jnp.array([1, 0, 0]))
    yield equal("descent ends at the minimum of its side, or at the saddle", ends, target, atol=1e-9)
    yield equal("ends that are minima", at_minimum, jnp.arange(2 * half) < half)
    yield equal("ends that are saddles", at_saddle, jnp.arange(2 * half) >= half)
    yield control("a singular Hessian", equal("necessary condition taken as sufficient", passes, truly))


@claim(
    rows=("T02.09",),
    erratum="Definition 2.1.5 calls every point with zero gradient and positive semidefinite Hessian a local minimum; "
    "0 is such a point of w^3.",
)
def semidefinite_suffices(key):
    r"""As printed: where the gradient vanishes and the Hessian is positive semidefinite there is a local minimum.

    Definition 2.1.5: a stationary point is called a local minimum "if in addition $\nabla^2f$ is positive-semidefinite
    at $w$". In Definition 6.1.1 of the same text $w$ is a local minimum if $f(w)\le f(w')$ for all $w'$ within some
    radius, and a singular Hessian leaves it open. At 0 the function $cw^3$ has the first and not the second: it is
    smaller within every one of six radii. Corrected: semidefinite is necessary, and definite is sufficient, as for
    $cw^3+w^2$.
    """
    c = jax.random.uniform(key, (), minval=0.5, maxval=2.0)
    radii = 10.0 ** -jnp.arange(1, 7)

    def lowest(f):
        """The least value within each radius, less that at 0, over the cube of the radius."""
        return jax.vmap(lambda r: (jax.vmap(f)(r * jnp.linspace(-1, 1, 101)) - f(0.0)).min() / r**3)(radii)

    def flat(w):
        return c * w**3

    def bowl(w):
        return c * w**3 + w**2

    verdict, definite = classify_critical_point(flat, 0.0), classify_critical_point(bowl, 0.0)
    yield equal("cw^3 at 0 satisfies Definition 2.1.5", verdict.second_order, 1)
    yield equal("cw^3 + w^2 at 0: gradient zero and definite Hessian", definite.minimum, 1)
    yield at_least(
        "cw^3 + w^2: least value within a radius, less that at 0", lowest(bowl), 0.0, x=radii, along="radius"
    )
    yield printed(
        at_least("cw^3: least value within a radius, less that at 0", lowest(flat), 0.0, x=radii, along="radius")
    )


@claim(rows=("T02.03",))
def steepest_descent(key, *, dim: Size = 6, points: Count = 100000):
    r"""In a ball of the Euclidean norm the linear model falls most along the negative gradient.

    $\min_{\|\delta\|\le\epsilon}\langle g,\delta\rangle=-\epsilon\|g\|_*$ with the dual norm, attained for the
    Euclidean ball at $\delta=-\epsilon g/\|g\|_2$, for $\ell_1$ along the largest coordinate, for $\ell_\infty$ at
    $-\epsilon\operatorname{sign}g$.
    """

    @jax.jit
    def measure(key):
        g_key, p_key = jax.random.split(key)
        g, cloud = jax.random.normal(g_key, (dim,)), jax.random.normal(p_key, (points, dim))
        found = []
        for name, order, dual in (("l2", 2, 2), ("l1", 1, jnp.inf), ("linf", jnp.inf, 1)):
            ball = cloud / jnp.linalg.norm(cloud, order, axis=1, keepdims=True)
            step = steepest_step(g, 1.0, name)
            cosine = -step @ g / (jnp.linalg.norm(step) * jnp.linalg.norm(g))
            found.append((step @ g, (ball @ g).min(), -jnp.linalg.norm(g, dual), jnp.linalg.norm(step, order), cosine))
        return jnp.stack([jnp.stack(row) for row in found])

    value, sampled, predicted, length, cosine = measure(key).T
    yield equal("value: minus the dual norm (l2, l1, linf)", value, predicted, rtol=1e-12)
    yield equal("length (l2, l1, linf)", length, 1.0, rtol=1e-12)
    yield at_least("random points of the same balls are no lower", sampled, value, rtol=1e-12)
    yield equal("along the negative gradient in the l2 ball", cosine[0], 1.0, rtol=1e-12)
    for name, c in zip(("l1", "linf"), cosine[1:], strict=True):
        yield control(f"the ball of {name}", equal("along the negative gradient", c, 1.0, rtol=1e-3))
