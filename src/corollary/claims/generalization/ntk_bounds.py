"""The complexity of labels for a tangent kernel: generalisation, movement of the weights, random labels."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from corollary import Network
from corollary.claims.kernels._wide import unit_rows
from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, estimate, monotone
from corollary.generalization import (
    ball_complexity,
    flow_movement,
    label_energy,
    ntk_complexity,
    ntk_generalisation_bound,
)
from corollary.kernels import first_layer_ntk, linearise
from corollary.optimization import Problem, gradient_flow


@claim(rows=("T09.14",))
def generalisation(key, *, n: Size = 800, dim: Size = 5, tests: Size = 1500, draws: Count = 2000):
    r"""What the kernel interpolates with a small norm it predicts: the complexity of the labels bounds the test loss.

    The functions of norm at most $B$ in the space of the kernel have the empirical Rademacher complexity $\frac
    Bn\mathbb E_\sigma\sqrt{\sigma^\top H\sigma}\le\frac Bn\sqrt{\operatorname{tr}H}$, and the interpolant
    $f^*(x)=k(x)^\top H^{-1}y$ has the norm $\sqrt{y^\top H^{-1}y}$. For a loss in $[0,1]$, 1-Lipschitz in the
    prediction (here $\min(|f-y|,1)$), with probability $1-\delta$ and $B=2^k$ the least power, $k\ge0$, that is at
    least that norm, $$\mathbb
    E\,\ell(f^*(x),y)\le\frac{2B}n\sqrt{\operatorname{tr}H}+3\sqrt{\tfrac1{2n}\log\tfrac{2(k+1)(k+2)}\delta},$$ in
    which $\frac1n\sqrt{2y^\top H^{-1}y\operatorname{tr}H}$ (9.11) is the first term but for constants. It is
    unchanged if $H$ is scaled. A function that interpolates with a large norm, zero away from the data, is not
    bounded by it.
    """
    delta = 1e-6  # so rarely may the bound fail at all

    @jax.jit
    def measure(key):
        x_key, b_key, s_key = jax.random.split(key, 3)
        x, beta = unit_rows(x_key, (n + tests, dim)), 2 * unit_rows(b_key, (dim,))
        y = x @ beta
        h, cross = first_layer_ntk(x[:n]), first_layer_ntk(x[n:], x[:n])
        solved = jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(h, lower=True), y[:n])
        signs = jax.random.rademacher(s_key, (draws, n), float)
        suprema = jnp.sqrt(jnp.sum((signs @ h) * signs, 1)) / n
        losses = [jnp.mean(jnp.minimum(jnp.abs(f - y[n:]), 1)) for f in (cross @ solved, 0 * y[n:])]
        return h, y[:n], suprema, losses, y[:n] @ solved

    h, y, suprema, (loss, memory), energy = measure(key)
    bound = ntk_generalisation_bound(h, y, delta)
    # Hoeffding: the mean of the test losses is further than this from the expected loss with a probability of 1e-6
    off = math.sqrt(math.log(1e6) / (2 * tests))
    yield at_most("test loss of the interpolant", loss, bound, atol=off)
    yield equal("squared norm of the interpolant", label_energy(h, y), energy, rtol=1e-7)
    radius = float(jnp.sqrt(energy))
    yield at_most("complexity of the ball, sampled", radius * jnp.mean(suprema), ball_complexity(h, radius))
    yield at_least("share of its bound", jnp.mean(suprema), 0.9 * ball_complexity(h, 1.0))
    yield equal(
        "(9.11) of a kernel a hundred times as large", ntk_complexity(100 * h, y), ntk_complexity(h, y), rtol=1e-7
    )
    yield control(
        "the interpolant of least norm: here one that is zero away from the data",
        at_most("test loss", memory, bound, atol=off),
    )


@claim(rows=("T09.26",))
def movement_identity(key, *, n: Size = 4, dim: Size = 6, width: Size = 60):
    r"""How far the weights of a linearised network go is a quadratic form in the labels.

    Gradient flow on $\frac12\|u-y\|^2$ of a model linear in its parameters, with the kernel $H$ and $r=y-u(0)$:
    $$\|W(t)-W(0)\|_F^2=r^\top(I-e^{-tH})H^{-1}(I-e^{-tH})r\;\nearrow\;r^\top H^{-1}r,$$ the norm that bounds
    generalisation (9.11). The exercise has $y$ in the place of $y-u(0)$, which takes outputs that start at zero. A
    network that is not linearised goes another way.
    """
    times = jnp.array([0.1, 0.5, 1.0, 4.0, 10.0])

    @jax.jit
    def measure(key):
        x_key, y_key, w_key, s_key = jax.random.split(key, 4)
        x, y = unit_rows(x_key, (n, dim)), jax.random.normal(y_key, (n,))
        w, signs = jax.random.normal(w_key, (width, dim)), jax.random.rademacher(s_key, (width,), float)

        def net(w, x):
            return jax.nn.softplus(x @ w.reshape(width, dim).T) @ signs / width**0.5

        start = w.ravel()
        network = Network(net, start)

        def linear(p, x):
            return jax.vmap(linearise(network, network.with_params(p)))(x)

        losses = [lambda p, x, y, f=f: jnp.sum((f(p, x) - y) ** 2) / 2 for f in (linear, net)]
        flows = [gradient_flow(Problem(loss, (x, y), start), times, substeps=100) for loss in losses]
        ways = [jnp.sum((flow.theta - start) ** 2, 1) for flow in flows]
        features = jax.jacrev(net)(start, x)
        return ways, features @ features.T, y, net(start, x)

    (moved, bent), h, y, start = measure(key)
    predicted = flow_movement(h, y, times, start=start)
    # Runge and Kutta with steps of at most 0.06 at eigenvalues of about 2: (0.12)^4/120 per unit of time
    yield equal("squared movement", moved, predicted, rtol=1e-5, x=times, along="t")
    yield monotone("it rises", moved, x=times, along="t")
    yield at_most("and stays below its limit", moved, label_energy(h, y - start), x=times, along="t")
    yield control(
        "a model linear in its parameters: here the network itself",
        equal("squared movement", bent, predicted, rtol=1e-5, x=times, along="t"),
    )


@claim(rows=("T09.15",))
def complexity_follows_random_labels(key, *, n: Size = 200, draws: Count = 100):
    r"""The complexity of the labels rises with the share of random ones, and the test loss with it.

    Handwritten 4 and 9, labels $y=\pm1$, of which $k$ of $n$ are drawn anew at random; predictions by the tangent
    kernel $H$ of the two-layer ReLU network. With $q=\frac{(n-k)(n-k-1)}{n(n-1)}$, the chance that two labels are
    both kept, $\mathbb E\,\tilde y^\top H^{-1}\tilde y=q\,y^\top H^{-1}y+(1-q)\operatorname{tr}H^{-1}$: the square
    of (9.11) moves from what is right to what is random as $1-(1-k/n)^2$. The test loss $\mathbb E\min(|f-y|,1)$
    against right labels follows it.
    """
    from scipy.stats import spearmanr

    from corollary.data import digits

    data = digits()
    keep = np.isin(data.y, (4, 9))
    x = data.x[keep] / np.linalg.norm(data.x[keep], axis=1, keepdims=True)
    y = np.where(data.y[keep] == 4, 1.0, -1.0)
    shares = np.linspace(0, 1, 11)
    changed = np.round(n * shares)

    @jax.jit
    def measure(key, x, y):
        order_key, key = jax.random.split(key)
        order = jax.random.permutation(order_key, x.shape[0])
        a, b = x[order[:n]], x[order[n:]]
        clean, truth = y[order[:n]], y[order[n:]]

        def noisy(key):
            rank_key, sign_key = jax.random.split(key)
            rank = jax.random.permutation(rank_key, n)
            drawn = jax.random.rademacher(sign_key, (n,), float)
            return jnp.where(rank[:, None] < changed, drawn[:, None], clean[:, None])

        labels = jax.vmap(noisy)(jax.random.split(key, draws))
        every = jnp.moveaxis(labels, 1, 0).reshape(n, -1)
        h = first_layer_ntk(a)
        solved = jax.scipy.linalg.cho_solve(
            jax.scipy.linalg.cho_factor(h, lower=True), jnp.concatenate([every, jnp.eye(n)], 1)
        )
        solved, inverse = solved[:, : every.shape[1]], solved[:, every.shape[1] :]
        f = first_layer_ntk(b, a) @ solved
        loss = jnp.mean(jnp.minimum(jnp.abs(f - truth[:, None]), 1), 0)
        energy = jnp.sum(every * solved, 0)
        right, random = clean @ inverse @ clean, jnp.trace(inverse)
        return energy.reshape(draws, -1), loss.reshape(draws, -1), right, random, h, labels[0]

    energy, loss, right, random, h, labels = measure(key, jnp.asarray(x), jnp.asarray(y))
    q = (n - changed) * (n - changed - 1) / (n * (n - 1))
    predicted = q * float(right) + (1 - q) * float(random)
    yield estimate("energy of the labels", energy, predicted, wrong=float(right) / 2)
    mean, error = np.asarray(energy).mean(0), np.asarray(loss).mean(0)
    # from a share of 0.8 on the square of 1 - share is flat, and the mean over draws may turn back
    yield monotone("complexity", np.sqrt(mean[:9] / n), strict=True, x=shares[:9], along="share of random labels")
    yield at_least("rank correlation of complexity and test loss", spearmanr(predicted, error).statistic, 0.95)
    yield at_least("complexity of random labels over that of right ones", np.sqrt(mean[-1] / mean[0]), 3.0)
    yield equal("one draw by the library", ntk_complexity(h, labels), np.sqrt(np.asarray(energy)[0] / n), rtol=1e-6)
