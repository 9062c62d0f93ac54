"""The MNIST listings of text M on the real images: one hidden layer, four, a network that grows, and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from corollary.claims.nets._pictures import curves
from corollary.data import mnist
from corollary.evidence import Count, Probability, Size, at_least, at_most, claim, control, equal, printed
from corollary.nets import (
    Classifier,
    GrowingNetwork,
    accuracy,
    grows,
    mean_loss,
    relu,
    tanh,
    train_epochs,
    train_growing,
)
from corollary.network import BatchLoss

PIXELS, STEP, BATCH = 784, 0.1, 100  # as in the listings


def _images(split, n):
    """The first `n` images of a part as bytes, one per row, and their digits."""
    data = mnist(split)
    return data.x[:n].reshape(-1, PIXELS), data.y[:n]


def _scaled(x):
    """Pixels between 0 and 1 in single precision, as in the listings."""
    return x.astype(jnp.float32) / 255


def _single(model):
    return jax.tree.map(lambda a: a.astype(jnp.float32) if jnp.issubdtype(a.dtype, jnp.floating) else a, model)


def _listing(images, tests, epochs, width, depth, activation):
    """The listing as one program of a key and labels: training losses and test accuracies, epoch by epoch."""
    (x, y), (test_x, test_y) = _images("train", images), _images("test", tests)

    @jax.jit
    def train(key, x, y, test_x, test_y):
        net_key, order_key = jax.random.split(key)
        model = _single(Classifier(PIXELS, width, depth, 10, activation, key=net_key))
        out = train_epochs(
            model,
            BatchLoss(lambda model, batch: mean_loss(model, (_scaled(batch[0]), batch[1]))),
            (x, y),
            optax.sgd(STEP),
            epochs=epochs,
            batch_size=BATCH,
            key=order_key,
            measure=lambda model: accuracy(model, (_scaled(test_x), test_y)),
        )
        return out.losses.mean(1), out.record

    return lambda key, shuffle=False: train(
        key, x, np.asarray(jax.random.permutation(key, y)) if shuffle else y, test_x, test_y
    )


def _commonest(tests):
    return np.bincount(_images("test", tests)[1]).max() / tests


@claim(rows=("M07.23", "M07.24"), full={"images": 60_000, "epochs": 100, "least": 0.975})
def one_hidden_layer(
    key, *, images: Size = 10_000, tests: Size = 10_000, epochs: Count = 4, width: Size = 100, least: Probability = 0.87
):
    r"""One hidden layer of 100 tanh units learns to read digits by stochastic gradient descent.

    784-100-10 with softmax and cross-entropy, step 0.1, batches of 100 that are reshuffled in every epoch, 100 epochs
    of 60,000 images. The text prints no accuracy; the listing reaches 0.98 of the test images (0.9796 with seed 0). At
    the quick scale, 4 epochs of 10,000 images, it reads 0.89 to 0.91 of them. With the labels of the training images
    in random order it learns nothing that helps.
    """
    run = _listing(images, tests, epochs, width, 1, tanh)
    losses, found = run(key)
    _, blind = run(key, shuffle=True)
    yield at_least("test accuracy at the end", found[-1], least)
    yield at_least("test accuracy after one epoch over that of the commonest digit", found[1], 2 * _commonest(tests))
    yield at_most("training loss of the last epoch over that of the first", losses[-1] / losses[0], 0.6)
    yield control("training labels in random order", at_least("test accuracy at the end", blind[-1], least))
    yield curves("reading digits", np.arange(epochs + 1), {"test": found, "random labels": blind}, "epoch", "accuracy")


@claim(rows=("M08.09",), full={"images": 60_000, "epochs": 100, "least": 0.97})
def four_hidden_layers(
    key, *, images: Size = 10_000, tests: Size = 10_000, epochs: Count = 8, width: Size = 100, least: Probability = 0.75
):
    r"""Four hidden layers of 100 rectified units learn to read digits, after a slow start.

    784-100-100-100-100-10 with ReLU, the rest as for one hidden layer: initial weights uniform on
    $\pm1/\sqrt{\text{fan-in}}$, step 0.1, batches of 100. With these weights, a third of what keeps the signal, the
    first epoch of 10,000 images ends near the loss $\ln10$ of a network that knows nothing. The text prints no
    accuracy; the listing reaches 0.98 (0.9787 with seed 0).
    """
    run = _listing(images, tests, epochs, width, 4, relu)
    losses, found = run(key)
    _, blind = run(key, shuffle=True)
    yield at_least("test accuracy at the end", found[-1], least)
    if images <= 10_000:
        # the loss of uniform probabilities is ln 10; small logits change it by a few percent
        yield equal("training loss of the first epoch", losses[0], np.log(10), rtol=0.03)
    yield control("training labels in random order", at_least("test accuracy at the end", blind[-1], least))
    yield curves("reading digits", np.arange(epochs + 1), {"test": found, "random labels": blind}, "epoch", "accuracy")


@claim(
    rows=("M07.23",),
    erratum="The second argument 0 of np.array is a data type; the column needs the index [:, 0], as in section 7.5.3.",
)
def labels_as_printed(key):
    r"""The printed lines read the labels.

    As printed: `np.int32(np.array(MNIST_data['y_train'][:],0))`, where the file holds the labels as a column.
    """
    column = np.arange(5)[:, None]
    readings = []
    for read in (lambda c: np.array(c[:, 0]), lambda c: np.array(c[:], 0)):
        try:
            readings.append(np.array_equal(np.int32(read(column)), np.arange(5)))
        except TypeError:
            readings.append(False)
    yield equal("with the index [:, 0]", readings[0], True, rtol=0, atol=0)
    yield printed(equal("as printed", readings[1], True, rtol=0, atol=0))


@claim(
    rows=("M07.25",),
    full={"images": 60_000, "tests": 10_000, "epochs": 100, "wait": 20, "gain": 0.001, "most": 3, "least": 0.88},
)
def growing_network(
    key,
    *,
    images: Size = 3000,
    tests: Size = 2000,
    epochs: Count = 20,
    wait: Count = 9,
    gain: Probability = 0.999,
    most: Size = 2,
    least: Probability = 0.3,
):
    r"""A network that adds layers while it is trained forgets what it knew, and learns again.

    $V=C\tanh(W_n\cdots\tanh(W_0x))$, 50 units a layer, no biases, all weights $N(0,1)$, step $0.1/$layers. After an
    epoch beyond `wait` whose training accuracy is not `gain` above the one before, a random layer is put on top, up
    to `most`. The new layer scrambles what the outer weights had learned to read: accuracy falls at once, and
    recovers. Since $\tanh$ is not far from the identity on its own scale, a new layer that starts as the identity
    costs far less. The whole run, growth included, is one compiled program. At the quick scale growth is forced; the
    listing itself (seed 0) grows after epochs 27 and 28, from 0.915 to 0.622, and ends at 0.933 (test 0.895).
    """
    (x, y), (test_x, test_y) = _images("train", images), _images("test", tests)

    def run(added):
        @jax.jit
        def train(key, x, y, test_x, test_y):
            net_key, order_key = jax.random.split(key)
            network = _single(GrowingNetwork(PIXELS, 50, 10, key=net_key, most=most, added=added))
            return train_growing(
                network,
                (_scaled(x), y),
                epochs=epochs,
                batch_size=BATCH,
                key=order_key,
                wait=wait,
                gain=gain,
                measure=lambda n: jnp.mean(jnp.argmax(jax.vmap(n)(_scaled(test_x)), axis=1) == test_y),
            )[1:]

        return train(key, x, y, test_x, test_y)

    (accuracies, layers, tested), (mild, mild_layers, _) = run("random"), run("identity")
    script = np.array([0.5, 0.6, 0.6005, 0.602, 0.6, 0.7])
    wanted = [False, False, True, False, True, False]
    rule = [bool(grows(30 + i, a, b, 1)) for i, (a, b) in enumerate(zip(script, [0.0, *script[:-1]], strict=True))]
    yield equal("the rule on scripted accuracies", rule, wanted, rtol=0, atol=0)
    yield equal("the rule before its time, and at the most", [grows(20, 0.5, 0.5, 1), grows(30, 0.5, 0.5, 3)], False)
    yield equal("layers at the end", layers[-1], most, rtol=0, atol=0)
    at = int(np.argmax(np.diff(np.asarray(layers)) > 0)) + 1
    at_mild = int(np.argmax(np.diff(np.asarray(mild_layers)) > 0)) + 1
    yield at_most("accuracy in the epoch after growth, over that before", accuracies[at] / accuracies[at - 1], 0.95)
    yield at_least("training accuracy at the end", accuracies[-1], accuracies[at] + 0.02)
    yield at_least("test accuracy at the end", tested[-1], least)
    ratio = mild[at_mild] / mild[at_mild - 1]
    yield control("a new layer that starts as the identity", at_most("accuracy after over before", ratio, 0.95))
    lines = {"random layer": accuracies, "identity layer": mild}
    yield curves("accuracy of a growing network", np.arange(epochs), lines, "epoch", "training accuracy")


@claim(rows=("M07.26",), full={"images": 60_000, "epochs": 2})
def same_on_every_device(key, *, images: Size = 2000, epochs: Count = 2, width: Size = 100):
    r"""Another device or another precision changes the rounding of a training run and nothing else.

    The listing of 7.5.2 in single precision on the default device (a GPU where there is one) and in double precision
    on the CPU, from the same weights over the same batches: the losses agree to $10^{-3}$ of their size. How much
    faster the device is, "up to 10" in the text, depends on the device and on the width, and is no part of the claim.
    """
    x, y = _images("train", images)

    def run(dtype):
        def train(key, x, y):
            net_key, order_key = jax.random.split(key)
            model = jax.tree.map(
                lambda a: a.astype(jnp.float32).astype(dtype), Classifier(PIXELS, width, 1, 10, tanh, key=net_key)
            )
            return train_epochs(
                model,
                BatchLoss(lambda model, batch: mean_loss(model, (batch[0].astype(dtype) / 255, batch[1]))),
                (x, y),
                optax.sgd(STEP),
                epochs=epochs,
                batch_size=BATCH,
                key=order_key,
            ).losses.ravel()

        return jax.jit(train)

    device, cpu = jax.devices()[0], jax.devices("cpu")[0]
    with jax.default_device(device):
        single = run(jnp.float32)(key, x, y)
    with jax.default_device(cpu):
        double, other = run(jnp.float64)(key, x, y), run(jnp.float64)(jax.random.fold_in(key, 1), x, y)
    yield equal("losses, batch after batch", single, double, rtol=1e-3, along="batch")
    yield control("other weights and batches", equal("losses", other, double, rtol=1e-3, along="batch"))


def _numpy_steps(layers, x, y, order):
    """SGD with backpropagation in plain NumPy, by sensitivities to the hidden values (M section 8.2)."""
    layers = [(w.copy(), b.copy()) for w, b in layers]
    for chosen in order:
        states = [x[chosen]]
        for w, b in layers[:-1]:
            states.append(np.tanh(states[-1] @ w.T + b))
        u = states[-1] @ layers[-1][0].T + layers[-1][1]
        p = np.exp(u - u.max(1, keepdims=True))
        slope = p / p.sum(1, keepdims=True) - np.eye(10)[y[chosen]]
        for i in reversed(range(len(layers))):
            w, b = layers[i]
            delta = slope @ w  # by the hidden values below, before they change
            layers[i] = (w - STEP * slope.T @ states[i] / len(chosen), b - STEP * slope.mean(0))
            slope = delta * (1 - states[i] ** 2)
    return layers


@claim(rows=("M08.11",), full={"steps": 500})
def backpropagation_by_hand(key, *, images: Size = 2000, steps: Count = 20, depth: Size = 3):
    r"""Backpropagation written in NumPy trains the same network as automatic differentiation.

    A 784-30-30-30-10 tanh network on MNIST, batches of 100, step 0.1, double precision: after 20 steps from one start
    all parameters agree up to rounding.
    """
    x, y = _images("train", images)
    x = x.astype(float) / 255
    net_key, order_key = jax.random.split(key)
    model = Classifier(PIXELS, 30, depth, 10, tanh, key=net_key)
    order = jax.vmap(lambda k: jax.random.permutation(k, images)[:BATCH])(jax.random.split(order_key, steps))
    order = np.asarray(order)

    @jax.jit
    def automatic(model, x, y, order):
        def advance(model, chosen):
            slope = jax.grad(mean_loss)(model, (x[chosen], y[chosen]))
            return jax.tree.map(lambda a, g: a - STEP * g, model, slope), None

        return jax.lax.scan(advance, model, order)[0]

    def flat(layers):
        return np.concatenate([np.ravel(a) for pair in layers for a in pair])

    start = [(np.asarray(layer.weight), np.asarray(layer.bias)) for layer in model.network.layers]
    trained = automatic(model, x, y, order)
    theirs = flat([(layer.weight, layer.bias) for layer in trained.network.layers])
    ours = flat(_numpy_steps(start, x, y, order))
    yield equal("all parameters", ours, theirs, rtol=0, atol=1e-10)
    yield at_least("how far they moved", np.abs(theirs - flat(start)).max(), 1e-2)
    yield at_most("training loss, over that at the start", mean_loss(trained, (x, y)) / mean_loss(model, (x, y)), 1.0)
    late = flat(_numpy_steps(start, x, y, order[::-1]))
    yield control("the batches in another order", equal("all parameters", late, theirs, rtol=0, atol=1e-10))
