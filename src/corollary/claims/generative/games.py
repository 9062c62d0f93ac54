"""Two players and their gradients: who reaches the saddle, who circles it, and where there is none."""

import itertools

import altair as alt
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linprog

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, picture, printed
from corollary.generative import alternating, extragradient, gda, gda_flow, optimistic, unrolled


def _product(x, y):
    return x * y


def _paths(paths, every=1):
    """The plane with the path of (x, y) of each name."""
    rows = [
        {"x": float(x), "y": float(y), "step": k, "path": name}
        for name, path in paths.items()
        for k, (x, y) in enumerate(np.asarray(path).T[::every])
    ]
    chart = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=1.2, point={"size": 8})
    return chart.encode(
        x=alt.X("x:Q"), y=alt.Y("y:Q"), order="step:Q", color=alt.Color("path:N", title=None)
    ).properties(width=300, height=240)


def _radius(play):
    return jnp.hypot(play.x, play.y)


@claim(rows=("M15.43", "T16.09"))
def bilinear_game(key, *, steps: Count = 1000):
    r"""On f = xy simultaneous steps leave the saddle, alternating ones circle it, those that anticipate arrive.

    With $z=x+iy$ one simultaneous step is $z\mapsto(1+i\eta)z$, so that the distance to the saddle grows by
    $\sqrt{1+\eta^2}$ in each step, for every $\eta>0$ and every start but the saddle itself: 144.7728 after 1,000 steps
    of 0.1 from distance 1. Alternating steps keep $x^2+y^2-\eta xy$, hence stay bounded for $\eta<2$. The extragradient
    step is $z\mapsto(1-\eta^2+i\eta)z$: 6.9108e-3. Optimistic steps solve $z_{k+1}=(1+2i\eta)z_k-i\eta z_{k-1}$, and
    those of an unrolled game have the matrix $((1-2\eta^2,-\eta),(\eta,1))$. All of it along the whole path, from a
    random start, for a random step and for 0.1.
    """

    @jax.jit
    def measure(key):
        angle_key, step_key = jax.random.split(key)
        angle = jax.random.uniform(angle_key, (), maxval=2 * jnp.pi)
        sizes = jnp.stack([jnp.asarray(0.1), jax.random.uniform(step_key, (), minval=0.02, maxval=0.3)])

        def run(method, step):
            return method(_product, (jnp.cos(angle), jnp.sin(angle)), step=step, steps=steps)

        together, turns, ahead, hopeful, reckoned = (
            jax.vmap(lambda step, m=m: run(m, step))(sizes)
            for m in (gda, alternating, extragradient, optimistic, unrolled)
        )
        kept = turns.x**2 + turns.y**2 - sizes[:, None] * turns.x * turns.y
        lengthy = run(alternating, jnp.asarray(2.05))
        at_rest = gda(_product, (0.0, 0.0), step=0.1, steps=steps)
        plays = together, turns, ahead, hopeful, reckoned
        drawn = [jnp.stack([play.x[0, :160], play.y[0, :160]]) for play in plays]
        return sizes, angle, [_radius(play) for play in plays], kept, _radius(lengthy)[:200], _radius(at_rest), drawn

    sizes, angle, (together, turns, ahead, hopeful, reckoned), kept, lengthy, at_rest, drawn = measure(key)
    sizes, k = np.asarray(sizes)[:, None], np.arange(steps + 1)
    start = np.exp(1j * float(angle))
    along = {"x": k, "along": "step"}
    # relative errors of a thousand products
    yield equal("distance, simultaneous", together, np.sqrt(1 + sizes**2) ** k, rtol=1e-10, **along)
    if steps == 1000:
        yield equal("distance after 1,000 simultaneous steps of 0.1", together[0, -1], 144.7728, rtol=1e-6)
        yield equal("distance after 1,000 extragradient steps of 0.1", ahead[0, -1], 6.9108e-3, rtol=1e-5)
    yield equal("x² + y² - η x y, alternating", kept, np.repeat(kept[:, :1], steps + 1, 1), rtol=1e-10, **along)
    bounded = kept[:, :1] / (1 - sizes / 2)
    yield at_most("squared distance, alternating", turns**2, np.repeat(bounded, steps + 1, 1), **along)
    yield equal("distance, extragradient", ahead, np.abs(1 - sizes**2 + 1j * sizes) ** k, rtol=1e-10, **along)
    # two solutions of the recursion, from z at 0 and (1 + iη) z at 1
    root = np.sqrt((1 + 2j * sizes) ** 2 - 4j * sizes)
    one, two = (1 + 2j * sizes + root) / 2, (1 + 2j * sizes - root) / 2
    share = (1 + 1j * sizes - two) / (one - two)
    yield equal(
        "distance, optimistic", hopeful, np.abs(start * (share * one**k + (1 - share) * two**k)), rtol=1e-9, **along
    )
    yield equal("distance, unrolled", reckoned, _powers(sizes, start, steps), rtol=1e-9, **along)
    yield control(
        "steps below 2: here 2.05",
        at_most("squared distance, alternating", lengthy**2, 2 / (1 - 0.5), x=k[:200], along="step"),
    )
    yield control(
        "a start apart from the saddle",
        at_least("distance after the last step, simultaneous", at_rest[-1], np.sqrt(1.01) ** steps),
    )
    names = "simultaneous", "alternating", "extragradient", "optimistic", "unrolled"
    yield picture("160 steps of 0.1", _paths(dict(zip(names, drawn, strict=True))))


