"""Different parameters, one function: turned units, equivalent minimisers, and where the loss does not move at all."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from corollary.claims.nets._regions import heat_maps, off_axes, square
from corollary.evidence import Positive, Size, at_least, at_most, claim, control, equal, monotone, printed
from corollary.nets import (
    MLP,
    FeedForward,
    flip_hidden,
    hidden_symmetries,
    logistic,
    parameter_count,
    smooth_step,
    truth_table_network,
)


def _fourth_quadrant(eps):
    """(5.8) and (5.9): the networks 2-2-1 with the steps of x and -y, and with the steps of x and y."""
    by_mirror = [
        (jnp.diag(jnp.array([1.0, -1.0])) / eps, jnp.zeros(2)),
        (jnp.ones((1, 2)) / eps, jnp.array([-1.5 / eps])),
    ]
    by_sign = [(jnp.eye(2) / eps, jnp.zeros(2)), (jnp.array([[1.0, -1.0]]) / eps, jnp.array([-0.5 / eps]))]
    return FeedForward.of(by_mirror, logistic), FeedForward.of(by_sign, logistic)


@claim(rows=("M05.07",))
def two_minimisers(key, *, points: Size = 500, eps: Positive = 0.1):
    r"""A loss never has just one minimiser: hidden units can be turned and reordered.

    $S_\varepsilon(S_\varepsilon(x)+S_\varepsilon(-y)-\frac32)=S_\varepsilon(S_\varepsilon(x)-S_\varepsilon(y)-\frac12)$
    for all $x,y$: two networks for the fourth quadrant with different parameters, one function, hence one loss on any
    data. In general $(w,b,c)\to(-w,-b,-c)$ with $c$ added to the outer bias leaves a logistic network unchanged; with
    the permutations a layer of $N$ units has $2^NN!$ equivalent parameters, 48 different ones for $N=3$.
    """
    point_key, label_key, net_key = jax.random.split(key, 3)
    x = jax.random.normal(point_key, (points, 2))
    labels = jax.random.uniform(label_key, (points,))
    network = MLP((2, 3, 1), logistic, key=net_key)

    @jax.jit
    def measure(x, network):
        mirror, sign = _fourth_quadrant(eps)
        one, two = jax.vmap(mirror)(x)[:, 0], jax.vmap(sign)(x)[:, 0]
        formula = smooth_step(smooth_step(x[:, 0], eps) - smooth_step(x[:, 1], eps) - 0.5, eps)
        flat = [ravel_pytree(n)[0] for n in (mirror, sign, flip_hidden(mirror, 0, jnp.array([1.0, -1.0])))]
        all_networks = hidden_symmetries(network)
        outputs = jax.vmap(lambda n: jax.vmap(n)(x)[:, 0])(all_networks)
        vectors = jax.vmap(lambda n: ravel_pytree(n)[0])(all_networks)
        apart = jnp.linalg.norm(vectors[:, None] - vectors[None], axis=-1) + jnp.eye(len(vectors)) * 1e3
        # turned without telling the outer bias
        wrong = eqx.tree_at(lambda n: n.layers[1].bias, flip_hidden(network, 0, -jnp.ones(3)), network.layers[1].bias)
        return one, two, formula, flat, outputs, jax.vmap(network)(x)[:, 0], apart.min(), jax.vmap(wrong)(x)[:, 0]

    one, two, formula, flat, outputs, plain, apart, wrong = measure(x, network)
    # rounding of arguments of size 1/ε, magnified by 1/(4ε) in the outer layer
    rounding = 10 * 2.3e-16 / eps / (4 * eps)
    yield equal("(5.8) against (5.9)", one, two, rtol=0, atol=rounding)
    yield equal("(5.9) against its formula", two, formula, rtol=0, atol=rounding)
    losses = [jnp.mean((o - labels) ** 2) for o in (one, two)]
    yield equal("loss on random labels", losses[0], losses[1], rtol=1e-12)
    yield at_least("distance of the two parameter vectors, times ε", eps * jnp.linalg.norm(flat[0] - flat[1]), 1.0)
    yield equal("the second unit of (5.8) turned round is (5.9)", flat[2], flat[1], rtol=1e-14)
    yield equal("parameter vectors from three units", outputs.shape[0], 48, rtol=0, atol=0)
    yield at_least("smallest distance between any two of them", apart, 1e-6)
    yield equal("one function", outputs, jnp.broadcast_to(plain, outputs.shape), rtol=1e-12)
    yield control("the outer bias changes too: here not", equal("one function", wrong, plain, rtol=1e-12))
    u, v = square()
    grid = jnp.stack([u, v], 1)
    fields = {name: jax.vmap(n)(grid) for name, n in zip(("(5.8)", "(5.9)"), _fourth_quadrant(eps), strict=True)}
    yield heat_maps("one function from two parameter vectors", fields, columns=2, size=120)


@claim(
    rows=("M05.07",),
    erratum="The second quadrant is written as R+ x R+ in both displays below (5.9).",
)
def printed_second_quadrant(key, *, eps: Positive = 0.05, margin: Positive = 0.3):
    r"""The difference of the two steps is -1 on R+ x R+.

    As printed: $S_\varepsilon(x)-S_\varepsilon(y)\approx-1$ "if $(x,y)\in\mathbb R_+\times\mathbb R_+$ (2nd
    quadrant)". It is near 0 there, and near $-1$ on $\mathbb R_-\times\mathbb R_+$.
    """
    x, y = off_axes(2.0, margin)
    difference = smooth_step(x, eps) - smooth_step(y, eps)
    error = 2 / (1 + np.exp(margin / eps))
    second = (x < 0) & (y > 0)
    yield equal("on R- x R+, the second quadrant", difference[second], -1.0, rtol=0, atol=error)
    yield printed(equal("on R+ x R+, as printed", difference[(x > 0) & (y > 0)], -1.0, rtol=0, atol=error))


def _degenerate(key, eps, outer_scale):
    """A 2-2-2-1 network with random inner layers and the last layer (5.16), or one that is not zero."""
    parts = jax.random.split(key, 5)
    inner = [(jax.random.normal(parts[0], (2, 2)), jax.random.normal(parts[1], (2,))),
             (jax.random.normal(parts[2], (2, 2)), jax.random.normal(parts[3], (2,)))]  # fmt: skip
    outer = outer_scale * jax.random.normal(parts[4], (1, 2)) / eps
    return FeedForward.of([*inner, (outer, jnp.array([-0.5 / eps]))], logistic)


@claim(rows=("M05.13",))
def flat_directions(key, *, points: Size = 60, nets: Size = 8, eps: Positive = 0.2):
    r"""Where the last weights vanish the loss does not see the other layers at all.

    In the network 2-2-2-1 with $W^{(3)}=0$ and $B^{(3)}=-\frac1{2\varepsilon}$ (5.16) the output is
    $S(-\frac1{2\varepsilon})$ whatever the twelve numbers $W^{(1)},B^{(1)},W^{(2)},B^{(2)}$ are. The loss is constant
    in them, its gradient and its Hessian in them are exactly 0, and of the 15 eigenvalues of the whole Hessian at
    least 10 vanish: the mixed block has rank at most 2. The gradient in $W^{(3)}$ is not 0.
    """
    data_key, label_key, net_key = jax.random.split(key, 3)
    x = jax.random.normal(data_key, (points, 2))
    y = jax.random.bernoulli(label_key, 0.5, (points,)).astype(float)

    @jax.jit
    def measure(keys, scale, x, y):
        def one(k):
            flat, rebuild = ravel_pytree(_degenerate(k, eps, scale))
            loss = lambda t: jnp.mean((jax.vmap(rebuild(t))(x)[:, 0] - y) ** 2)  # noqa: E731
            hessian = jax.hessian(loss)(flat)
            eigenvalues = jnp.sort(jnp.abs(jnp.linalg.eigvalsh(hessian)))
            return jax.vmap(rebuild(flat))(x)[:, 0], loss(flat), jax.grad(loss)(flat), hessian[:12, :12], eigenvalues

        return jax.vmap(one)(keys)

    keys = jax.random.split(net_key, nets)
    outputs, losses, gradients, block, eigenvalues = measure(keys, 0.0, x, y)
    yield equal("output", outputs, 1 / (1 + jnp.exp(0.5 / eps)), rtol=1e-14)
    yield equal("loss, of many inner parameters", losses, losses[0], rtol=1e-14)
    yield equal("gradient in the inner parameters", gradients[:, :12], 0.0, rtol=0, atol=0)
    yield equal("Hessian in the inner parameters", block, 0.0, rtol=0, atol=0)
    # an eigenvalue of a symmetric matrix is off by at most the rounding of its norm
    scaled = eigenvalues / eigenvalues[:, -1:]
    yield at_most("the ten smallest of 15 eigenvalues over the largest", scaled[:, :10], 15 * 2.3e-16)
    yield at_least("size of the gradient in the last weights", jnp.linalg.norm(gradients[:, 12:14], axis=1), 1e-6)
    moving = measure(keys, 1.0, x, y)
    yield control("with other last weights", equal("gradient in the inner parameters", moving[2][:, :12], 0.0))
    yield control("with other last weights", equal("loss", moving[1], moving[1][0]))


@claim(
    rows=("M05.13",),
    erratum="For finite ε neither (5.15) nor (5.16) is a minimiser: the infimum 0 is not attained.",
)
def printed_global_minima(key, *, eps: Positive = 0.1, points: Size = 50):
    r"""The loss for labels 0 has a global minimum at (5.15) and at (5.16).

    As printed below (5.16): the loss "has multiple global minima (at (5.15) and (5.16))". With all labels 0 the squared
    loss is positive everywhere and its infimum 0 lies at infinity. Both points have the loss of about
    $S(-\frac1{2\varepsilon})^2$; the more their last bias is multiplied, the smaller it is, and it tends to 0. What is
    true is that at (5.16) the loss is constant in the inner parameters.
    """
    x = jax.random.normal(key, (points, 2))
    first = truth_table_network("nowhere", eps)
    second = eqx.tree_at(lambda n: n.layers[2].weight, first, jnp.zeros((1, 2)))

    @jax.jit
    def loss(network, x):
        return jnp.mean(jax.vmap(network)(x)[:, 0] ** 2)

    factors = 2.0 ** jnp.arange(5)
    for name, network in (("(5.15)", first), ("(5.16)", second)):
        scaled = [eqx.tree_at(lambda n: n.layers[2].bias, network, f * network.layers[2].bias) for f in factors]
        losses = jnp.stack([loss(n, x) for n in scaled])
        yield at_least(f"{name} and other last biases: the loss is positive", losses, np.finfo(float).tiny)
        yield monotone(
            f"{name}: loss, last bias times 1, 2, 4, ...", losses, "decreasing", strict=True, x=factors, along="factor"
        )
        yield printed(at_most(f"loss at {name}, at most the loss elsewhere", losses[0], losses[1:].min()))
    inner = eqx.tree_at(lambda n: n.layers[0].weight, second, jax.random.normal(key, (2, 2)))
    yield equal("(5.16): loss with other inner weights", loss(inner, x), loss(second, x), rtol=1e-14)


@claim(
    rows=("M05.13",),
    erratum="The first weights are a 2 x 2 matrix, not 2 x 1, so that 12 inner numbers are free and not 10.",
)
def printed_dimension(key, *, eps: Positive = 0.1):
    r"""The free parameters in (5.16) are elements of R^(2x1), R^2, R^(2x2), R^2.

    As printed; together that would be $2+2+4+2=10$ numbers. The network takes two inputs: the first weights are in
    $\mathbb R^{2\times2}$, and there are $4+2+4+2=12$.
    """
    network = truth_table_network("nowhere", eps)
    inner = parameter_count(network.layers[:2])
    yield equal("inner parameters, corrected", inner, 4 + 2 + 4 + 2, rtol=0, atol=0)
    yield printed(equal("inner parameters, as printed", inner, 2 + 2 + 4 + 2, rtol=0, atol=0))
