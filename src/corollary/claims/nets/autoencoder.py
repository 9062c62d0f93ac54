"""The linear autoencoder: its gradients, the rank it cannot exceed, and its optimum."""

import jax
import jax.numpy as jnp
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal, printed
from corollary.nets import (
    LinearAutoencoder,
    autoencoder_gradients,
    normal,
    optimal_autoencoder,
    rank_error,
    reconstruction_loss,
    train,
    truncated_svd,
)
from corollary.network import BatchLoss


def _data(key, n, d):
    """Rows whose singular values fall like 1/i: a clear gap between every two of them."""
    left, right = jax.random.split(key)
    u = jnp.linalg.qr(jax.random.normal(left, (n, d)))[0]
    v = jnp.linalg.qr(jax.random.normal(right, (d, d)))[0]
    return jnp.sqrt(n) * (u / (1 + jnp.arange(d))) @ v


@claim(rows=("B02.06", "B02.07"))
def gradients(key, *, dim: Size = 7, code: Size = 3, n: Size = 30):
    r"""The gradients of the reconstruction error of a linear autoencoder.

    For $\ell_x=\frac12\|x-DCx\|^2$ and $y=DCx$: $\partial\ell/\partial C=D^\top(y-x)x^\top$ and
    $\partial\ell/\partial D=(y-x)x^\top C^\top$; entrywise $\partial\ell/\partial C_{ki}=x_i\sum_jD_{jk}(y_j-x_j)$ and
    $\partial\ell/\partial D_{jk}=(y_j-x_j)\sum_iC_{ki}x_i$. The loss of a data set is
    $\frac1n\sum_i\ell_{x_i}=\frac1{2n}\|X-DCX\|_F^2$.
    """
    model_key, x_key = jax.random.split(key)
    model = LinearAutoencoder(dim, code, key=model_key)
    data = jax.random.normal(x_key, (n, dim))
    x, h = data[0], 1e-5

    @jax.jit
    def measure(model, x):
        def loss(model):
            return 0.5 * jnp.sum((x - model.decoder @ (model.encoder @ x)) ** 2)

        def bent(model):
            return 0.5 * jnp.sum((x - model.decoder @ jnp.tanh(model.encoder @ x)) ** 2)

        def sums(c, d):
            y = d @ (c @ x)
            by_c = jnp.array([[x[i] * jnp.sum(d[:, k] * (y - x)) for i in range(dim)] for k in range(code)])
            by_d = jnp.array([[(y[j] - x[j]) * jnp.sum(c[k] * x) for k in range(code)] for j in range(dim)])
            return jnp.concatenate([by_c.ravel(), by_d.ravel()])

        flat, back = jax.flatten_util.ravel_pytree(model)
        central = jax.vmap(lambda e: (loss(back(flat + h * e)) - loss(back(flat - h * e))) / (2 * h))(
            jnp.eye(flat.size)
        )
        formula = autoencoder_gradients(model, x)
        return {
            "formula": jnp.concatenate([formula.encoder.ravel(), formula.decoder.ravel()]),
            "autodiff": jax.flatten_util.ravel_pytree(jax.grad(loss)(model))[0],
            "sums": sums(model.encoder, model.decoder),
            "central": central,
            # the same formulas where the code is bent by tanh: the chain rule then has one more factor
            "bent": jax.flatten_util.ravel_pytree(jax.grad(bent)(model))[0],
            "scale": loss(model),
        }

    m = measure(model, x)
    yield equal("by automatic differentiation", m["autodiff"], m["formula"])
    yield equal("entry by entry", m["sums"], m["formula"])
    # rounding of the loss over 2h; a quartic polynomial leaves a truncation of the order of h²
    allowed = 8 * 2.3e-16 * float(m["scale"] + 1) / h + 100 * h**2
    yield equal("by central differences", m["central"], m["formula"], atol=allowed)
    total = 0.5 * jnp.linalg.norm(data.T - model.decoder @ model.encoder @ data.T) ** 2 / n
    yield equal("loss of the data set", reconstruction_loss(model, data), total)
    yield control("the encoder is linear: here followed by tanh", equal("gradient", m["bent"], m["formula"]))


@claim(
    rows=("B02.06",),
    erratum="The three forms of the training loss are not equal: the first halves twice, the last lacks 1/n.",
)
def printed_forms_of_the_loss(key, *, dim: Size = 7, code: Size = 3, n: Size = 30):
    r"""The training loss of a linear autoencoder in the three printed forms.

    As printed: $L=\frac1{2n}\sum_i\ell_{x_i}=\frac1{2n}\sum_i\|x_i-DCx_i\|^2=\frac12\|X-Y\|_F^2$ with
    $\ell_x=\frac12\|x-DCx\|^2$. They differ by constants, so that the minimisers are the same; equal are
    $\frac1n\sum_i\ell_{x_i}=\frac1{2n}\sum_i\|x_i-DCx_i\|^2=\frac1{2n}\|X-Y\|_F^2$.
    """
    model = LinearAutoencoder(dim, code, key=key)
    x = jax.random.normal(jax.random.fold_in(key, 1), (n, dim))
    single = 0.5 * jnp.sum((x - jax.vmap(model)(x)) ** 2, axis=1)
    middle = sum(jnp.linalg.norm(row - model.decoder @ (model.encoder @ row)) ** 2 for row in x) / (2 * n)
    whole = jnp.linalg.norm(x - x @ model.encoder.T @ model.decoder.T) ** 2
    yield equal("first and third form with the right factors", jnp.stack([single.sum() / n, whole / (2 * n)]), middle)
    yield printed(equal("first and second form", single.sum() / (2 * n), middle))
    yield printed(equal("third and second form", whole / 2, middle))


