"""Tangent kernels of wide networks at initialisation: gradients layer by layer, limits, and their rates."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.claims.kernels._wide import both_passes, dense_network, draw_weights, gradient_gram, unit_rows
from corollary.evidence import Count, Size, at_least, claim, control, equal, estimate, printed, rate
from corollary.kernels import dual_derivative, dual_kernel, first_layer_ntk, nngp, ntk

WIDTHS = (16, 23, 32, 45, 64, 91, 128)


@claim(rows=("B07.22", "T09.08"))
def two_layer_kernel(key, *, n: Size = 6, draws: Count = 200):
    r"""Training the first layer of a two-layer ReLU network: its kernel, the dynamics, and the limit.

    $f(x)=\frac1{\sqrt m}\sum_ra_r\sigma(w_r\cdot x)$ with signs $a_r$ and unit inputs. (a) The loss
    $\frac12\|u-y\|^2$ has $\partial_{w_r}\ell=\sum_i(u_i-y_i)\partial_{w_r}f(x_i)$; (b) under gradient flow
    $\dot u=H(y-u)$; (c) $H_{ij}=\frac{x_i\cdot x_j}m\sum_r1[w_r\cdot x_i\ge0,w_r\cdot x_j\ge0]$; (d) over
    $w_r\sim\mathcal N(0,I)$ $H$ tends to $H^\infty_{ij}=x_i\cdot x_j\frac{\pi-\arccos x_i\cdot x_j}{2\pi}$, with an
    error of $m^{-1/2}$, and $H^\infty$ is positive definite for inputs of which no two are parallel.
    """
    sizes = np.array([50, 100, 200, 400, 800, 1600])

    def gram(w, x):
        on = (x @ w.T >= 0).astype(float)
        return (x @ x.T) * (on @ on.T) / w.shape[0]

    @jax.jit
    def exact(key):
        x_key, w_key, a_key, y_key = jax.random.split(key, 4)
        x = unit_rows(x_key, (n, 4))
        w, a = jax.random.normal(w_key, (50, 4)), jax.random.rademacher(a_key, (50,), float)
        y = jax.random.normal(y_key, (n,))

        def outputs(w):
            return jax.nn.relu(x @ w.T) @ a / jnp.sqrt(50)

        u, back = jax.vjp(outputs, w)
        by_hand = jnp.einsum("i,ir,r,id->rd", u - y, (x @ w.T > 0).astype(float), a, x) / jnp.sqrt(50)
        loss_slope = jax.grad(lambda w: jnp.sum((outputs(w) - y) ** 2) / 2)(w)
        flow = jax.jvp(outputs, (w,), (-loss_slope,))[1]
        limit = first_layer_ntk(x)
        repeated = first_layer_ntk(jnp.concatenate([x, x[:1]]))
        return (
            (loss_slope, by_hand, back(u - y)[0]),
            (flow, gram(w, x) @ (y - u)),
            (gradient_gram(outputs, w), gram(w, x)),
            (limit, x @ x.T),
            (jnp.linalg.eigvalsh(limit)[0], jnp.linalg.eigvalsh(repeated)[0]),
        )

    @jax.jit
    def errors(key, stretch):
        x_key, key = jax.random.split(key)
        x = unit_rows(x_key, (n, 4))
        limit = first_layer_ntk(x)
        w = jax.random.normal(key, (draws, sizes[-1], 4)) * jnp.array([stretch, 1.0, 1.0, 1.0])
        on = (jnp.einsum("kmd,id->kmi", w, x) >= 0).astype(float)
        # the mean over the first m units, from their running sums
        both = jnp.cumsum(on[..., :, None] * on[..., None, :], 1)[:, sizes - 1] / sizes[:, None, None]
        return jnp.sqrt(jnp.mean((both * (x @ x.T) - limit) ** 2, (0, 2, 3)))

    (slope, by_hand, pulled), (flow, driven), (jacobian, formula), (limit, products), (least, zero) = exact(key)
    yield equal("gradient of the loss in each unit", jnp.stack([slope, pulled]), jnp.stack([by_hand, by_hand]))
    yield equal("velocity of the outputs", flow, driven)
    yield equal("products of gradients", jacobian, formula)
    law = products * (np.pi - np.arccos(np.clip(products, -1, 1))) / (2 * np.pi)
    yield equal("the limit", limit, law, atol=1e-8)  # an arc cosine near 1 keeps half of the digits
    # two standard errors of a slope through six points, each of 200 draws of 36 entries
    yield rate("distance to the limit", sizes, errors(key, 1.0), -0.5, tolerance=0.1, along="number of units")
    yield at_least("smallest eigenvalue of the limit", least, 1e-6)
    yield control("no two inputs are parallel: here one is there twice", at_least("smallest eigenvalue", zero, 1e-6))
    yield control(
        "weights from N(0, I): here one coordinate is larger",
        rate("distance", sizes, errors(key, 4.0), -0.5, tolerance=0.1),
    )


@claim(rows=("E09.13",))
def two_layers_trained(key, *, nets: Count = 4000, width: Size = 16):
    r"""The tangent kernel of a two-layer ReLU network, both layers trained.

    $f(x)=\sqrt{2/m}\sum_jv_j(w_j\cdot x)_+$ with all parameters from $\mathcal N(0,1)$ and no biases:
    $k(x,x')=\|x\|\|x'\|\kappa(\cos\vartheta)$, $\kappa(t)=\frac{2t}\pi(\pi-\arccos t)+\frac{\sqrt{1-t^2}}\pi=
    t\kappa_0(t)+\kappa_1(t)$, so $\kappa(1)=2$, $\kappa(0)=1/\pi$ and $\kappa(-1)=0$. The first layer alone has
    $t\kappa_0$, the second $\kappa_1$. Products of gradients average to it at every width. Without the factor 2 of
    the scaling all of it is half as large.
    """
    angles = np.array([0.0, 0.7, np.pi / 2, 2.4, np.pi])
    lengths = np.array([1.0, 0.5, 2.0, 1.0, 1.5])
    x = jnp.concatenate([jnp.array([[1.0, 0.0]]), jnp.stack([jnp.cos(angles), jnp.sin(angles)], 1) * lengths[:, None]])
    network, smaller = (dense_network((width,), inputs=2, weight_std=s) for s in (2**0.5, 1.0))

    @jax.jit
    def parts(key):
        def one(network, key):
            params = network.init((2,), key=key).params
            jacobian = jax.jacrev(lambda p: network.apply(p, x)[:, 0])(params)
            first, last = (j["weight"].reshape(len(x), -1) for j in (jacobian[0], jacobian[2]))
            return jnp.stack([first[0] @ first[1:].T, last[0] @ last[1:].T])

        return [jax.vmap(lambda k, n=n: one(n, k))(jax.random.split(key, nets)) for n in (network, smaller)]

    t = np.cos(angles)
    kappa0, kappa1 = 1 - angles / np.pi, (t * (np.pi - angles) + np.sin(angles)) / np.pi
    kappa = 2 * t / np.pi * (np.pi - angles) + np.sin(angles) / np.pi
    split, unscaled = parts(key)
    # opposite inputs share no unit: their gradients are orthogonal in every draw
    yield equal("products of gradients of opposite inputs", split[..., -1], 0.0)
    split, limit = split[..., :-1], lengths[:-1] * np.stack([t * kappa0, kappa1])[:, :-1]
    yield estimate("products of gradients", split.sum(1), (lengths * kappa)[:-1], wrong=limit.sum(0) / 2 + 0.1)
    yield estimate("of the first layer, of the second", split, limit, wrong=-1.0)
    yield equal("the limit of the library", network.ntk(x)[0, 1:], lengths * kappa)
    scaled = ntk(x, depth=1)[0, 1:]  # with the first layer divided by the root of the two inputs, and times √2
    yield equal("the same with the first layer's scale 1", scaled, lengths * kappa)
    yield equal("κ at 1, 0 and -1", (network.ntk(x)[0, 1:] / lengths)[np.array([0, 2, 4])], np.array([2, 1 / np.pi, 0]))
    yield control(
        "the scaling √(2/m): here √(1/m)",
        estimate("products of gradients", unscaled[..., :-1].sum(1), limit.sum(0), wrong=-1.0),
    )


@claim(rows=("T09.19", "T09.21"))
def gradients_layer_by_layer(key, *, draws: Count = 600):
    r"""Gradients of a deep network factor into what comes forward and what comes back, and both have limits.

    $f^{(h)}=W^{(h)}g^{(h-1)}$, $g^{(h)}=\sqrt{c/d_h}\,\sigma(f^{(h)})$, output $W^{(L+1)}g^{(L)}$. With
    $b^{(L+1)}=1$ and $b^{(h)}=\sqrt{c/d_h}\,D^{(h)}W^{(h+1)\top}b^{(h+1)}$, $D=\operatorname{diag}\dot\sigma(f^{(h)})$:
    $\partial f/\partial W^{(h)}=b^{(h)}g^{(h-1)\top}$, hence the products of gradients are
    $\langle g^{(h-1)},g'^{(h-1)}\rangle\langle b^{(h)},b'^{(h)}\rangle$. As the widths grow
    $\langle b^{(h)},b'^{(h)}\rangle\to\prod_{h'\ge h}\dot\Sigma^{(h')}$, with an error of order $d^{-1/2}$, as if the
    weights of the backward pass were fresh copies.
    """
    x = jnp.array([[1.0, 0.0, 0.5], [0.3, 0.8, -0.4]])

    @jax.jit
    def exact(key):
        weights = draw_weights(key, 12, 3)
        jacobian = jax.jacrev(lambda w: both_passes(w, w, x, 12)[0])(weights)
        _, g, b = both_passes(weights, weights, x, 12)
        outer = [jnp.einsum("ni,nj->nij", back, ahead) for back, ahead in zip(b, g, strict=True)]
        products = sum((a @ a.T) * (c @ c.T) for a, c in zip(g, b, strict=True))
        gram = gradient_gram(lambda w: both_passes(w, w, x, 12)[0], weights)
        return jacobian, [o.reshape(j.shape) for o, j in zip(outer, jacobian, strict=True)], gram, products

    @jax.jit
    def errors(key):
        q = x @ x.T
        d1 = 2 * dual_derivative("relu", q[0, 0], q[0, 1], q[1, 1])
        k = [2 * dual_kernel("relu", *c) for c in ((q[0, 0],) * 3, (q[0, 0], q[0, 1], q[1, 1]), (q[1, 1],) * 3)]
        d2 = 2 * dual_derivative("relu", *k)
        limit = jnp.stack([d1 * d2, d2])

        def one(key):
            here, fresh = (draw_weights(k, WIDTHS[-1], 3) for k in jax.random.split(key))

            def at(width):
                # and a last layer that is not independent of the features it reads
                aligned = 2 * both_passes(here, here, x, width)[1][2][0] * jnp.sqrt(width)
                products = []
                for back in (here, fresh, (*fresh[:2], aligned)):
                    b = both_passes(here, back, x, width)[2]
                    products.append(jnp.stack([b[0][0] @ b[0][1], b[1][0] @ b[1][1]]))
                return jnp.stack(products) - limit

            return jax.lax.map(at, jnp.asarray(WIDTHS))

        found = jax.lax.map(one, jax.random.split(key, draws), batch_size=100)
        return jnp.mean(jnp.abs(found), (0, 3))

    jacobian, outer, gram, products = exact(key)
    yield equal(
        "gradient in each weight matrix",
        jnp.concatenate([j.ravel() for j in jacobian]),
        jnp.concatenate([o.ravel() for o in outer]),
    )
    yield equal("products of gradients", gram, products)
    rms = errors(key)
    # a mean of `draws` absolute errors is known to 0.75/√draws = 3 %: a slope through seven of them to about 0.02, and
    # terms of the order 1/m bend it by 0.05 at the smallest widths
    yield rate("backward products from their limit", WIDTHS, rms[:, 0], -0.5, tolerance=0.15, along="width")
    yield rate("with fresh copies of the weights", WIDTHS, rms[:, 1], -0.5, tolerance=0.15, along="width")
    yield control(
        "weights independent of each other: here the last layer knows the features",
        rate("backward products", WIDTHS, rms[:, 2], -0.5, tolerance=0.15, along="width"),
    )


@claim(rows=("B07.18", "T09.22", "E09.10"))
def kernel_converges(key, *, draws: Count = 600):
    r"""The tangent kernel of a random network tends to a deterministic one as the widths grow.

    $\Theta^1=\Sigma^1$, $\Theta^l=\Theta^{l-1}\dot\Sigma^l+\Sigma^l$, $\dot\Sigma^l=\sigma_w^2\mathbb E[\phi'\phi']$,
    which is the sum $\sum_h\Sigma^{(h-1)}\prod_{h'\ge h}\dot\Sigma^{(h')}$. The products of gradients of a network of
    widths $m$ are within $O(m^{-1/2})$ of it in mean square, for Gaussian, uniform and Rademacher weights of variance 1
    alike after the (Gaussian) first layer: only the variance counts. ReLU with $\sigma_w^2=2$:
    $\Theta^{(L)}(x,x)=(L+1)\Sigma(x,x)$. ("Effectively, there is only one possible initial infinite-width network",
    writes E: of its kernel that is so. Its function is a draw of a Gaussian process, of the variance $\Sigma(x,x)$ at
    every width: `analytic_nngp.output_covariance`.)
    """
    x = jnp.array([[1.0, 0.5, -0.3, 0.8], [-0.2, 0.7, 0.4, 0.1]])
    laws = {
        "Gaussian": jax.random.normal,
        "uniform": lambda k, s: jax.random.uniform(k, s, minval=-(3**0.5), maxval=3**0.5),
        "Rademacher": lambda k, s: jax.random.rademacher(k, s, float),
        "wider": lambda k, s: jax.random.normal(k, s) * 2**0.5,
    }
    limit = dense_network((2, 2), inputs=4).ntk(x)

    @jax.jit
    def errors(key, limit):
        def of_law(law):
            def one(key):
                weights = draw_weights(key, WIDTHS[-1], 4, law)

                def at(width):
                    _, g, b = both_passes(weights, weights, x, width)
                    return sum((a @ a.T) * (c @ c.T) for a, c in zip(g, b, strict=True)) - limit

                return jax.lax.map(at, jnp.asarray(WIDTHS))

            return jnp.mean(jnp.abs(jax.lax.map(one, jax.random.split(key, draws), batch_size=100)), (0, 2, 3))

        return {name: of_law(law) for name, law in laws.items()}

    found = errors(key, limit)
    for name in ("Gaussian", "uniform", "Rademacher"):
        # as for the gradients above
        yield rate(f"distance to the limit, {name}", WIDTHS, found[name], -0.5, tolerance=0.15, along="width")
    q = [nngp(x, depth=h) for h in range(3)]
    dots = [2 * dual_derivative("relu", s[0, 0], s[0, 1], s[1, 1]) for s in q[:2]]
    total = q[0][0, 1] * dots[0] * dots[1] + q[1][0, 1] * dots[1] + q[2][0, 1]
    yield equal("recursion and sum over layers", ntk(x, depth=2)[0, 1], total)
    yield equal("on the diagonal", jnp.diagonal(ntk(x, depth=2)), 3 * jnp.diagonal(q[0]))
    yield control(
        "weights of variance 1: here 2", rate("distance", WIDTHS, found["wider"], -0.5, tolerance=0.15, along="width")
    )


@claim(
    rows=("E09.09",),
    erratum="With weights themselves drawn at scale one over the root of the width and trained, the tangent kernel "
    "grows with the width; the limit needs trained variables of scale 1.",
)
def standard_parametrisation(key, *, draws: Count = 60):
    r"""As printed: weights of standard deviation one over the root of the width have a limiting tangent kernel.

    E draws $w^l_{ij}\sim\mathcal N(0,\sigma_w/\sqrt{m_l})$, "LeCun initialization", and lets all $m_l\to\infty$: "with
    the above scaling, the initial NTK converges to a deterministic limit". $m_l$ is read as a number of units, of
    the layer before $w^l$ as in LeCun's rule, or of its own. (E calls it the number of parameters; over the root of
    that the outputs themselves would vanish.) Either way the gradient in $w$ is that in $\omega\sim\mathcal
    N(0,1)$, $w=\frac{\sigma_w}{\sqrt m}\omega$, times $\sqrt m/\sigma_w$ for one of the two layers, and the kernel
    grows as the width. With $\omega$ as the variables it has a limit.
    """
    x = jnp.array([[1.0, 0.5, -0.3]])
    sizes = (25, 50, 100, 200, 400, 800)

    @jax.jit
    def kernels(key):
        def one(key, width):
            keys = jax.random.split(key)
            omega = jax.random.normal(keys[0], (width, 3)), jax.random.normal(keys[1], (width,))

            def kernel(outside, inside):
                """Of the network whose layers have these factors outside and inside the variables."""

                def outputs(w):
                    return jax.nn.relu(x @ (outside[0] * w[0]).T) @ (outside[1] * w[1])

                return gradient_gram(outputs, tuple(s * w for s, w in zip(inside, omega, strict=True)))[0, 0]

            before, own = ((2 / 3) ** 0.5, (2 / width) ** 0.5), ((2 / width) ** 0.5, 2**0.5)
            return jnp.stack([kernel((1, 1), before), kernel((1, 1), own), kernel(before, (1, 1))])

        keys = jax.random.split(key, draws)
        return jnp.stack([jnp.mean(jax.vmap(lambda k, m=m: one(k, m))(keys), 0) for m in sizes], 1)

    before, own, outside = kernels(key)
    yield printed(rate("weights over the root of the width before", sizes, before, 0.0, tolerance=0.1, along="width"))
    yield printed(rate("weights over the root of their own width", sizes, own, 0.0, tolerance=0.1, along="width"))
    yield rate("the factor outside the variables", sizes, outside, 0.0, tolerance=0.1, along="width")
