"""Subjects of every usual kind: what they know, and that every section measures them or says why not."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary import Network, Subject
from corollary.audit import SubjectError, audit
from corollary.audit._budget import BUDGETS, OF_TEXT, SECTIONS, Budget

RNG = np.random.default_rng(0)
N, T, V, D = 24, 5, 7, 4
LESS = Budget("less", examples=32, kernel=8, products=8, work=1e12)


def normal(*shape):
    return (RNG.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


X, X_TEST = (RNG.normal(size=(N, D)).astype(np.float32) for _ in range(2))
WEIGHTS = {"w": normal(D, 6), "v": normal(6, 3)}


def dense(params, x):
    return jnp.tanh(x @ params["w"]) @ params["v"]


def moved(params):
    return jax.tree.map(lambda a: (0.5 * a).astype(np.float32), params)


def audited(subject, monkeypatch, beside=()):
    """The findings of all sections, and of those `beside` that are asked of its kind, none of which may stop."""
    monkeypatch.setitem(BUDGETS, "quick", LESS)
    report = audit(subject)
    assert [s.failed for s in report.sections] == [None] * len(SECTIONS + beside)
    return {f.name: f for f in report.findings}


# --- kinds


def tokens():
    """A language model: tokens and a mask in, a class per token out, padding ignored."""
    params = {"table": normal(V, 6), "w": normal(6, 6), "v": normal(6, V)}

    def apply(params, x):
        h = params["table"][x["tokens"]] * x["mask"][:, None]
        return jnp.tanh((jnp.cumsum(h, 0) / jnp.arange(1, T + 1)[:, None]) @ params["w"]) @ params["v"]

    def data():
        words = RNG.integers(0, V, (N, T + 1))
        mask = np.arange(T) < RNG.integers(2, T + 1, N)[:, None]
        return {"tokens": words[:, :-1], "mask": mask}, np.where(mask, words[:, 1:], -100)

    start = Network(apply, moved(params))
    return Subject(Network(apply, params), "cross_entropy", data(), data(), initial=start, learning_rate=0.1)


def test_a_language_model(monkeypatch):
    subject = tokens()
    assert subject.train[0]["tokens"].dtype == np.int32
    assert (subject.classes, subject.labels().shape, subject.predict().shape) == (V, (N, T), (N, T))
    y, out = np.asarray(subject.labels()), np.asarray(subject.outputs(), float)
    known = y != -100
    p = np.exp(out) / np.exp(out).sum(-1, keepdims=True)
    # as in PyTorch: the mean over all tokens that count, not over the examples' means
    expected = -np.log(np.take_along_axis(p, np.where(known, y, 0)[..., None], -1)[..., 0])[known].mean()
    assert subject.mean_loss() == pytest.approx(expected, rel=1e-5)
    assert subject.error() == pytest.approx(np.mean(out.argmax(-1)[known] != y[known]))
    found = audited(subject, monkeypatch, OF_TEXT)
    # its mean of the tokens so far knows no order
    assert (found["outputs that move with later tokens"].value, found["order of the tokens"].mark) == (0, "problem")
    assert "words" in found["scale of the inputs"].sentence
    assert "places" in found["median margin"].sentence
    assert found["regression with the initial kernel"].value is not None


def segmentation():
    """Classes first, as PyTorch has them."""
    params = {"k": normal(3, 3, 3, 3), "v": normal(4, 3)}

    def apply(params, x):
        h = jax.lax.conv_general_dilated(x[None], params["k"], (1, 1), "SAME")[0]
        return jnp.einsum("ck,khw->chw", params["v"], jax.nn.relu(h))

    x = RNG.normal(size=(N, 3, 5, 6)).astype(np.float32)
    return Subject(Network(apply, params), "cross_entropy", (x, RNG.integers(0, 4, (N, 5, 6))))


def test_segmentation(monkeypatch):
    subject = segmentation()
    assert (subject.classes, subject.class_axis, subject.predict().shape) == (4, 1, (N, 5, 6))
    assert subject.error() == pytest.approx(np.mean(np.asarray(subject.outputs()).argmax(1) != subject.labels()))
    found = audited(subject, monkeypatch)
    assert "places" in found["most frequent answer"].sentence


def test_which_axis_has_the_classes_is_said_where_both_could():
    subject = Subject(
        Network(lambda w, x: x * w, jnp.ones((3, 3))), "cross_entropy", (normal(N, 3, 3), np.ones((N, 3), int))
    )
    assert "the last axis of the outputs, of shape (3, 3), was taken for the classes." in subject.notes


def test_several_labels_at_once(monkeypatch):
    y, y_test = RNG.integers(0, 2, (2, N, 3))
    start = Network(dense, moved(WEIGHTS))
    subject = Subject(Network(dense, WEIGHTS), "binary_cross_entropy", (X, y), (X_TEST, y_test), initial=start)
    out = np.asarray(subject.outputs(), float)
    assert subject.mean_loss() == pytest.approx(np.mean(np.log1p(np.exp(-np.where(y == 1, out, -out)))), rel=1e-5)
    assert subject.error() == pytest.approx(np.mean((out > 0) != y))
    found = audited(subject, monkeypatch)
    assert found["variation of the outputs"].value > 0
    assert found["regression with the final kernel"].value is not None
    soft = Subject(Network(dense, WEIGHTS), "binary_cross_entropy", (X, 0.3 * y))
    with pytest.raises(SubjectError, match="under the loss 'binary_cross_entropy': look at the loss instead"):
        soft.error()


def test_pairs_of_inputs_and_a_loss_with_two_targets(monkeypatch):
    def apply(params, x):
        return jnp.tanh(x[0] @ params["w"] + x[1] @ params["u"]) @ params["v"]

    def loss(output, target):
        return jnp.sum(target["scale"] * (output - target["goal"]) ** 2)

    params = WEIGHTS | {"u": normal(2, 6)}
    x, y = (X, normal(N, 2)), {"goal": normal(N, 3), "scale": np.abs(normal(N))}
    subject = Subject(Network(apply, params), loss, (x, y), batch_size=8, learning_rate=0.1)
    assert subject.classes is None
    with pytest.raises(SubjectError, match="targets of several arrays under the loss 'custom'"):
        subject.error()
    found = audited(subject, monkeypatch)
    assert found["noise scale"].value > 0
    assert found["alignment with the labels"].mark == "not applicable"
    with pytest.raises(SubjectError, match="one array under the loss 'squared': targets of several arrays need"):
        Subject(Network(apply, params), "squared", (x, y))
    with pytest.raises(SubjectError, match=r"x must have examples of shape \(4,\) and \(2,\), got \(4,\)"):
        subject.outputs(X)


def test_weights_are_those_of_a_weighted_mean(monkeypatch):
    y, weights = RNG.integers(0, 3, N), RNG.uniform(0, 2, N)
    subject = Subject(Network(dense, WEIGHTS), "cross_entropy", (X, y, weights), (X_TEST, y), learning_rate=0.1)
    plain = Subject(Network(dense, WEIGHTS), "cross_entropy", (X, y))
    losses = -np.log(np.asarray(jax.nn.softmax(plain.outputs()), float)[np.arange(N), y])
    assert subject.mean_loss() == pytest.approx(np.average(losses, weights=weights), rel=1e-5)
    assert subject.error() == plain.error()
    twice = Subject(Network(dense, WEIGHTS), "cross_entropy", (X, y, 2 * weights))
    assert twice.mean_loss() == pytest.approx(subject.mean_loss(), rel=1e-6)
    # weights of classes: PyTorch divides by their sum as well
    by_class = np.array([1.0, 2.0, 0.5])[y]
    classes = Subject(Network(dense, WEIGHTS), "cross_entropy", (X, y, by_class))
    assert classes.mean_loss() == pytest.approx(np.sum(by_class * losses) / by_class.sum(), rel=1e-5)
    assert audited(subject, monkeypatch)["median margin"].value is not None


def test_frozen_arrays_stay_frozen(monkeypatch):
    network = eqx.nn.MLP(D, 3, 6, 1, key=jax.random.key(0))
    mask = jax.tree.map(eqx.is_array, network)
    mask = eqx.tree_at(lambda m: m.layers[0], mask, jax.tree.map(lambda _: False, mask.layers[0]))
    subject = Subject(network, "cross_entropy", (X, RNG.integers(0, 3, N)), trainable=mask, learning_rate=0.1)
    assert subject.size == 6 * 3 + 3
    assert audited(subject, monkeypatch)["trace of the Hessian"].sentence.startswith("The curvatures of all 21 ")


def test_a_batch_of_more_examples_than_were_given_is_said():
    subject = Subject(Network(dense, WEIGHTS), "cross_entropy", (X, RNG.integers(0, 3, N)), batch_size=512)
    assert subject.batch_size == 512
    assert subject.notes == (
        "the batches of the training had 512 examples, more than the 24 given: these were taken for a part of the "
        "training data.",
    )


REFUSED = {
    "weights of another length": (
        (X, np.zeros(N, int), np.ones(3)),
        "cross_entropy",
        r"train weights must hold one weight for each of the 24 examples, got shape \(3,\)",
    ),
    "negative weights": ((X, np.zeros(N, int), -np.ones(N)), "cross_entropy", "zero or more and not all zero"),
    "four things": ((X, X, X, X), "cross_entropy", "train must be a pair"),
    "inputs of different lengths": (({"a": X, "b": X[1:]}, np.zeros(N, int)), "cross_entropy", "one common first axis"),
    "words as labels": ((X, np.full(N, "cat")), "cross_entropy", "number the classes from 0"),
    "several labels under cross-entropy": (
        (X, np.ones((N, 3), int)),
        "cross_entropy",
        "several labels at once are for binary_cross_entropy",
    ),
    "labels that are no answers": (
        (X, np.arange(N)),
        "binary_cross_entropy",
        r"train y must have the shape of the outputs, \(24, 3\), got \(24,\)",
    ),
    "answers beyond 1": ((X, np.full((N, 3), 2)), "binary_cross_entropy", r"train y must be in \[0, 1\]"),
    "one label for three outputs": ((X, np.ones(N)), "hinge", "hinge takes one output and one label"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_sentence(case):
    data, loss, sentence = REFUSED[case]
    with pytest.raises(SubjectError, match=sentence) as caught:
        Subject(Network(dense, WEIGHTS), loss, data)
    assert "\n" not in str(caught.value)


def test_no_place_counts():
    subject = tokens()
    with pytest.raises(SubjectError, match="a class for at least one place, but all of them are -100"):
        Subject(subject.network, "cross_entropy", (subject.train[0], np.full((N, T), -100)))