@claim(rows=("B02.08",))
def rank_constraint(key, *, dim: Size = 10, code: Size = 3, n: Size = 40, steps: Count = 50):
    r"""The reconstructions of a linear autoencoder have at most the rank of its bottleneck.

    $\mathrm{rank}(DC)\le\min(\mathrm{rank}\,C,\mathrm{rank}\,D)\le m$, so that $\mathrm{rank}(DCX)\le m$, at the start
    and all through training; with equality generically. With tanh in the decoder there is no such bound.
    """
    x = _data(key, n, dim)
    model = LinearAutoencoder(dim, code, key=jax.random.fold_in(key, 1))

    def spectrum(model):
        return jnp.linalg.svd(jax.vmap(model)(x), compute_uv=False)

    result = train(model, BatchLoss(reconstruction_loss), x, optax.sgd(0.5), steps=steps, measure=spectrum)
    values = result.record / result.record[:, :1]
    rounding = 1e-14 * n
    yield at_most("singular values beyond m, against the first", values[:, code:], rounding, rtol=0)
    yield at_least("singular value m, against the first", values[:, code - 1], 1e3 * rounding)
    curved = jnp.linalg.svd(jnp.tanh(jax.vmap(result.network)(x)), compute_uv=False)
    yield control(
        "the decoder is linear: here followed by tanh",
        at_most("singular values beyond m", curved[code:] / curved[0], rounding, rtol=0),
    )


@claim(rows=("B02.09",))
def eckart_young(key, *, rows: Size = 12, columns: Size = 9, rank: Count = 3, trials: Size = 500, sweeps: Count = 40):
    r"""The truncated singular value decomposition is the nearest matrix of its rank.

    $\|X-X_r\|_F=\min_{\mathrm{rank}\,Y\le r}\|X-Y\|_F=(\sum_{i>r}\sigma_i^2)^{1/2}$, with one minimiser if
    $\sigma_r>\sigma_{r+1}$. Measured against the best approximation with random column spaces, alternating least
    squares from random starts, and perturbations of $X_r$ that keep its rank.
    """
    x_key, y_key, start_key, move_key = jax.random.split(key, 4)
    x = _data(x_key, rows, columns)

    @jax.jit
    def measure(x, y_key, start_key, move_key):
        u, s, vt = jnp.linalg.svd(x, full_matrices=False)
        best = truncated_svd(x, rank)

        def projected(k):
            q = jnp.linalg.qr(jax.random.normal(k, (rows, rank)))[0]
            return jnp.linalg.norm(x - q @ (q.T @ x))

        def alternating(k):
            def sweep(right, _):
                left = jnp.linalg.qr(x @ right)[0]
                right = x.T @ left
                return jnp.linalg.qr(right)[0], jnp.linalg.norm(x - left @ right.T)

            return jax.lax.scan(sweep, jax.random.normal(k, (columns, rank)), length=sweeps)[1]

        def moved(k):
            a, b = jax.random.split(k)
            left = u[:, :rank] * s[:rank] + 0.1 * jax.random.normal(a, (rows, rank))
            return jnp.linalg.norm(x - left @ (vt[:rank] + 0.1 * jax.random.normal(b, (rank, columns))))

        random = jax.vmap(projected)(jax.random.split(y_key, trials))
        runs = jax.vmap(alternating)(jax.random.split(start_key, 20))
        moves = jax.vmap(moved)(jax.random.split(move_key, trials))
        smallest = (u[:, -rank:] * s[-rank:]) @ vt[-rank:]
        worst = jnp.max(jnp.abs(x - best)), jnp.max(jnp.abs(x - _less(x, best, rank)))
        return jnp.linalg.norm(x - best), s, random, runs, moves, jnp.linalg.norm(x - smallest), worst

    error, s, random, runs, moves, smallest, worst = measure(x, y_key, start_key, move_key)
    least = jnp.sqrt(jnp.sum(s[rank:] ** 2))
    yield equal("error of the truncated decomposition", error, least)
    yield at_least("best approximations with random column spaces", random, least)
    yield at_least("alternating least squares, every sweep", runs, least, along="sweep")
    # power iteration: the error above the least falls by (σ(r+1)/σ(r))^4 a sweep, 0.32 for r = 3
    yield equal("alternating least squares, at the end", runs[:, -1], least)
    yield at_least("neighbours of the same rank", moves, least)
    yield control("the largest singular values are kept: here the smallest", equal("error", smallest, least))
    yield control(
        "the norm is Frobenius's: in that of the largest entry another matrix is nearer",
        at_least("largest entry of the error of a competitor", worst[1], worst[0]),
    )


