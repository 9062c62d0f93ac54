"""Losses of networks are not convex, their gradients not bounded, their minima many (M chapters 7 and 8)."""

import itertools
from typing import Annotated

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.evidence import Range, Size, at_least, at_most, claim, control, equal, rate
from corollary.nets import MLP, Classifier, hidden_symmetries, mean_loss, tanh
from corollary.optimization import chord_gap, classify_critical_point

RADII = 10.0 ** jnp.arange(0, 5)


def _ray(f, start, direction, radii=RADII):
    """Norms of the gradient of `f` and of its Hessian times a unit vector, at start + R direction."""

    probe = jnp.ones_like(direction) / direction.size**0.5

    def norms(radius):
        slope, bend = jax.jvp(jax.grad(f), (start + radius * direction,), (probe,))
        return jnp.linalg.norm(slope), jnp.linalg.norm(bend)

    return jax.vmap(norms)(radii)


def _rectified(depth, width=3, inputs=2):
    """A network of `depth` hidden layers of rectified units without biases, of one flat vector of parameters."""
    sizes = (inputs, *[width] * depth, 1)
    shapes = [(m, n) for n, m in itertools.pairwise(sizes)]
    total = sum(m * n for m, n in shapes)

    def network(theta, x):
        at = 0
        for i, (m, n) in enumerate(shapes):
            x = x @ theta[at : at + m * n].reshape(m, n).T
            x = jax.nn.relu(x) if i < depth else x
            at += m * n
        return x[..., 0]

    return network, total


@claim(rows=("M07.12", "M07.34", "M08.10"))
def unbounded_gradients(key, *, n: Size = 20):
    r"""The gradient of a network's loss is neither bounded nor Lipschitz continuous.

    Without biases a network of $L$ hidden layers of rectified units is homogeneous of degree $L+1$ in its parameters:
    along $\theta=Ru$ its gradient grows like $R^L$ and its Hessian like $R^{L-1}$, those of its squared loss like
    $R^{2L+1}$ and $R^{2L}$; $L=1$: 3 and 2. A tanh network has both of order $R^2$ when only its outer weights grow. So
    the premises of Theorem 7.3 fail. For logistic regression the Hessian never exceeds
    $\frac14\overline{\|x\|^2}$.
    """
    depths = (1, 2, 3)

    @jax.jit
    def measure(key):
        x_key, y_key, u_key = jax.random.split(key, 3)
        x, y = jax.random.normal(x_key, (n, 2)), jax.random.normal(y_key, (n,))
        out = {}
        for depth in depths:
            network, size = _rectified(depth)
            u = jnp.abs(jax.random.normal(u_key, (size,))) + 0.1  # positive weights: no unit is dead on all points
            out[depth] = (
                _ray(lambda t, f=network: f(t, jnp.abs(x[0])), jnp.zeros(size), u),
                _ray(lambda t, f=network: jnp.mean((y - f(t, x)) ** 2), jnp.zeros(size), u),
            )

        def smooth(theta):
            w, c = theta[:6].reshape(3, 2), theta[6:]
            return jnp.mean((y - jnp.tanh(x @ w.T) @ c) ** 2)

        start = jax.random.normal(u_key, (9,)).at[6:].set(0)
        outer = jnp.zeros(9).at[6:].set(jax.random.normal(y_key, (3,)))

        def logistic(theta):
            return jnp.mean(jax.nn.softplus(-jnp.sign(y) * (x @ theta)))

        return (
            out,
            _ray(smooth, start, outer, 1000 * RADII),
            _ray(logistic, jnp.zeros(2), x[1]),
            jnp.mean(jnp.sum(x**2, 1)) / 4,
        )

    found, (slope, bend), (regression_slope, regression), bound = measure(key)
    for depth, (output, loss) in found.items():
        yield rate(f"{depth} hidden: gradient of the output", RADII, output[0], float(depth), tolerance=0.01, along="R")
        if depth > 1:
            expected = float(depth - 1)
            yield rate(f"{depth} hidden: Hessian of the output", RADII, output[1], expected, tolerance=0.01, along="R")
        far = slice(1, None)  # near the origin the labels count too
        yield rate(
            f"{depth} hidden: gradient of the loss", RADII[far], loss[0][far], 2.0 * depth + 1, tolerance=0.1, along="R"
        )
        yield rate(
            f"{depth} hidden: Hessian of the loss", RADII[far], loss[1][far], 2.0 * depth, tolerance=0.1, along="R"
        )
    yield rate("tanh, outer weights: gradient", 1000 * RADII, slope, 2.0, tolerance=0.1, along="R")
    yield rate("tanh, outer weights: Hessian", 1000 * RADII, bend, 2.0, tolerance=0.1, along="R")
    yield at_most("logistic regression: Hessian", regression, bound, x=RADII, along="R")
    yield control(
        "a model that is linear in its parameters, logistic regression",
        rate("gradient", RADII[1:], regression_slope[1:] + 1e-300, 2.0, tolerance=0.1, along="R"),
    )


