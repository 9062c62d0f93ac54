"""Wide networks at initialisation: covariance and law of the output, norms, and correlations in depth."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.kernels._wide import dense_network
from corollary.evidence import Count, Size, claim, control, equal, estimate, printed, rate
from corollary.kernels import dual_kernel, nngp, normalising_constant

POINT = np.array([0.9, -0.7, 0.2])  # of squared norm 1.34


@claim(rows=("B07.13", "B07.17", "T09.07"))
def output_covariance(key, *, nets: Count = 20_000, width: Size = 40):
    r"""The outputs of a wide random network have the covariance of the recursion.

    $f^1=\frac{\sigma_w}{\sqrt d}W^1x+\sigma_bb^1$, $f^l=\frac{\sigma_w}{\sqrt{n_{l-1}}}W^l\phi(f^{l-1})+\sigma_bb^l$
    with all entries from $\mathcal N(0,1)$, scaled by the width of the layer **before**. Then
    $\mathbb E[f(x)f(x')]\to\Sigma(x,x')$, $\Sigma^1=\sigma_w^2\langle x,x'\rangle/d+\sigma_b^2$,
    $\Sigma^l=\sigma_w^2\mathbb E[\phi(u)\phi(v)]+\sigma_b^2$ over $(u,v)\sim\mathcal N(0,\Sigma^{l-1})$. With one
    hidden layer this holds at every width: its units are independent. So it does for the network of random signs,
    $\frac1{\sqrt m}\sum_ra_r\phi(w_r\cdot x)$, with $\mathbb Ef^2=\mathbb E\phi(g)^2$ on unit vectors (ReLU: 1/2).
    """
    key, sign_key = jax.random.split(key)
    x = jnp.stack([jnp.asarray(POINT), jnp.array([0.4, 0.5, -1.0]), jnp.array([-0.3, 0.8, 0.1])])
    networks = {name: dense_network((width,), name, weight_std=1.2, bias_std=0.3) for name in ("relu", "erf", "gelu")}
    unit = x[1] / jnp.linalg.norm(x[1])

    @jax.jit
    def measure(keys, sign_keys):
        def products(network):
            def one(key):
                f = network.apply(network.init((3,), key=key).params, x)[:, 0]
                return jnp.stack([f[0] * f[1], f[0] * f[2], f[1] * f[1]])

            return jax.vmap(one)(keys)

        def signs(key):
            w_key, a_key = jax.random.split(key)
            w, a = jax.random.normal(w_key, (width, 3)), jax.random.rademacher(a_key, (width,), float)
            # and signs that each unit's own input decides
            both = jnp.stack([a, jnp.sign(w @ unit)])
            return (both @ jax.nn.relu(w @ unit)) ** 2 / width

        return {name: products(n) for name, n in networks.items()}, jax.vmap(signs)(sign_keys)

    found, squares = measure(jax.random.split(key, nets), jax.random.split(sign_key, nets))
    first = nngp(x, depth=0, weight_std=1.2, bias_std=0.3)
    # of all nine the variance at the second point, erf, is nearest to its wrong value: 2.3 half-widths of the interval
    # from 20,000 networks
    for name, samples in found.items():
        sigma = nngp(x, depth=1, activation=name, weight_std=1.2, bias_std=0.3)
        predicted = jnp.stack([sigma[0, 1], sigma[0, 2], sigma[1, 1]])
        yield estimate(
            f"products of outputs, {name}", samples, predicted, wrong=jnp.stack([first[0, 1], first[0, 2], first[1, 1]])
        )
    yield estimate("squared output of the network of signs", squares[:, 0], 0.5, wrong=1.0)
    yield control(
        "signs independent of the inner weights: here each unit's own input decides",
        estimate("squared output of the network of signs", squares[:, 1], 0.5, wrong=1.0),
    )


@claim(
    rows=("B07.13",),
    erratum="The layers are printed with the root of their own width; it must be that of the layer before, or "
    "the pre-activations vanish and the limit is a linear network.",
)
def fan_out_scaling(key, *, nets: Count = 2000):
    r"""As printed: layers divided by the root of their own width have the covariance of the recursion.

    B defines $f^l=\frac{\sigma_w}{\sqrt{n_l}}W^lh^{l-1}+\sigma_bb^l$ and lets the widths grow. With widths $(3,n,1)$,
    $\phi=\tanh$, $\sigma_w=1$ and $\sigma_b=0$ the output is $W^2\tanh(W^1x/\sqrt n)$, whose variance would tend to
    $\mathbb E\tanh(z)^2$, $z\sim\mathcal N(0,\|x\|^2)$. It tends to $\|x\|^2$ instead:
    pre-activations of size $1/\sqrt n$ see only the slope of $\tanh$ at zero. Divided by the root of the width of the
    layer before, $W^2\tanh(W^1x/\sqrt3)/\sqrt n$, the recursion is right.
    """
    widths = (10, 20, 40, 80, 160)
    x = jnp.asarray(POINT)
    square = float(POINT @ POINT)

    @jax.jit
    def squares(keys):
        def one(key, width):
            first, last = jax.random.split(key)
            z = jax.random.normal(first, (width, 3)) @ x
            right = jax.random.normal(last, (width,)) @ jnp.tanh(z / 3**0.5) / width**0.5
            # the squared output as printed, averaged over the last layer: what is left of the noise is below 1/n
            return jnp.sum(jnp.tanh(z / width**0.5) ** 2), right**2

        return [jax.vmap(lambda k, n=n: one(k, n))(k) for n, k in zip(widths, keys, strict=True)]

    found = squares(jax.random.split(key, (len(widths), nets)))
    variance = np.array([own.mean() for own, _ in found])
    recursion = float(dual_kernel("tanh", square, square, square))
    # asked of both limits: a distance that falls at least as the root of the width
    fits = {"tolerance": 0.25, "side": "at most", "along": "width"}
    yield printed(rate("distance from the recursion", widths, np.abs(variance - recursion), -0.5, **fits))
    yield rate("distance from ‖x‖²", widths, np.abs(variance - square), -0.5, **fits)
    before = float(nngp(x[None], depth=1, activation="tanh", weight_std=1.0)[0, 0])
    right = jnp.stack([r for _, r in found], 1)
    yield estimate("divided by the root of the width before: variance", right, before, wrong=square)


@claim(rows=("B07.17",))
def excess_of_the_fourth_moment(key, *, nets: Count = 150_000):
    r"""Outputs of random networks are Gaussian only in the limit: a width of n leaves a fourth moment of 3 + 15/n.

    ReLU, one hidden layer, no biases: given the hidden layer the output is Gaussian with the random variance
    $v=\frac{\sigma_w^2}n\sum_i\phi(z_i)^2$, so $\mathbb Ef^4/(\mathbb Ef^2)^2=3\,\mathbb Ev^2/(\mathbb Ev)^2=
    3+\frac3n\frac{\operatorname{Var}\phi^2}{(\mathbb E\phi^2)^2}=3+\frac{15}n$. At $n\to\infty$ the law is
    $\mathcal N(0,\Sigma)$; at any finite width it is not. For linear units it is $3+\frac6n$.
    """
    widths = (8, 16, 32)
    x = jnp.asarray(POINT)

    @jax.jit
    def fourth(key):
        def at(width, key):
            first, last = jax.random.split(key)
            # the hidden pre-activations of one input are independent of the variance of the first layer
            z = jax.random.normal(first, (nets, width)) * jnp.sqrt(2 * x @ x / 3)
            v = jax.random.normal(last, (nets, width))
            units = jnp.stack([jnp.sqrt(2) * jax.nn.relu(z), z])  # of one mean square
            return (jnp.sum(units * v, -1) / jnp.sqrt(width)) ** 4

        return jnp.stack([at(w, k) for w, k in zip(widths, jax.random.split(key, 3), strict=True)], -1)

    sigma = nngp(x[None], depth=1)[0, 0]
    ratio, linear = fourth(key) / sigma**2
    n = np.array(widths)
    yield estimate("fourth moment over squared variance", ratio, 3 + 15 / n, wrong=3.0)
    yield control("rectified units: here linear", estimate("fourth moment", linear, 3 + 15 / n, wrong=0.0))


@claim(rows=("T09.18", "T09.17"))
def norms_are_kept(key, *, nets: Count = 8000, width: Size = 20, depth: Size = 10):
    r"""With the right constant the layers of a random network keep the squared norm of their input in the mean.

    $g^{(0)}=x$, $g^{(h)}=\sqrt{c_\sigma/d_h}\,\sigma(W^{(h)}g^{(h-1)})$ with $W$ of entries from $\mathcal N(0,1)$ and
    $c_\sigma=1/\mathbb E\sigma(z)^2$. For ReLU $c_\sigma=2$ and $\mathbb E\|g^{(h)}\|^2=\|x\|^2$ for every $h$, at any
    width. A constant 10 % too large lets it grow as $1.1^h$. One layer of any activation keeps it for unit vectors.
    """
    x = jnp.asarray(POINT)
    c = normalising_constant("relu")
    unit = x / jnp.linalg.norm(x)

    @jax.jit
    def norms(keys, c, constant):
        def one(key):
            def layer(g, key):
                g = jnp.sqrt(c / width) * jax.nn.relu(jax.random.normal(key, (width, width)) @ g)
                return g, g @ g

            first, rest = jax.random.split(key)
            g = jnp.sqrt(c / width) * jax.nn.relu(jax.random.normal(first, (width, 3)) @ x)
            others = jax.lax.scan(layer, g, jax.random.split(rest, depth - 1))[1]
            tanh = jnp.tanh(jax.random.normal(first, (width, 3)) @ unit)
            return jnp.concatenate([jnp.array([g @ g]), others]), constant / width * tanh @ tanh

        return jax.lax.map(one, keys, batch_size=2000)

    keys = jax.random.split(key, nets)
    square = float(POINT @ POINT)
    constant = normalising_constant("tanh")
    relu, tanh = norms(keys, c, constant)
    grown, _ = norms(keys, 1.1 * c, constant)
    yield equal("constant of ReLU", c, 2.0)
    yield estimate("squared norm of each layer, ReLU", relu, square, wrong=1.1 ** np.arange(1, depth + 1) * square)
    yield estimate("squared norm of one layer, tanh", tanh, 1.0, wrong=0.5)
    yield control(
        "the constant is 1/E σ(z)²: here ten percent more",
        estimate("squared norm of each layer", grown, square, wrong=0.0),
    )


@claim(rows=("T09.20",))
def correlations_tend_to_one(key, *, depth: Size = 2000):
    r"""In a deep ReLU network all inputs become parallel: one minus the correlation falls as nine pi squared over 2h².

    The correlation $\rho$ of the covariance recursion with $\sigma_w^2=2$ and without biases follows
    $\rho\mapsto\frac1\pi(\sqrt{1-\rho^2}+(\pi-\arccos\rho)\rho)=\rho+\frac{2\sqrt2}{3\pi}(1-\rho)^{3/2}+\dots$, hence
    $1-\rho_h\sim\frac{9\pi^2}{2h^2}$ whatever the inputs. A linear network keeps them apart.
    """
    x = jnp.linalg.qr(jax.random.normal(key, (6, 2)))[0].T  # orthogonal, so that the start is the same for every seed

    @jax.jit
    def path(x):
        def along(name, std):
            def layer(q, _):
                a, c, b = q
                q = dual_kernel(name, a, a, a), dual_kernel(name, a, c, b), dual_kernel(name, b, b, b)
                q = tuple(std**2 * v for v in q)
                return q, 1 - q[1] / jnp.sqrt(q[0] * q[2])

            start = x[0] @ x[0], x[0] @ x[1], x[1] @ x[1]
            return jax.lax.scan(layer, start, None, length=depth)[1]

        return along("relu", 2**0.5), along("linear", 1.0)

    relu, linear = path(x)
    at = np.unique(np.geomspace(depth / 8, depth, 12).astype(int)) - 1
    h = at + 1.0
    # 1/√(1-ρ) grows by a/2 + 3a²√(1-ρ)/8 per layer, a = 2√2/3π, from 1 at orthogonal inputs: (1-ρ)h²a²/4 is
    # (1 + (3 log h/2 + C)/h)⁻² with C = 2/a. So slope and value are off by at most twice that at the smallest depth.
    a = 2 * np.sqrt(2) / (3 * np.pi)
    off = 2 * (1.5 * np.log(h[0]) + 2 / a) / h[0]
    yield rate("one minus the correlation", h, relu[at], -2.0, tolerance=off, along="depth")
    yield equal(
        "one minus the correlation, times 2h²/9π²", relu[at] * (h * a) ** 2 / 4, 1.0, rtol=off, x=h, along="depth"
    )
    value = nngp(x, depth=30)
    yield equal("the same from the kernel of depth 30", 1 - value[0, 1] / jnp.sqrt(value[0, 0] * value[1, 1]), relu[29])
    yield control(
        "ReLU between the layers: here nothing", rate("one minus the correlation", h, linear[at], -2.0, tolerance=off)
    )