def _less(x, best, rank):
    """A neighbour of `best` of the same rank whose largest error is smaller: a short step down its gradient."""
    u, s, vt = jnp.linalg.svd(best, full_matrices=False)
    factors = u[:, :rank] * s[:rank], vt[:rank]
    slopes = jax.grad(lambda f: jnp.max(jnp.abs(x - f[0] @ f[1])))(factors)
    left, right = jax.tree.map(lambda f, g: f - 1e-5 * g, factors, slopes)
    return left @ right


@claim(rows=("B02.10",), full={"steps": 40_000})
def optimum(key, *, dim: Size = 8, code: Size = 2, n: Size = 100, steps: Count = 4000):
    r"""Projecting on the leading principal directions is the best linear autoencoder.

    $C=U_m^\top$, $D=U_m$ minimise $\frac1{2n}\|X-DCX\|_F^2$: the reconstruction is $X_m$ and the loss
    $\frac1{2n}\sum_{i>m}\sigma_i^2$. So do $(MU_m^\top,U_mM^{-1})$ for every invertible $M$. Gradient descent from a
    small start finds the loss and the subspace. Other eigenvectors give critical points with a larger loss. (In the
    printed proof $U_m^\top U=[I_m\ 0]$, not $I_m$; for PCA the data must be centred.)
    """
    x_key, m_key, start_key = jax.random.split(key, 3)
    x = _data(x_key, n, dim)
    values, vt = jnp.linalg.svd(x, full_matrices=False)[1:]
    floor = jnp.sum(values[code:] ** 2) / (2 * n)
    best = optimal_autoencoder(x, code)
    mix = jnp.eye(code) + 0.5 * jax.random.normal(m_key, (code, code)) / code
    mixed = LinearAutoencoder.of(mix @ best.encoder, best.decoder @ jnp.linalg.inv(mix))
    other = LinearAutoencoder.of(vt[code : 2 * code], vt[code : 2 * code].T)
    start = LinearAutoencoder(dim, code, key=start_key, initialisation=normal(0.1))

    def angle(model):
        """Sine of the largest principal angle between the decoder's columns and the leading directions."""
        q = jnp.linalg.qr(model.decoder)[0]
        return jnp.linalg.norm(q - vt[:code].T @ (vt[:code] @ q), ord=2)

    def look(model):
        return reconstruction_loss(model, x), angle(model)

    slopes = jax.jit(lambda models: [jax.grad(reconstruction_loss)(m, x) for m in models])((best, mixed, other))
    loss = BatchLoss(reconstruction_loss)
    result = train(start, loss, x, optax.sgd(0.5), steps=steps, measure=look, every=steps // 100 or 1)
    yield equal("least loss", reconstruction_loss(best, x), floor)
    yield equal("reconstruction", jax.vmap(best)(x), truncated_svd(x, code))
    yield equal("principal directions against all of them", vt[:code] @ vt.T, jnp.eye(code, dim))
    yield equal("loss of another basis of the same plane", reconstruction_loss(mixed, x), floor)
    for name, slope in zip(("the optimum", "another basis", "other directions"), slopes, strict=True):
        yield equal(f"gradient at {name}", jnp.concatenate([slope.encoder.ravel(), slope.decoder.ravel()]), 0.0)
    yield at_least("loss during training", result.losses, floor, along="iteration")
    yield equal("loss after training", result.record[0][-1], floor, rtol=1e-4)
    yield at_most("sine of the angle between the planes after training", result.record[1][-1], 1e-3)
    yield control(
        "the directions are the leading ones: here the next", equal("loss", reconstruction_loss(other, x), floor)
    )
    yield equal(
        "their loss",
        reconstruction_loss(other, x),
        (rank_error(x, 0) ** 2 - jnp.sum(values[code : 2 * code] ** 2)) / (2 * n),
    )


@claim(
    rows=("B02.10",),
    erratum="The proof has the product of all principal directions with the first m as I_m; it is (I_m 0).",
)
def printed_proof_line(key, *, dim: Size = 6, code: Size = 2):
    r"""The first m principal directions times all of them give the identity of size m.

    As printed in the proof of Theorem 13: $U_m(U_m^\top U)\Sigma V^\top=U_mI_m\Sigma V^\top$. The factor
    $U_m^\top U=[I_m\ 0]$ has as many columns as there are directions, which is what makes the product with $\Sigma$
    possible.
    """
    u = jnp.linalg.qr(jax.random.normal(key, (dim, dim)))[0]
    product = u[:, :code].T @ u
    yield equal("the product", product, jnp.eye(code, dim))
    yield printed(equal("number of its columns", product.shape[1], jnp.eye(code).shape[1], rtol=0, atol=0))