@claim(rows=("M07.31",))
def many_global_minima(key, *, n: Size = 30):
    r"""Renaming and turning round its hidden units gives a network many parameters with one loss.

    With $d_H$ different units there are $d_H!$ orders, for an odd activation also $2^{d_H}$ signs: 48 parameter vectors
    for three tanh units, all with one loss; so a minimiser is never unique. If two units are the same, there are fewer.
    """
    x_key, y_key, net_key = jax.random.split(key, 3)
    x, y = jax.random.normal(x_key, (n, 2)), jax.random.randint(y_key, (n,), 0, 2)

    @jax.jit
    def measure(net_key, x, y):
        network = MLP((2, 3, 2), tanh, key=net_key)
        twin = eqx.tree_at(
            lambda m: [a for layer in m.layers for a in (layer.weight, layer.bias)],
            network,
            [
                network.layers[0].weight.at[1].set(network.layers[0].weight[0]),
                network.layers[0].bias.at[1].set(network.layers[0].bias[0]),
                network.layers[1].weight.at[:, 1].set(network.layers[1].weight[:, 0]),
                network.layers[1].bias,
            ],
        )

        def family(network):
            every = hidden_symmetries(network)
            vectors = jnp.concatenate([a.reshape(48, -1) for a in jax.tree.leaves(every)], axis=1)
            return jax.vmap(lambda m: mean_loss(Classifier.of(m), (x, y)))(every), vectors

        moved = jax.tree.map(lambda a: a + 0.1, network)
        return family(network), family(twin)[1], mean_loss(Classifier.of(moved), (x, y))

    (losses, vectors), twins, other = measure(net_key, x, y)

    def different(vectors):
        return len(np.unique(np.round(np.asarray(vectors), 12), axis=0))

    yield equal("losses of all", losses, losses[0], rtol=1e-14)
    yield equal("different parameters", different(vectors), 48, rtol=0, atol=0)
    yield control("two units the same", equal("different parameters", different(twins), 48, rtol=0, atol=0))
    yield control("parameters moved by 0.1", equal("loss", other, losses[0], rtol=1e-14))


@claim(rows=("M07.32", "M07.13"))
def bad_local_minima(key, *, dim: Annotated[int, Range(2, 5)] = 3):
    r"""One logistic unit with the squared loss can have exponentially many local minima, all but one of them bad.

    $m(x;w)=S(w\cdot x)$ on data along the axes: the points $e_j$ with label 0.8 and $-0.1e_j$ with label 0.9 for each
    of $d$ coordinates. The loss is a sum over coordinates, each with two local minima, near $w=1.0675$ (0.18516) and
    near $w=-21.97$ (0.64000): $2^d$ local minima with positive definite Hessian, one of them global. With the
    cross-entropy in place of the squared loss the problem is convex, and all starts end in one point.
    """
    corners = jnp.array(list(itertools.product((1.0, -22.0), repeat=dim)))
    x = jnp.concatenate([jnp.eye(dim), -0.1 * jnp.eye(dim)])
    y = jnp.concatenate([jnp.full(dim, 0.8), jnp.full(dim, 0.9)])

    def squared(w):
        return jnp.sum((jax.nn.sigmoid(x @ w) - y) ** 2)

    def entropy(w):
        return jnp.sum(y * jax.nn.softplus(-x @ w) + (1 - y) * jax.nn.softplus(x @ w))

    @jax.jit
    def measure(starts):
        def polish(f, w):
            def step(w, _):
                return w - jnp.linalg.solve(jax.hessian(f)(w) + 1e-9 * jnp.eye(dim), jax.grad(f)(w)), None

            return jax.lax.scan(step, w, length=60)[0]

        def descend(f, w):
            # along each axis the curvature is at most 1/4 + 1/100 and a little: steps of one never jump a hill
            return jax.lax.scan(lambda w, _: (w - jax.grad(f)(w), None), w, length=400)[0]

        ends = jax.vmap(lambda w: polish(squared, descend(squared, w)))(starts)
        points = jax.vmap(lambda w: classify_critical_point(squared, w, 1e-8))(ends)
        convex = jax.vmap(lambda w: polish(entropy, descend(entropy, w / 10)))(starts)
        return ends, jax.vmap(squared)(ends), points, convex

    noise = jax.random.uniform(key, corners.shape, minval=-0.5, maxval=0.5)
    ends, values, points, convex = measure(corners + noise)
    yield equal("local minima with definite Hessian", points.minimum, True, rtol=0, atol=0)
    apart = np.unique(np.round(np.asarray(ends), 6), axis=0)
    yield equal("how many different ones", len(apart), 2**dim, rtol=0, atol=0)
    bad = (corners < 0).sum(1)
    # the values are catalogued to five digits
    predicted = 0.18516 * (dim - bad) + 0.64 * bad
    yield equal("their values, sums over the coordinates", values, predicted, rtol=0, atol=2e-5 * dim)
    yield equal("how many attain the least", jnp.sum(values < values.min() + 1e-6), 1, rtol=0, atol=0)
    yield equal("where the minima are", ends, jnp.where(corners > 0, 1.0675, -21.97), rtol=0, atol=0.01)
    single = len(np.unique(np.round(np.asarray(convex), 6), axis=0))
    yield control(
        "the cross-entropy in place of the squared loss",
        equal("how many different ones", single, 2**dim, rtol=0, atol=0),
    )


