"""Wide networks at initialisation: covariance and law of the output, norms, and correlations in depth."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.kernels._wide import dense_network
from corollary.evidence import Count, Size, claim, control, equal, estimate, rate
from corollary.kernels import dual_kernel, nngp, normalising_constant

POINT = np.array([0.9, -0.7, 0.2])  # of squared norm 1.34


@claim(rows=("B07.13", "B07.17", "T09.07"))
def output_covariance(key, *, nets: Count = 10_000, width: Size = 40):
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
            return (a @ jax.nn.relu(w @ unit)) ** 2 / width

        return {name: products(n) for name, n in networks.items()}, jax.vmap(signs)(sign_keys)

    found, squares = measure(jax.random.split(key, nets), jax.random.split(sign_key, nets))
    first = nngp(x, depth=0, weight_std=1.2, bias_std=0.3)
    for name, samples in found.items():
        sigma = nngp(x, depth=1, activation=name, weight_std=1.2, bias_std=0.3)
        predicted = jnp.stack([sigma[0, 1], sigma[0, 2], sigma[1, 1]])
        yield estimate(
            f"products of outputs, {name}", samples, predicted, wrong=jnp.stack([first[0, 1], first[0, 2], first[1, 1]])
        )
    yield estimate("squared output of the network of signs", squares, 0.5, wrong=1.0)
    yield control(
        "the recursion stopped a layer early",
        estimate("squared output, relu", found["relu"][:, 2], first[1, 1], wrong=0.0),
    )


@claim(
    rows=("B07.13",),
    erratum="The layers are printed with the root of their own width; it must be that of the layer before, or "
    "the pre-activations vanish and the limit is a linear network.",
)
def fan_out_scaling(key, *, nets: Count = 2000, width: Size = 500):
    r"""As printed: layers divided by the root of their own width have the covariance of the recursion.

    With widths $(3,n,1)$, $\phi=\tanh$ and $\sigma_b=0$, $f=W^2\tanh(W^1x/\sqrt n)$ (the output has width 1) would have
    variance $\mathbb E\tanh(z)^2$, $z\sim\mathcal N(0,\|x\|^2)$. It has $\|x\|^2$ instead: pre-activations of size
    $1/\sqrt n$ see only the slope of $\tanh$ at zero.
    """
    x = jnp.asarray(POINT)
    square = float(POINT @ POINT)

    @jax.jit
    def outputs(keys):
        def one(key):
            first, last = jax.random.split(key)
            hidden = jnp.tanh(jax.random.normal(first, (width, 3)) @ x / jnp.sqrt(width))
            return jax.random.normal(last, (width,)) @ hidden

        return jax.vmap(one)(keys)

    f = outputs(jax.random.split(key, nets))
    yield estimate("variance of the output", f**2, dual_kernel("tanh", square, square, square), wrong=0.0)


@claim(rows=("B07.17",))
def excess_of_the_fourth_moment(key, *, nets: Count = 150_000):
    r"""Outputs of random networks are Gaussian only in the limit: a width of n leaves a fourth moment of 3 + 15/n.

    ReLU, one hidden layer, no biases: given the hidden layer the output is Gaussian with the random variance
    $v=\frac{\sigma_w^2}n\sum_i\phi(z_i)^2$, so $\mathbb Ef^4/(\mathbb Ef^2)^2=3\,\mathbb Ev^2/(\mathbb Ev)^2=
    3+\frac3n\frac{\operatorname{Var}\phi^2}{(\mathbb E\phi^2)^2}=3+\frac{15}n$. At $n\to\infty$ the law is
    $\mathcal N(0,\Sigma)$; at any finite width it is not.
    """
    widths = (8, 16, 32)
    x = jnp.asarray(POINT)

    @jax.jit
    def fourth(key):
        def at(width, key):
            first, last = jax.random.split(key)
            # the hidden pre-activations of one input are independent of the variance of the first layer
            z = jax.random.normal(first, (nets, width)) * jnp.sqrt(2 * x @ x / 3)
            f = jnp.sqrt(2 / width) * jnp.sum(jax.nn.relu(z) * jax.random.normal(last, (nets, width)), -1)
            return f**4

        return jnp.stack([at(w, k) for w, k in zip(widths, jax.random.split(key, 3), strict=True)], 1)

    sigma = nngp(x[None], depth=1)[0, 0]
    ratio = fourth(key) / sigma**2
    n = np.array(widths)
    yield estimate("fourth moment over squared variance", ratio, 3 + 15 / n, wrong=3.0)
    yield control("a Gaussian output at finite width", estimate("fourth moment", ratio, 3.0, wrong=0.0))


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
        "a constant ten percent too large",
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
    yield control("a linear network", rate("one minus the correlation", h, linear[at], -2.0, tolerance=off))
