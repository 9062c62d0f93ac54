"""The subject of a plain `corollary audit`: a small network, trained on scikit-learn's digits here and now."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

from corollary.audit.subject import Subject
from corollary.nets import train_epochs
from corollary.network import Network

SIZES = (64, 64, 64, 10)
STEP, BATCH, EPOCHS = 0.2, 64, 30


def digits_subject(seed: int = 0) -> Subject:
    """A ReLU network 64-64-64-10, 30 epochs of plain stochastic gradient descent; its start and its losses are kept."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.data))
    x, y = (digits.data[order] / 16).astype(np.float32), digits.target[order]
    train, test = (x[:1437], y[:1437]), (x[1437:], y[1437:])
    init_key, batch_key = jax.random.split(jax.random.key(seed))
    start = _init(init_key)
    network = Network(_apply, start)
    options = {"epochs": EPOCHS, "batch_size": BATCH, "key": batch_key}
    trained = train_epochs(network, "cross_entropy", train, optax.sgd(STEP), **options)
    return Subject(
        trained.network,
        "cross_entropy",
        train,
        test,
        init=lambda key: network.with_params(_init(key)),
        initial=network,
        learning_rate=STEP,
        batch_size=BATCH,
        steps=trained.losses.size,
        optimiser=optax.sgd(STEP),
        history=np.asarray(trained.losses.mean(1)),
    )


def _init(key):
    keys = jax.random.split(key, len(SIZES) - 1)
    shapes = itertools.pairwise(SIZES)
    return [
        {"weight": jax.random.normal(k, (a, b), jnp.float32) * (2 / a) ** 0.5, "bias": jnp.zeros(b, jnp.float32)}
        for k, (a, b) in zip(keys, shapes, strict=True)
    ]


def _apply(params, x):
    for layer in params[:-1]:
        x = jax.nn.relu(x @ layer["weight"] + layer["bias"])
    return x @ params[-1]["weight"] + params[-1]["bias"]
