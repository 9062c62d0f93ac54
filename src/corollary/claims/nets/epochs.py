"""Epochs of reshuffled batches: what one visits, and what its gradients average to (M section 7.5.2)."""

import jax
import jax.numpy as jnp
import numpy as np

from corollary.data import mnist
from corollary.evidence import Size, claim, control, equal, printed
from corollary.nets import Classifier, epoch_batches, mean_loss, tanh


@claim(rows=("M07.24",))
def reshuffled_epochs(key, *, examples: Size = 600, batch: Size = 100):
    r"""An epoch visits every example once, and its batches' gradients average to the full gradient.

    For batches of one size at a fixed parameter, $\frac1{M/M_o}\sum_bG_b=\nabla\Lambda$, whatever the order. If the
    last batch is shorter, the plain average gives its examples too much weight.
    """
    x, y = mnist("train")
    x, y = x[:examples].reshape(examples, -1), y[:examples]
    net_key, order_key = jax.random.split(key)

    @jax.jit
    def measure(net_key, order_key, x, y):
        model = Classifier(x.shape[1], 8, 1, 10, tanh, key=net_key)
        x = x.astype(float) / 255

        def slope(chosen):
            layers = jax.grad(mean_loss)(model, (x[chosen], y[chosen])).network.layers
            return jnp.concatenate([layers[1].weight.ravel(), layers[0].bias])

        order = epoch_batches(examples, batch, key=order_key)
        parts = jax.vmap(slope)(order)
        flat = order.ravel()
        # all but half a batch, then the half on its own
        short = (jax.vmap(slope)(order[:-1]).sum(0) + slope(flat[-(batch // 2) :])) / order.shape[0]
        return order, parts.mean(0), slope(jnp.arange(examples)), short

    order, average, full, short = measure(net_key, order_key, x, y)
    yield equal("examples of an epoch, in order", np.sort(np.ravel(order)), np.arange(examples), rtol=0, atol=0)
    yield equal("average of the batches' gradients", average, full, atol=1e-13)
    yield control(
        "all batches have one size: here the last is half as long",
        equal("average of the batches' gradients", short, full, atol=1e-13),
    )


@claim(
    rows=("M07.24",),
    erratum="Within an epoch the examples are drawn without replacement: they are neither independent nor repeated.",
)
def independent_as_printed(key, *, examples: Size = 10_000, batch: Size = 100):
    r"""A shuffled epoch is a sequence of independent draws from the data.

    As printed in 7.5.2: "the dataset is randomly shuffled so that the model is trained on a sequence of i.i.d. data
    samples". An epoch is a permutation: every example appears once. Of $M$ independent draws
    $1-(1-\frac1M)^M\approx0.632$ of the examples would appear, with a standard deviation below $1/\sqrt M$.
    """
    draws = jax.random.randint(key, (examples,), 0, examples)
    seen = [np.unique(order).size / examples for order in (draws, epoch_batches(examples, batch, key=key))]
    predicted, spread = 1 - (1 - 1 / examples) ** examples, 6 / examples**0.5
    yield equal("share of the examples seen, independent draws", seen[0], predicted, rtol=0, atol=spread)
    yield equal("share of the examples seen in an epoch, corrected", seen[1], 1.0, rtol=0, atol=0)
    yield printed(equal("share of the examples seen in an epoch", seen[1], predicted, rtol=0, atol=spread))
