"""Gradients of convolutional layers are correlations; filters that are learned along them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.evidence import Count, Size, at_least, at_most, claim, control, equal
from corollary.nets import logistic, train
from corollary.nets.convolutional import (
    ConvClassifier,
    classifier_gradient,
    convolve,
    cross_correlate,
    layer_backward,
    patches,
    sgd_classifier,
)
from corollary.network import BatchLoss, Network


@claim(rows=("E04.17", "M14.15", "M14.16", "M14.17", "M14.25", "B10.12"))
def layer_gradients(key, *, rows: Size = 7, columns: Size = 6):
    r"""The gradient by a filter is a correlation of input and error, the gradient by the input a full convolution.

    For $Y_o=b_o+\sum_cK_{oc}\star X_c$ and $\delta=\partial\ell/\partial Y$: $\partial_{K_{oc}}\ell=\delta_o\star X_c$
    (the routine of the forward pass), $\partial_{X_c}\ell=\sum_o\delta_o*K_{oc}$, which is $H^\top\delta$ for the
    matrix $H$ of the layer, and $\partial_{b_o}\ell=\sum_i\delta_o[i]$. For the classifier $H_k=\sigma(\mathbf
    r_k\star\mathbf X+b^1_k)$, $U_j=\langle W_j,H\rangle+b_j$, loss $-\ln\mathrm{softmax}_Y(U)$, with several maps and
    windows that are not square, $\partial_{\mathbf r_k}=D_k\star\mathbf X$ and $\partial_{b^1_k}=\sum D_k$ with
    $D=\sigma'(Z)\odot\delta$ and $\delta=\sum_j(m-e(Y))_jW_j$. For a layer that convolves the first is another.
    """

    @jax.jit
    def measure(key):
        x_key, m_key, b_key = jax.random.split(key, 3)
        draws = jax.random.normal(x_key, (400,))
        layer = eqx.nn.Conv2d(2, 3, (3, 2), key=m_key)
        layer = eqx.tree_at(lambda c: c.weight, layer, draws[:36].reshape(3, 2, 3, 2))
        x = draws[36 : 36 + 2 * rows * columns].reshape(2, rows, columns)
        up = draws[-3 * (rows - 2) * (columns - 1) :].reshape(3, rows - 2, columns - 1)
        by_x, by_kernel = jax.grad(lambda x, k: jnp.sum(up * eqx.tree_at(lambda c: c.weight, layer, k)(x)), (0, 1))(
            x, layer.weight
        )
        found = layer_backward(x, layer.weight, up)
        forward = layer(x) - layer.bias
        model = ConvClassifier((rows, columns), (3, 2), 4, 3, logistic, key=m_key)
        model = eqx.tree_at(lambda m: m.filter_bias, model, jax.random.normal(b_key, (4,)))
        by_hand, by_jax = classifier_gradient(model, x[0], 1), jax.grad(lambda m: m.loss(x[0], 1))(model)
        stepped = sgd_classifier(model, x[:1], jnp.array([1]), key=b_key, steps=1, step=0.1).network
        # one pair of channels of a layer that convolves
        other = jax.grad(lambda k: jnp.sum(up[0] * convolve(x[0], k, "valid")))(layer.weight[0, 0])
        return {
            "layer": (found, (by_x, by_kernel)),
            "adjoint": (jnp.sum(forward * up), jnp.sum(x * found.x)),
            "classifier": [
                (getattr(by_hand, f), getattr(by_jax, f)) for f in ("filters", "filter_bias", "weight", "bias")
            ],
            "step": (stepped.filters, model.filters - 0.1 * by_jax.filters),
            "same routine": (cross_correlate(up[0], x[0]), by_kernel[0, 0]),
            "convolving": (cross_correlate(up[0], x[0]), other),
        }

    found = measure(key)
    layer, (by_x, by_kernel) = found["layer"]
    yield equal("gradient by the input", layer.x.ravel(), by_x.ravel(), atol=1e-11)
    yield equal("gradient by the kernel", layer.kernel.ravel(), by_kernel.ravel(), atol=1e-11)
    yield equal("inner products with the layer and its transpose", *found["adjoint"], atol=1e-11)
    names = ("filters", "bias of the maps", "weights", "bias")
    for name, (ours, autodiff) in zip(names, found["classifier"], strict=True):
        yield equal(f"classifier: gradient by the {name}", ours.ravel(), autodiff.ravel(), atol=1e-11)
    yield equal("a step of descent", *[a.ravel() for a in found["step"]])
    yield equal("by the routine of the forward pass", *[a.ravel() for a in found["same routine"]], atol=1e-11)
    flat = [a.ravel() for a in found["convolving"]]
    yield control(
        "the layer correlates: here it convolves", equal("by the routine of the forward pass", *flat, atol=1e-11)
    )


@claim(rows=("B10.12",))
def teacher_filter(key, *, images: Size = 6, size: Size = 8, steps: Count = 200):
    r"""Gradient descent finds a hidden filter, at the rates of the spectrum of the patches.

    From images $X_i$ and $Y_i=\mathbf r^*\star X_i$, gradient descent on $\frac1{2N}\sum\|\mathbf r\star
    X_i-Y_i\|^2$ ($N$ the number of outputs) has $\mathbf r_t-\mathbf r^*=(I-\eta G)^t(\mathbf r_0-\mathbf r^*)$ with
    $G=\frac1NPP^\top$, $P$ the matrix whose columns are the windows: least squares in disguise. It converges for
    $\eta<2/\lambda_{\max}(G)$.
    """

    @BatchLoss
    def loss(filter, data):
        x, y = data
        out = jax.vmap(lambda image: cross_correlate(filter, image))(x)
        return 0.5 * jnp.mean((out - y) ** 2)

    @jax.jit
    def measure(key):
        draws = jax.random.normal(key, (9 + images * size**2,))
        teacher, x = draws[:9].reshape(3, 3), draws[9:].reshape(images, size, size)
        y = jax.vmap(lambda image: cross_correlate(teacher, image))(x)
        columns = jnp.concatenate([patches(image[None], (3, 3)) for image in x], axis=1)
        gram = columns @ columns.T / columns.shape[1]
        return teacher, x, y, gram

    teacher, x, y, gram = measure(key)
    values, vectors = np.linalg.eigh(np.asarray(gram))
    path = train(jnp.zeros((3, 3)), loss, (x, y), optax.sgd(0.2), steps=steps, measure=lambda f: f).record
    times = np.arange(steps + 1)
    coefficients = vectors.T @ -np.ravel(teacher)
    predicted = ((1 - 0.2 * values) ** times[:, None] * coefficients) @ vectors.T
    error = np.asarray(path).reshape(-1, 9) - np.ravel(teacher)
    yield equal("error of the filter at every step", error.T, predicted.T, atol=1e-10, along="step")
    yield at_most("largest error at the end", np.abs(error[-1]).max(), 1e-6)
    # the steepest direction times |1 - 2.2| in every step
    steep = train(jnp.zeros((3, 3)), loss, (x, y), optax.sgd(2.2 / values[-1]), steps=60, measure=lambda f: f).record
    yield control(
        "the step is below 2 over the largest eigenvalue: here 2.2",
        at_most("error", np.abs(steep[-1] - teacher).max(), 1.0),
    )


@claim(rows=("B10.14", "M14.14"))
def learned_edge_detectors(key, *, n: Size = 100, steps: Count = 300):
    r"""A filter that is trained to tell horizontal from vertical edges becomes an edge detector.

    Images of 8 by 8 with one step edge, horizontal or vertical, anywhere and of either sign, in noise. A network of one
    filter of 3 by 3, the mean square of what it gives, and a logistic output learns to tell them apart. From a small
    filter this is like a power iteration with the difference of the two classes' patch covariances, times the outer
    weight: where that begins positive, the filter ends near Prewitt's and Sobel's kernels for horizontal edges, where
    it begins negative, near their transposes (cosine above 0.8). Where the classes are not told by edges, it does not.
    (With two filters in one network, one of each sign, the one that grows first decides all images, and the other may
    stop on its way.)
    """
    prewitt = np.array([[-1.0, -1, -1], [0, 0, 0], [1, 1, 1]])
    sobel = np.array([[-1.0, -2, -1], [0, 0, 0], [1, 2, 1]])

    def logit(params, image):
        filter, weight, bias = params
        return weight * jnp.mean(cross_correlate(filter, image) ** 2) + bias

    optimiser = optax.sgd(0.3)

    @jax.jit
    def measure(key):
        place_key, sign_key, noise_key, model_key = jax.random.split(key, 4)
        place = jax.random.randint(place_key, (2 * n,), 2, 7)
        sign = jax.random.rademacher(sign_key, (2 * n,), float)[:, None, None]
        noise = 0.6 * jax.random.normal(noise_key, (2 * n * 64,)).reshape(2 * n, 8, 8)
        rows = sign * jnp.where(jnp.arange(8)[:, None] < place[:, None, None], -1.0, 1.0) + jnp.zeros((8, 8))
        y = jnp.arange(2 * n) % 2
        edges = jnp.where(y[:, None, None] == 1, rows, rows.mT) + noise
        # one class all bright or all dark, the other empty: no edges
        plain = jnp.where(y[:, None, None] == 1, sign, 0.0) + noise
        start = 1e-3 * jax.random.normal(model_key, (3, 3))

        def one(x, weight):
            model = Network(logit, (start, weight, jnp.zeros(())))
            model = train(model, "cross_entropy", (x[:n], y[:n]), optimiser, steps=steps).network
            return model.params[0], jnp.mean((jax.vmap(model)(x[n:]) > 0) == (y[n:] == 1))

        return jax.vmap(one)(jnp.stack([edges, edges, plain]), jnp.array([1.0, -1.0, 1.0]))

    filters, right = map(np.asarray, measure(key))

    def cosine(filter, kernel):
        return np.abs(np.sum(filter * kernel)) / np.linalg.norm(filter) / np.linalg.norm(kernel)

    yield at_least("share of new images that are judged right", right[:2], 0.95)
    for name, kernel in (("Prewitt's", prewitt), ("Sobel's", sobel)):
        found = [cosine(filters[0], kernel), cosine(filters[1], kernel.T)]
        yield at_least(f"cosines with {name} kernel, horizontal and vertical", found, 0.8)
    yield control(
        "the classes differ in the direction of an edge: here in brightness",
        at_least("cosine with Prewitt's kernel", max(cosine(filters[2], k) for k in (prewitt, prewitt.T)), 0.8),
    )
