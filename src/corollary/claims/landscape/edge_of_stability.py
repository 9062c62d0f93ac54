"""Gradient descent on the digits meets the largest sharpness that its step can bear, and stays there."""

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

from corollary.evidence import Count, Size, at_least, at_most, claim, control, picture
from corollary.landscape import sharpness_path
from corollary.nets import MLP

# The sharpness of the start is 2.5 with a standard deviation of 0.15: for the largest step it is five of them below
# 2/0.6. The last step is the contrast: over the same number of steps it stays far from its edge.
ETAS = np.array([0.6, 0.5, 0.4, 0.05])


@claim(rows=("T02.37",), full={"width": 64, "points": 1000, "steps": 8000})
def edge_of_stability_on_digits(key, *, width: Size = 24, points: Size = 400, steps: Count = 1600):
    r"""Full-batch gradient descent on the digits raises the sharpness to two over the step and holds it there.

    A tanh network 64-w-w-10 with squared loss. On a quadratic, gradient descent diverges along every direction whose
    curvature exceeds $2/\eta$; here the sharpness $\lambda_{\max}(\nabla^2\Lambda)$ starts below that value for each of
    three steps, rises, and then hovers about it: its median over the last quarter of training is $2/\eta$ within five
    percent (an observation, for which the texts give no theorem). From there on the loss goes up in a good part of the
    steps, and yet falls over long stretches. With a step eight times smaller the sharpness over the same number of
    steps stays far below its $2/\eta$.
    """
    digits = load_digits()
    x = digits.data[:points] / 16
    data = x - x.mean(0), np.eye(10)[digits.target[:points]]
    every = steps // 32

    @jax.jit
    def measure(key, data):
        network = MLP((64, width, width, 10), jnp.tanh, key=key)
        return sharpness_path(network, "squared", data, ETAS, steps=steps, every=every)

    path = jax.tree.map(np.asarray, measure(key, data))
    ratio = path.sharpness * ETAS[:, None] / 2
    late = np.median(ratio[:, -8:], axis=1)
    seen = path._replace(sharpness=path.sharpness[:3], step=path.step[:3])
    yield picture("sharpness along the training", seen.plot())
    yield at_most("sharpness over 2/η at the start", ratio[:3, 0], 0.99)
    yield at_least("sharpness over 2/η, median of the last quarter", late[:3], 0.95)
    yield at_most("the same, from above", late[:3], 1.05)
    reached = np.argmax(ratio[:3] > 0.95, axis=1)
    # before the edge is met no step goes uphill; later there are quiet stretches between the bursts
    uphill = np.array([u[i:].mean() for u, i in zip(path.uphill[:3], reached, strict=True)])
    yield at_least("share of the steps that go uphill, from the edge on", uphill, 0.02)
    fall = path.losses[:3, -1] / path.losses[np.arange(3), reached]
    yield at_most("final loss over the loss where the edge was met", fall, 0.8)
    small = "a step large enough for the edge to be met: here eight times smaller"
    yield control(small, at_least("sharpness over 2/η, median of the last quarter", late[3], 0.95))
    yield control(small, at_least("share of the steps that go uphill", path.uphill[3].mean(), 0.02))