def _powers(sizes, start, steps):
    """How far the powers of the matrix of an unrolled step take the start."""
    found = []
    for step in sizes[:, 0]:
        values, vectors = np.linalg.eig(np.array([[1 - 2 * step**2, -step], [step, 1]], complex))
        shares = np.linalg.solve(vectors, [start.real, start.imag])
        path = (vectors * shares) @ values[:, None] ** np.arange(steps + 1)
        found.append(np.linalg.norm(path.real, axis=0))
    return np.array(found)


def _saddle(x, y):
    return (x - 2 * y) ** 2 - 7 * (y - 1) ** 2


def _moved_saddle(x, y):
    """The same payoff with its saddle at the origin, where distances far below the rounding of 1 can be seen."""
    return (x - 2 * y) ** 2 - 7 * y**2


def _threshold(growth):
    """The step at which `growth` changes its sign, between 0.01 and 0.5, by halving."""

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        return jnp.where(growth(middle) < 0, jnp.stack([middle, high]), jnp.stack([low, middle]))

    return jax.lax.fori_loop(0, 30, halve, jnp.array([0.01, 0.5])).mean()


def _log_growth(x, y, far):
    """How the distance to the origin grows over the last half of a path, as a logarithm."""
    distance = jnp.hypot(x, y)
    return jnp.log(distance[far] / distance[far // 2])


def _as_printed(start, step, steps):
    """The updates of Example 15.8 with the derivative that is printed there, with their fixed point at the origin."""

    def turn(carry, _):
        x, y = carry
        x = x - step * (2 * x - 4 * y)
        y = y + step * (4 * x - 22 * y)
        return (x, y), (x, y)

    return jax.lax.scan(turn, start, length=steps)[1]


@claim(rows=("M15.27", "M15.39"))
def quadratic_saddle(key, *, steps: Count = 200):
    r"""Alternating steps find the saddle (2, 1) of Example 15.8 exactly below the step √5 - 2 = 0.23607.

    For $f=(x-2y)^2-7(y-1)^2$, $\max_y\min_xf$, the matrix of a pair of steps has the trace $2-8\eta-16\eta^2$
    and the determinant $(1-2\eta)(1-6\eta)$; an eigenvalue passes $-1$ where $\eta^2+4\eta=1$. The threshold is located
    by halving on how the distance grows over the last half of a run; below it the path from (0, 0) ends in (2, 1),
    with the payoff 0. Where $f$ is steeper in $y$, here $-9(y-1)^2$, the same step fails.
    """

    @jax.jit
    def measure(key):
        start = tuple(jax.random.uniform(key, (2,), minval=-1.0, maxval=1.0))

        def growth(step):
            play = alternating(_moved_saddle, start, step=step, steps=steps)
            return _log_growth(play.x, play.y, steps)

        shares = jnp.array([0.1, 0.5, 0.9])
        ends = jax.vmap(lambda s: alternating(_saddle, (0.0, 0.0), step=s * (jnp.sqrt(5.0) - 2), steps=2000))(shares)
        steeper = alternating(lambda x, y: _saddle(x, y) - 2 * (y - 1) ** 2, (0.0, 0.0), step=0.235, steps=200)
        drawn = jnp.stack([ends.x[:, :60], ends.y[:, :60]], 1)
        return _threshold(growth), ends.x[:, -1], ends.y[:, -1], ends.values[:, -1], steeper.end, drawn

    threshold, x, y, values, (far_x, far_y), drawn = measure(key)
    # the second eigenvalue is 0.22 there: after half of 200 steps nothing of it is left in sixteen digits
    yield equal("largest step", threshold, np.sqrt(5) - 2, rtol=1e-7)
    yield equal("end of the path", np.stack([x, y]), np.array([[2.0], [1.0]]).repeat(3, 1), rtol=1e-11)
    yield equal("payoff at the end", values, np.zeros(3), atol=1e-20, rtol=0)
    yield control(
        "the payoff of the example: here steeper in y, whose largest step is below",
        equal("end of the path", [far_x, far_y], [2.0, 1.0], rtol=1e-11),
    )
    names = [f"{share} of the largest step" for share in (0.1, 0.5, 0.9)]
    yield picture("from (0, 0) to the saddle", _paths(dict(zip(names, drawn, strict=True))))


@claim(rows=("M15.27",), erratum="The sign of the first term of the derivative of f in y is the wrong way round.")
def printed_derivative(key, *, points: Size = 20, steps: Count = 200):
    r"""For f = (x - 2y)² - 7(y - 1)² the derivative in y is -4(x - 2y) - 14(y - 1).

    As printed: $4(x-2y)-14(y-1)=4x-22y+14$. It differs from the derivative wherever $x\ne2y$. The printed updates have
    the same fixed point (2, 1), but lose it from $\eta=(6-\sqrt{21})/15=0.094495$ on, where
    $15\eta^2-12\eta+1=0$, and not from $\sqrt5-2$ on, as the ascent along the derivative does.
    """

    @jax.jit
    def measure(key):
        at_key, start_key = jax.random.split(key)
        x, y = jax.random.uniform(at_key, (2, points), minval=-3.0, maxval=3.0)
        start = tuple(jax.random.uniform(start_key, (2,), minval=-1.0, maxval=1.0))
        slopes = jax.vmap(jax.grad(_saddle, argnums=1))(x, y)

        def of_printed(step):
            return _log_growth(*_as_printed(start, step, steps + 1), steps)

        def of_slopes(step):
            play = alternating(_moved_saddle, start, step=step, steps=steps)
            return _log_growth(play.x, play.y, steps)

        return x, y, slopes, _threshold(of_printed), _threshold(of_slopes)

    x, y, slopes, of_printed, of_slopes = (np.asarray(a) for a in measure(key))
    # thirty halvings leave 5e-10; the second eigenvalue of the printed updates is 0.875, to the power 100 2e-6
    yield printed(equal("derivative in y, with the printed sign", slopes, 4 * (x - 2 * y) - 14 * (y - 1)))
    yield equal("derivative in y, with the other sign", slopes, -4 * (x - 2 * y) - 14 * (y - 1))
    yield printed(equal("largest step of the printed updates", of_printed, np.sqrt(5) - 2, rtol=1e-6))
    yield equal("largest step of the printed updates, from their own matrix", of_printed, (6 - 21**0.5) / 15, rtol=1e-6)
    yield equal("largest step along the derivative", of_slopes, np.sqrt(5) - 2, rtol=1e-6)


@claim(rows=("M15.42",))
def descent_ascent_flow(key, *, dim: Size = 3, points: Size = 20):
    r"""Gradient descent and ascent in continuous time reaches the saddle at the rate of the strong convexity.

    If $f$ is $\gamma$-strongly convex in what is minimised and $\gamma$-strongly concave in what is maximised, then
    along $\dot x=-\partial_xf$, $\dot y=\partial_yf$ the distance to the saddle is at most $e^{-\gamma t}$ of what it
    was. Measured on quadratic payoffs with random curvatures of $\gamma$ and more, a random bilinear part and convex
    functions that are not quadratic. It is attained, whatever the bilinear part, where all curvatures are $\gamma$.
    Without curvature the distance stays.
    """
    gamma = 0.7
    times = np.linspace(0.1, 4.0, points)

    @jax.jit
    def measure(key):
        a_key, c_key, b_key, u_key, v_key, s_key = jax.random.split(key, 6)
        a, c = (jax.random.normal(k, (dim, dim)) for k in (a_key, c_key))
        mixed = jax.random.normal(b_key, (dim, dim))
        u, v = jax.random.normal(u_key, (dim,)), jax.random.normal(v_key, (dim,))
        start = tuple(jax.random.normal(s_key, (2, dim)))

        def far(payoff):
            play = gda_flow(payoff, start, times, substeps=40)
            distance = jnp.sqrt(jnp.sum(play.x**2, -1) + jnp.sum(play.y**2, -1))
            return distance / jnp.sqrt(jnp.sum(start[0] ** 2 + start[1] ** 2))

        def ball(x, y):
            return gamma / 2 * (x @ x - y @ y) + x @ mixed @ y

        def bent(x, y):
            more = (jnp.sum((a @ x) ** 2) - jnp.sum((c @ y) ** 2)) / 4
            return ball(x, y) + more + jnp.log(jnp.cosh(u @ x)) - jnp.log(jnp.cosh(v @ y))

        return far(bent), far(ball), far(lambda x, y: x @ mixed @ y)

    bent, ball, flat = measure(key)
    decay = np.exp(-gamma * times)
    # the method of Runge and Kutta has an error of (h‖J‖)⁴ a unit of time, with h = 0.005 and norms below 20
    yield at_most("distance, strongly convex and concave", bent, decay, rtol=1e-4, x=times, along="time")
    yield equal("distance, all curvatures alike", ball, decay, rtol=1e-4, x=times, along="time")
    yield equal("distance, bilinear", flat, np.ones(points), rtol=1e-4, x=times, along="time")
    yield control(
        "strong convexity: here a bilinear payoff", at_most("distance", flat, decay, rtol=1e-4, x=times, along="time")
    )


@claim(rows=("T16.11",))
def games_without_equilibrium(key, *, actions: Size = 4, steps: Count = 1000):
    r"""A game of a generator and a discriminator need not have an equilibrium, and gradient play of one oscillates.

    Real data are uniform on $m$ points, the generator puts all it has on one of them, the discriminator is any function
    to $\{0,1\}$, and the payoff is $\mathbb E_{real}D+1-D(G)$. All pairs are enumerated: the discriminator is sure of 1
    only, the generator can hold him to $2-\frac1m$ only, so that no pair of moves is a reply of both to each other.
    With mixed strategies both values are 1, by one linear program for each player. For random payoffs too the first is
    at most the second, and the values of mixed strategies agree. Played by gradients, $f=xy$ turns by
    $\arctan\eta$ a step: the payoff changes its sign as often as that says.
    """

    @jax.jit
    def measure(key):
        angle_key, payoff_key = jax.random.split(key)
        angle = jax.random.uniform(angle_key, (), minval=0.1, maxval=1.4)
        play = gda(_product, (jnp.cos(angle), jnp.sin(angle)), step=0.1, steps=steps)
        signs = jnp.sign(play.values)
        return jax.random.normal(payoff_key, (10, 5, 5)), angle, jnp.sum(signs[1:] != signs[:-1])

    random, angle, changes = measure(key)
    judges = np.array([*itertools.product([0, 1], repeat=actions)])
    payoffs = judges.mean(1) + 1 - judges.T  # a row for each point of the generator, who wants it low
    yield equal("what the discriminator is sure of", payoffs.min(0).max(), 1.0)
    yield equal("what the generator can hold him to", payoffs.max(1).min(), 2 - 1 / actions)
    yield equal("both values with mixed strategies", _mixed(payoffs), (1.0, 1.0), rtol=1e-8)
    values = np.array([_mixed(payoff) for payoff in np.asarray(random)])
    # the solver's own tolerance is 1e-7
    yield equal("random payoffs, mixed strategies of both", values[:, 0], values[:, 1], rtol=1e-6, atol=1e-7)
    pure = np.asarray(random)
    yield at_most("random payoffs, one move each", pure.min(1).max(1), pure.max(2).min(1))
    quarters = (float(angle) + np.arctan(0.1) * np.array([0, steps])) // (np.pi / 2)
    yield equal("changes of sign of the payoff", changes, quarters[1] - quarters[0], rtol=0)
    yield control(
        "any mixture of moves: here one move each",
        equal("what both are sure of", payoffs.min(0).max(), payoffs.max(1).min()),
    )


def _mixed(payoffs):
    """The value of a matrix game for the player of the rows, who wants it low, and for that of the columns."""
    found = []
    for matrix, sign in ((payoffs, 1), (-payoffs.T, -1)):
        n, m = matrix.shape
        solved = linprog(
            np.append(np.zeros(n), 1.0),
            A_ub=np.hstack([matrix.T, -np.ones((m, 1))]),
            b_ub=np.zeros(m),
            A_eq=np.append(np.ones(n), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0, None)] * n + [(None, None)],
        )
        found.append(sign * solved.fun)
    return found