@claim(rows=("M07.35",))
def not_convex_in_the_parameters(key):
    r"""A network is neither convex nor concave in its parameters.

    $m=c\tanh(wx)$ at $x=1$: halfway between $(c,w)=(1,1)$ and $(-1,-1)$ it is 0, below the average $\tanh1$; halfway
    between $(1,-1)$ and $(-1,1)$ it is 0, above the average $-\tanh1$. In $c$ alone it is linear.
    """
    scale = jax.random.uniform(key, (), minval=0.5, maxval=2.0)

    def model(theta):
        return theta[0] * jnp.tanh(theta[1])

    corner = scale * jnp.ones(2)
    mixed = corner * jnp.array([1.0, -1.0])
    up, down = chord_gap(model, corner, -corner), chord_gap(model, mixed, -mixed)
    height = scale * jnp.tanh(scale)
    yield equal("average less the value halfway, equal signs", up, height)
    yield equal("average less the value halfway, opposite signs", down, -height)
    outer = chord_gap(model, corner, corner * jnp.array([-3.0, 1.0]))
    yield equal("outer weight alone: linear", outer, 0.0)
    alone = chord_gap(model, corner, corner * jnp.array([-1.0, 1.0]))
    yield control("the outer weight alone changes", equal("average less the value halfway", alone, height))


@claim(rows=("M08.13",))
def dead_layers(key, *, n: Size = 20, balls: Size = 200):
    r"""A layer of dead units is a local minimum that is not global, and a whole open set of them.

    A network $1$-$3$-$3$-$1$ of rectified units with the squared loss. If the biases of the second hidden layer are so
    low that none of its units is active on the data, the output is its last bias; at the mean of the labels the
    gradient is zero, nearby parameters have no smaller loss, the Hessian is positive semidefinite, and the loss is
    $\mathrm{var}(y)$, while other parameters fit better. With active units the same construction is no minimum.
    """

    def network(theta, x):
        w1, b1, w2, b2, w3, b3 = theta
        h = jax.nn.relu(x[:, None] * w1 + b1)
        return jax.nn.relu(h @ w2.T + b2) @ w3 + b3

    @jax.jit
    def measure(key):
        x_key, w_key, ball_key = jax.random.split(key, 3)
        x = jax.random.uniform(x_key, (n,), minval=-1.0, maxval=1.0)
        y = jnp.maximum(x, 0)  # which a network of this shape represents
        draws = jax.random.normal(w_key, (18,))
        inner = (draws[:3], draws[3:6], draws[6:15].reshape(3, 3))
        reach = jnp.abs(inner[0]).sum() + jnp.abs(inner[1]).sum()
        low = -1 - 2 * reach * jnp.abs(inner[2]).max() * jnp.ones(3)
        dead = (*inner, low, draws[15:], y.mean())
        alive = (*inner, 3 - low, draws[15:], y.mean() - 1.0)
        e1 = jnp.eye(3)[0]
        best = (e1, jnp.zeros(3), jnp.outer(e1, e1), jnp.zeros(3), e1, jnp.zeros(()))
        flat, back = ravel_pytree(dead)

        def loss(theta):
            return jnp.mean((network(back(theta), x) - y) ** 2)

        moves = jax.random.normal(ball_key, (balls, flat.size))
        moves = 0.3 * moves / jnp.linalg.norm(moves, axis=1, keepdims=True)
        nearby = jax.vmap(lambda m: loss(flat + m))(moves)
        frozen = jax.vmap(lambda m: loss(flat + m.at[-1].set(0)))(moves)
        other = ravel_pytree(alive)[0]
        return {
            "value": (loss(flat), jnp.var(y)),
            "slope": jax.grad(loss)(flat),
            "curvature": jnp.linalg.eigvalsh(jax.hessian(loss)(flat)),
            "nearby": nearby,
            "frozen": frozen,
            "best": loss(ravel_pytree(best)[0]),
            "alive": jnp.linalg.norm(jax.grad(loss)(other)),
        }

    m = measure(key)
    yield equal("loss: the variance of the labels", *m["value"])
    yield equal("gradient", m["slope"], 0.0)
    yield at_least("least curvature", m["curvature"][0], 0.0, atol=1e-13)
    yield at_least("loss in a ball of radius 0.3", m["nearby"], m["value"][0])
    yield equal("loss in the ball with the last bias kept", m["frozen"], m["value"][0])
    yield equal("loss of the better network", m["best"], 0.0)
    yield control("units that are active", equal("gradient", m["alive"], 0.0))
