"""The perceptron algorithm: what it computes, and when it never stops."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.linear._planted import planted
from corollary.evidence import Size, at_least, at_most, claim, control, equal
from corollary.linear import in_version_space, perceptron, perceptron_path, separability


def _printed(x, y, sweeps):
    """Algorithm 1 as printed: point after point, sweep after sweep. The state after each sweep, and its mistakes."""

    def present(theta, point):
        x, y = point
        wrong = jnp.sign(theta[:-1] @ x + theta[-1]) != y
        return jnp.where(wrong, theta + y * jnp.append(x, 1.0), theta), wrong

    def sweep(theta, _):
        theta, wrong = jax.lax.scan(present, theta, (x, y))
        return theta, (theta, wrong)

    return jax.lax.scan(sweep, jnp.zeros(x.shape[1] + 1), length=sweeps)[1]


def _whole(key, sets, s, d):
    """Small whole numbers, with which the algorithm computes without any rounding: points within 3 of the origin in
    each coordinate, labelled by a hyperplane with weights up to 2 and the bias ½."""
    x_key, w_key = jax.random.split(key)
    x = jax.random.randint(x_key, (sets, s, d), -3, 4).astype(float)
    w = jax.random.randint(w_key, (sets, d), -2, 3).astype(float)
    return x, jnp.where(jnp.einsum("ksd,kd->ks", x, w) + 0.5 > 0, 1.0, -1.0)


@claim(rows=("E01.09", "M04.01", "M04.04"))
def algorithm(key, *, sets: Size = 50, s: Size = 20, d: Size = 3):
    r"""The perceptron stops in the version space, at a sum of the points it got wrong.

    From zero, with $w\leftarrow w+\eta yx$, $b\leftarrow b+\eta y$ at every mistake, on separable data: the algorithm
    stops, and its $(w,b)$ classifies all points correctly. With $\alpha_i$ mistakes on point $i$,
    $w=\eta\sum_i\alpha_iy_ix_i$ and $b=\eta\sum_i\alpha_iy_i$. The bias can be absorbed as the weight of a
    constant feature, and $\eta>0$ changes the scale of $(w,b)$ but no mistake; from another start it does.
    """
    data_key, start_key = jax.random.split(key)
    x, y = _whole(data_key, sets, s, d)
    # Novikoff's bound in the space of (x, 1) for the hyperplane behind the labels: no sweep before the end is clean
    sweeps = int((9 * d + 1) * (4 * d + 0.25) / 0.25) + 1
    start = jax.random.randint(start_key, (sets, d + 1), -9, 10).astype(float)
    steps = jnp.array([1.0, 0.25, 8.0, 1.0, 0.25, 8.0])  # powers of two, which round nothing
    from_zero = jnp.arange(6) < 3

    @jax.jit
    def measure(x, y, start):
        def one(x, y, start):
            starts = jnp.where(from_zero[:, None], 0.0, start)
            runs = jax.vmap(lambda step, start: perceptron(x, y, step=step, start=start))(steps, starts)
            state, wrong = _printed(x, y, sweeps)
            absorbed = perceptron(jnp.concatenate([x, jnp.ones((s, 1))], axis=1), y, bias=False)
            sums = jnp.concatenate([(runs.counts * y) @ x, (runs.counts @ y)[:, None]], axis=1)
            return {
                "theta": jnp.concatenate([runs.w, runs.b[:, None]], axis=1) / steps[:, None],
                "counts": runs.counts,
                "sums": sums,
                "sweeps": runs.sweeps[0],
                "member": in_version_space(runs.w, runs.b, x, y),
                "printed": state[-1],
                "printed counts": jnp.sum(wrong, axis=0),
                "printed sweeps": jnp.sum(jnp.any(wrong, axis=1)) + 1,
                "printed end": jnp.sum(wrong[-1]),
                "absorbed": absorbed.w,
            }

        return jax.vmap(one)(x, y, start)

    m = measure(x, y, start)
    exact = {"rtol": 0, "atol": 0}
    theta, counts = m["theta"], m["counts"]
    yield equal("mistakes in the last sweep of the printed algorithm", m["printed end"], 0)
    yield equal("(w, b), against the printed algorithm", theta[:, 0], m["printed"], **exact)
    yield equal("mistakes on each point, against the printed algorithm", counts[:, 0], m["printed counts"], **exact)
    yield equal("sweeps, against the printed algorithm", m["sweeps"], m["printed sweeps"], **exact)
    yield equal("in the version space", m["member"], 1)
    yield equal("(w, b), against the sum of the mistakes", theta[:, 0], m["sums"][:, 0], **exact)
    yield equal("(w, b) with the bias absorbed", m["absorbed"], theta[:, 0], **exact)
    yield equal("(w, b) / η", theta[:, 1:3], theta[:, :1], **exact)
    yield equal("mistakes for other η", counts[:, 1:3], counts[:, :1], **exact)
    yield control("the start is not zero", equal("mistakes for other η", counts[:, 4:], counts[:, 3:4]))
    yield control(
        "the start is not zero", equal("(w, b), against the sum of the mistakes", theta[:, 3], m["sums"][:, 3])
    )


@claim(rows=("E01.10", "M01.03"))
def never_stops(key, *, sets: Size = 60, s: Size = 8, sweeps: Size = 1000):
    r"""On data that no hyperplane separates the perceptron errs in every sweep; its weights stay bounded and return.

    If $\mathcal V(S)=\emptyset$ then every sweep contains a mistake. All the same the weights stay bounded (Block and
    Levin), and with whole-numbered data they are whole, so that the states after the sweeps end in a cycle. On XOR the
    state $w=(-1,-1)$, $b=-1$ is reached after the first sweep and again after every other, with four mistakes in each,
    and the norm of $(w,b)$ never exceeds $\sqrt3$.
    """
    x_key, y_key, easy_key = jax.random.split(key, 3)
    x = jax.random.randint(x_key, (sets, s, 2), -2, 3).astype(float)
    y = jax.random.rademacher(y_key, (sets, s)).astype(float)
    run = jax.jit(jax.vmap(lambda x, y: _printed(x, y, sweeps)))
    states, wrong = run(x, y)
    linear = np.array([separability(a, b).separable for a, b in zip(x, y, strict=True)])
    mistakes = np.asarray(jnp.sum(wrong, axis=2))
    yield at_least("data sets that linear programming calls not separable", (~linear).sum(), 1)
    yield at_least("mistakes in each sweep", mistakes[~linear], 1, along="sweep")
    norms = np.asarray(jnp.linalg.norm(states, axis=2))[~linear]
    half = sweeps // 2
    yield at_most(
        "greatest norm in the second half of a run, against the first", norms[:, half:].max(1), norms[:, :half].max(1)
    )
    again = np.asarray(jnp.any(jnp.all(states[:, half:-1] == states[:, -1:], axis=2), axis=1))
    yield equal("the last state was there before", again[~linear], 1)
    corners = jnp.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    path = perceptron_path(corners, jnp.array([1.0, 1.0, -1.0, -1.0]), updates=4 * sweeps - 1)
    ends = jnp.concatenate([path.w, path.b[:, None]], axis=1)
    yield equal("XOR: the state after each sweep", ends[3::4], jnp.array([-1.0, -1.0, -1.0]))
    yield equal("XOR: mistakes in each later sweep", jnp.bincount(path.clock // 4, length=sweeps)[1:], 4)
    yield equal("XOR: greatest norm", jnp.linalg.norm(ends, axis=1).max(), 3**0.5)
    easy = jnp.sum(run(*_whole(easy_key, sets, s, 2))[1], axis=2)
    yield control("the data are separable", at_least("mistakes in each sweep", easy, 1, along="sweep"))


@claim(rows=("E01.15",))
def larger_margin_is_easier(key, *, sets: Size = 20, s: Size = 60, d: Size = 5, orders: Size = 100):
    r"""On average the perceptron makes fewer mistakes on data with the larger margin.

    The same points, moved away from the separating hyperplane by 0.05 and by 0.5, in many random orders. Only the bound
    $R^2/\gamma^2$ is monotone in the margin, not the count of each run: hence the average.
    """
    data_key, order_key = jax.random.split(key)
    order = jax.vmap(lambda k: jax.random.permutation(k, s))(jax.random.split(order_key, orders))
    u, narrow, y = planted(data_key, sets, s, d, 0.05)
    _, wide, _ = planted(data_key, sets, s, d, 0.5)
    x = jnp.stack([narrow, wide])

    @jax.jit
    def measure(x, y, order):
        def one(x, y):
            return jax.vmap(lambda order: perceptron(x, y, bias=False, order=order).updates)(order)

        return jax.vmap(jax.vmap(one), (0, None))(x, y)

    updates = measure(x, y, order)
    gamma = jnp.min(y * jnp.einsum("gksd,kd->gks", x, u), axis=2)
    yield equal("difference of the margins", gamma[1] - gamma[0], 0.45)
    mean = jnp.mean(updates, axis=2)
    difference = mean[0] - mean[1]
    # sets are independent: five standard errors of the mean difference leave no doubt of its sign
    yield at_least("difference of the mean updates, less five standard errors", _less_doubt(difference), 0)
    halves = jnp.mean(updates[0].reshape(sets, 2, -1), axis=2)
    yield control(
        "both groups have the same gap",
        at_least(
            "difference of the mean updates, less five standard errors", _less_doubt(halves[:, 0] - halves[:, 1]), 0
        ),
    )


def _less_doubt(samples):
    return jnp.mean(samples) - 5 * jnp.std(samples, ddof=1) / samples.size**0.5
