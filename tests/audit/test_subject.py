"""A subject knows its network, and refuses in one sentence what cannot be audited."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made import made as made_of

import corollary
from corollary import BatchLoss, Network
from corollary.audit import Subject, SubjectError
from corollary.audit import _checks as checks
from corollary.audit._cost import Cost
from corollary.audit._names import spelled
from corollary.audit.sections import _columns
from corollary.audit.sections._players import players_of
from corollary.evidence._errors import UserError

N, D, K = 20, 4, 3


def apply(params, x):
    return jnp.tanh(x @ params["w"]) @ params["v"]


@pytest.fixture
def params():
    rng = np.random.default_rng(0)
    return {"w": rng.normal(size=(D, 6)).astype(np.float32), "v": rng.normal(size=(6, K)).astype(np.float32)}


@pytest.fixture
def data():
    return np.random.default_rng(1).normal(size=(N, D)), np.arange(N) % K


def made(params, data, loss="cross_entropy", test=None, function=apply, **known):
    return made_of(function, params, loss, data, test, **known)


def test_what_it_knows(params, data):
    x, y = data
    subject = made(params, data, test=(x[:7], y[:7]), learning_rate=0.1, batch_size=5, history=[2.0, np.inf, 1.0])
    assert subject.size == D * 6 + 6 * K
    assert (subject.classes, subject.loss_name, subject.splits) == (K, "cross_entropy", ("train", "test"))
    logits = np.tanh(x @ params["w"]) @ params["v"]
    # float32: a few hundred units in the last place of numbers of size one
    tolerance = dict(rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(subject.outputs(), logits, **tolerance)
    np.testing.assert_allclose(subject.outputs("test"), logits[:7], **tolerance)
    np.testing.assert_array_equal(subject.predict(x), logits.argmax(axis=1))
    np.testing.assert_array_equal(subject.labels(), y)
    assert subject.error("test") == pytest.approx(np.mean(logits[:7].argmax(axis=1) != y[:7]))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert subject.mean_loss() == pytest.approx(-np.log(p[np.arange(N), y]).mean(), rel=1e-4)
    assert subject.train[0].dtype == np.float32
    assert (subject.learning_rate, subject.batch_size) == (0.1, 5)
    np.testing.assert_array_equal(subject.history["loss"], [2.0, np.inf, 1.0])
    assert repr(subject) == f"<Subject of {subject.size} parameters, cross_entropy loss, 3 classes, 20 + 7 examples>"


def test_at_other_parameters_the_compiled_programs_are_shared(params, data):
    subject = made(params, data, initial=params, init=lambda key: jax.tree.map(jnp.zeros_like, params))
    zero = subject.with_params(subject.init(jax.random.key(0)))
    assert zero.mean_loss() == pytest.approx(np.log(K), rel=1e-6)
    assert subject.mean_loss() != pytest.approx(np.log(K), rel=1e-2)
    assert zero.objective is subject.objective
    assert zero.initial_params is subject.initial_params
    with pytest.raises(SubjectError, match="params must have the structure of the network"):
        subject.with_params({"w": params["w"]})
    with pytest.raises(SubjectError, match=r"'v'\] must have shape \(6, 3\) as in the network, got \(3, 6\)"):
        subject.with_params(jax.tree.map(lambda a: a.T if a.shape == (6, 3) else a, subject.params))
    with pytest.raises(SubjectError, match="the outputs must be finite"):
        subject.with_params(jax.tree.map(lambda a: np.inf * a, subject.params))


def test_outputs_in_batches(params, monkeypatch):
    x = np.random.default_rng(2).normal(size=(23, D)).astype(np.float32)
    whole = checks.outputs(apply, params, jnp.asarray(x), Cost(1, 1, 1))
    monkeypatch.setattr(checks, "EXAMPLES", 5)
    # the same sums in programs of other shapes: rounding
    np.testing.assert_allclose(
        checks.outputs(apply, params, jnp.asarray(x), Cost(1, 1, 1)), whole, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("y", "loss"), [(np.arange(N) % 2, "cross_entropy"), (2.0 * (np.arange(N) % 2) - 1, "squared")]
)
def test_two_classes_and_one_output(params, data, y, loss):
    params = {"w": params["w"], "v": params["v"][:, :1]}
    subject = made(params, (data[0], y), loss)
    out = (np.tanh(data[0] @ params["w"]) @ params["v"])[:, 0]
    assert subject.classes == 2
    assert subject.error() == pytest.approx(np.mean((out > 0) != (y > 0)))
    if loss == "cross_entropy":
        sign = 2 * y - 1
        assert subject.mean_loss() == pytest.approx(np.log1p(np.exp(-sign * out)).mean(), rel=1e-4)
    else:
        assert subject.mean_loss() == pytest.approx(np.mean((out - y) ** 2) / 2, rel=1e-4)


def test_the_squared_loss(params, data):
    x, y = data
    one_hot = np.eye(K)[y]
    out = np.tanh(x @ params["w"]) @ params["v"]
    subject = made(params, (x, one_hot), "squared")
    assert subject.classes == K
    assert subject.error() == pytest.approx(np.mean(out.argmax(1) != y))
    assert subject.mean_loss() == pytest.approx(np.mean(np.sum((out - one_hot) ** 2, axis=1)) / 2, rel=1e-4)
    numbers = np.random.default_rng(3).normal(size=(N, K))
    regression = made(params, (x, numbers), "squared")
    assert regression.classes is None
    assert regression.error() == pytest.approx(np.mean((out - numbers) ** 2), rel=1e-4)
    np.testing.assert_array_equal(regression.predict("train"), regression.outputs())
    with pytest.raises(SubjectError, match="a regression has no class labels"):
        regression.labels()
    flat = made({"w": params["w"], "v": params["v"][:, :1]}, (x, numbers[:, 0]), "squared")
    assert flat.train[1].shape == (N, 1)  # else outputs minus targets would be a matrix
    assert "regression" in repr(flat)


def test_labels_one_hot_or_in_a_column(params, data):
    x, y = data
    for labels in (np.eye(K)[y], y[:, None], y.astype(float)):
        assert made(params, (x, labels)).mean_loss() == made(params, data).mean_loss()


def test_a_loss_of_ones_own(params, data):
    def absolute(output, target):
        return jnp.sum(jnp.abs(output - target))

    def hinge(output, label):
        return jnp.maximum(0, 1 - output[label])

    x = data[0]
    numbers = np.random.default_rng(3).normal(size=(N, K))
    assert made(params, (x, numbers), absolute).classes is None
    assert made(params, (x, numbers), absolute).error() > 0
    assert made(params, data, hinge).classes == K
    assert made(params, (x, numbers), "absolute").mean_loss() == made(params, (x, numbers), absolute).mean_loss()
    odd = made(params, (x, numbers[:, :1]), lambda f, y: (jnp.sum(f) - y[0]) ** 2)
    with pytest.raises(SubjectError, match="the error is not defined for outputs of shape"):
        odd.error()


class Frame:
    """What a data frame shows of itself."""

    def __init__(self, table, names):
        self.table, self.columns, self.iloc = table, names, None

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.table, dtype)


def test_columns_have_the_names_of_the_table(params, data):
    x, y = data
    names = ("age", "bmi", "s 1", 7)
    subject = made(params, (Frame(x, names), y))
    assert subject.columns == ("age", "bmi", "s 1", "7")
    assert made(params, data).columns is None
    assert made(params, (Frame(x, names), y), test=(Frame(x, names), y)).columns == subject.columns
    with pytest.raises(SubjectError, match=r"column 1 is 's 1', in training 'bmi'\."):
        made(params, (Frame(x, names), y), test=(Frame(x, ("age", "s 1", "bmi", 7)), y))
    assert subject.replaced(train=subject.train).columns == subject.columns
    assert players_of(subject.train[0], columns=subject.columns).names[1] == "column 'bmi'"
    assert players_of(subject.train[0]).names[1] == "column 1"
    assert players_of(subject.train[0], 2, subject.columns).names == ("columns 'age' to 'bmi'", "columns 's 1' to '7'")
    found = _columns.judge(_columns.Columns(1, 0.001, 0.5, N), N, subject.columns)
    assert found.headline == "Column 'bmi' alone gives the target away"
    assert spelled(["a" * 99], 0) == f"'{'a' * 39}…'"


def batch_normalised(params, x):
    return apply(params, (x - x.mean(0)) / (x.std(0) + 1e-3))


def dropped(params, x):
    return apply(params, x * jax.random.bernoulli(jax.random.key(0), 0.5, x.shape))


REFUSED = {
    "no network": (lambda p, d: Subject(p, "cross_entropy", d), "network must be callable with one example, got dict"),
    "unknown loss": (
        lambda p, d: made(p, d, "cross"),
        "loss must be one of 'cross_entropy', .* got 'cross'",
    ),
    "loss is no function": (lambda p, d: made(p, d, 3), "loss must be a name, a function of one output and one target"),
    "loss of a batch": (lambda p, d: made(p, d, BatchLoss(lambda n, b: 0.0)), "the audit needs the loss of every"),
    "no parameters": (lambda p, d: made({}, d), "network must have at least one floating-point array"),
    "NaN in the weights": (lambda p, d: made({**p, "w": p["w"] * np.nan}, d), r"network.params\['w'\] must be finite"),
    "no pair": (lambda p, d: made(p, d[0]), "train must be a pair .* got ndarray"),
    "no examples": (lambda p, d: made(p, (d[0][:0], d[1][:0])), "train x must hold at least one example"),
    "empty test set": (lambda p, d: made(p, d, test=(d[0][:0], d[1][:0])), "test x must hold at least one example"),
    "words": (lambda p, d: made(p, (np.full((N, D), "a"), d[1])), "train x must be an array of numbers"),
    "NaN in the data": (
        lambda p, d: made(p, (d[0] * np.nan, d[1])),
        r"train x must be finite, got nan at index \(0, 0\)",
    ),
    "NaN in the test data": (lambda p, d: made(p, d, test=(d[0] * np.nan, d[1])), "test x must be finite"),
    "NaN in the labels": (lambda p, d: made(p, (d[0], d[1] * np.nan)), "train y must be finite"),
    "NaN in the targets": (lambda p, d: made(p, (d[0], d[0][:, :K] * np.nan), "squared"), "train y must be finite"),
    "fewer labels": (lambda p, d: made(p, (d[0], d[1][1:])), "train y must have one entry for each of the 20 examples"),
    "label too large": (
        lambda p, d: made(p, (d[0], d[1] + 1)),
        "train y must hold labels from 0 to 2, got 3 at index 2",
    ),
    "negative label": (lambda p, d: made(p, (d[0], d[1] - 1)), "train y must hold labels from 0 to 2, got -1"),
    "broken label": (
        lambda p, d: made(p, (d[0], d[1] + 0.5)),
        "train y must hold whole numbers as class labels, got 0.5",
    ),
    "test label too large": (lambda p, d: made(p, d, test=(d[0], d[1] + 1)), "test y must hold labels from 0 to 2"),
    "soft labels": (
        lambda p, d: made(p, (d[0], np.full((N, K), 1 / K))),
        r"train y must hold class labels of shape \(n,\)",
    ),
    "regression on labels": (lambda p, d: made(p, d, "squared"), "is a regression loss and train y holds class labels"),
    "targets of another shape": (
        lambda p, d: made(p, (d[0], d[0][:, :2]), "squared"),
        r"train y must have the shape of the outputs, \(20, 3\), got \(20, 2\)",
    ),
    "other inputs": (
        lambda p, d: made(p, (d[0][:, 1:], d[1])),
        r"network\(x\) failed for examples of shape \(3,\)",
    ),
    "other test inputs": (
        lambda p, d: made(p, d, test=(d[0][:, 1:], d[1])),
        r"the test examples must have the shape of the training examples, \(4,\), got \(3,\)",
    ),
    "no array of outputs": (
        lambda p, d: made(p, d, function=lambda p, x: (x, x)),
        "one real array, got tuple",
    ),
    "whole outputs": (lambda p, d: made(p, d, function=lambda p, x: x.astype(int)), "one real array"),
    "images as outputs": (
        lambda p, d: made(p, d, function=lambda p, x: apply(p, x)[:, :, None]),
        r"train y must hold a class for each place, \(20, 3\) for outputs of shape \(20, 3, 1\)",
    ),
    "infinite outputs": (
        lambda p, d: made(p, d, function=lambda p, x: apply(p, x) / (x[:, :1] > 0)),
        "the outputs must be finite, got NaN or infinity for .* of 20 training examples",
    ),
    "probabilities": (
        lambda p, d: made(p, d, function=lambda p, x: jax.nn.softmax(apply(p, x))),
        r"the outputs look like class probabilities \(every row sums to 1\), but cross_entropy takes logits",
    ),
    "batch normalisation": (lambda p, d: made(p, d, function=batch_normalised), "batch normalisation in training mode"),
    "dropout": (lambda p, d: made(p, d, function=dropped), "give the network in inference mode"),
    "losses": (lambda p, d: made(p, d, lambda f, y: f**2), "loss must return one number per example, got shape"),
    "loss fails": (lambda p, d: made(p, d, lambda f, y: f @ f[:2]), r"loss\(output, target\) failed: TypeError"),
    "infinite loss": (
        lambda p, d: made(p, d, lambda f, y: jnp.mean(f) / 0),
        "loss must be finite on the training data",
    ),
    "other initial parameters": (
        lambda p, d: made(p, d, initial={**p, "v": p["v"].T}),
        r"initial.params\['v'\] must have shape \(6, 3\) as in the network, got \(3, 6\)",
    ),
    "init is no function": (
        lambda p, d: Subject(Network(apply, p), "cross_entropy", d, init=p),
        "init must be a function of a key, got dict",
    ),
    "init fails": (
        lambda p, d: made(p, d, init=lambda: p),
        r"init\(key\) must return a network under jit, but it failed",
    ),
    "init of something else": (
        lambda p, d: made(p, d, init=lambda key: p["w"]),
        "must have the structure of the network",
    ),
    "a step in words": (lambda p, d: made(p, d, learning_rate="0.1"), "learning_rate must be an array of numbers, got"),
    "several steps": (lambda p, d: made(p, d, learning_rate=[0.1, 0.2]), "learning_rate must have shape"),
    "a decay in words": (lambda p, d: made(p, d, weight_decay="no"), "weight_decay must be an array of numbers, got"),
    "no step": (lambda p, d: made(p, d, learning_rate=0.0), "learning_rate must be positive, got 0.0"),
    "no batch": (lambda p, d: made(p, d, batch_size=0), "batch_size must be at least 1, got 0"),
    "history of several axes": (lambda p, d: made(p, d, history=d[0]), r"history 'loss' must have shape \(steps,\)"),
    "fewer names": (lambda p, d: made(p, d, columns=["a"]), "columns must name each of the 4 columns .* got 1 names"),
    "no names": (lambda p, d: made(p, d, columns="abcd"), "columns must be names, one for each column"),
    "no test data": (lambda p, d: made(p, d).error("test"), "this subject has no test data"),
    "unknown split": (lambda p, d: made(p, d).error("half"), "split must be one of 'train', 'test', got 'half'"),
    "other inputs later": (
        lambda p, d: made(p, d).predict(d[0][:, 1:]),
        r"x must have examples of shape \(4,\), got \(3,\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_sentence(case, params, data):
    attempt, sentence = REFUSED[case]
    with pytest.raises(SubjectError, match=sentence) as caught:
        attempt(params, data)
    text = str(caught.value)
    assert text.endswith(".")
    assert "\n" not in text
    assert isinstance(caught.value, UserError)  # the command line prints it and ends with status 2


def test_rounding_that_grows_with_depth_is_no_influence():
    """A chaotic network turns the last bit of a sum into a visible difference: its examples are still on their own."""
    rng = np.random.default_rng(0)
    weights = 3 * rng.normal(size=(40, 30, 30)).astype(np.float32) / np.sqrt(30)

    def deep(params, x):
        return jax.lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, params)[0]

    x = rng.normal(size=(N, 30)).astype(np.float32)
    assert made(weights, (x, np.arange(N)), function=deep).classes == 30


def test_a_module_that_holds_arrays_as_apply(params, data):
    import equinox as eqx

    class Scaled(eqx.Module):
        scale: jax.Array

        def __call__(self, params, x):
            return apply(params, x * self.scale)

    assert made(params, data, function=Scaled(jnp.ones(D))).mean_loss() == made(params, data).mean_loss()


def test_whole_inputs_stay_whole(data):
    table = np.random.default_rng(0).normal(size=(9, K)).astype(np.float32)
    words = np.arange(N)[:, None] % 9
    assert made(table, (words, data[1]), function=lambda p, x: p[x].mean(1)).train[0].dtype == np.int32


def test_importing_corollary_stays_cheap():
    code = "import sys, corollary; assert 'jax' not in sys.modules; corollary.Subject; assert 'jax' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert corollary.Subject is Subject
    assert "Subject" in dir(corollary)
    assert "audit" in dir(corollary)


def test_weights_of_16_bits_are_raised():
    x, y = np.ones((6, 3), np.float32), np.arange(6) % 2
    half = jnp.ones((3, 2), jnp.float16)
    subject = made_of(lambda p, x: x @ p, half, "cross_entropy", (x, y), initial=half, init=lambda key: half)
    assert subject.dtype == jnp.float32
    assert {a.dtype for a in jax.tree.leaves((subject.initial_params, subject.init(jax.random.key(0))))} == {
        np.dtype("float32")
    }
    assert "weights of 16 bits were raised to 32" in subject.notes[0]
