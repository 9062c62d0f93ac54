"""The section on the regime: its numbers against explicit Jacobians, and sick networks beside their healthy twins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made import made
from scipy import stats

from corollary.audit._budget import BUDGETS, Budget
from corollary.audit._sample import jackknife
from corollary.audit.sections import _unmoved, regime
from corollary.evidence import Figure, claims

KEY = jax.random.key(0)
QUICK = BUDGETS["quick"]
SMALL = Budget("small", examples=64, kernel=20, products=20, work=1e12)
DIM, WIDTH = 6, 48


def draw(key, outputs=1, width=WIDTH):
    first, last = jax.random.split(key)
    return {
        "first": jax.random.normal(first, (DIM, width)) / DIM**0.5,
        "bias": jnp.zeros(width),
        "last": jax.random.normal(last, (width, outputs)) / width**0.5,
        "offset": jnp.zeros(outputs),
    }


def tanh(params, x):
    return jnp.tanh(x @ params["first"] + params["bias"]) @ params["last"] + params["offset"]


def relu(params, x):
    return jax.nn.relu(x @ params["first"] + params["bias"]) @ params["last"] + params["offset"]


def data(seed, n=48, m=120):
    """A product of two inputs: a function that the network can learn and that is not linear."""
    x = np.random.default_rng(seed).normal(size=(n + m, DIM)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] + 0.5 * x[:, 2])[:, None]
    return (x[:n], y[:n]), (x[n:], y[n:])


def descend(apply, params, train, step, steps, loss=lambda f, y: 0.5 * jnp.mean(jnp.sum((f - y) ** 2, 1))):
    x, y = map(jnp.asarray, train)

    @jax.jit
    def run(params):
        def move(_, params):
            slope = jax.grad(lambda p: loss(apply(p, x), y))(params)
            return jax.tree.map(lambda p, g: p - step * g, params, slope)

        return jax.lax.fori_loop(0, steps, move, params)

    return run(params)


def scaled(alpha, seed=0):
    """The network times alpha, less what it was at the start, trained for the same time of the flow of its outputs."""
    start = draw(jax.random.key(seed))

    def apply(params, x):
        return alpha * (tanh(params, x) - tanh(start, x))

    train, test = data(seed)
    params = descend(apply, start, train, 0.1 / alpha**2, 2000)
    return made(apply, params, "squared", train, test, initial=start)


def classifier(bias, seed=1):
    """Two classes, ReLU. A bias far below zero in the first layer is a layer of dead units: a constant."""
    (x, y), (x_test, y_test) = data(seed, 200)
    train, test = (x, (y[:, 0] > 0).astype(int)), (x_test, (y_test[:, 0] > 0).astype(int))
    start = draw(jax.random.key(seed), 2) | {"bias": jnp.full(WIDTH, bias)}

    def loss(f, y):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(f), y[:, None], 1))

    params = descend(relu, start, train, 0.2, 300, loss)
    return made(relu, params, "cross_entropy", train, test, initial=start)


def look(subject, budget=QUICK):
    return {f.name: f for f in regime.findings(subject, budget, KEY)}


def marked(found):
    return {name for name, f in found.items() if f.mark in ("look", "problem")}


@pytest.fixture(scope="module")
def learning():
    return scaled(0.3)


@pytest.fixture(scope="module")
def healthy():
    return classifier(0.0)


def jacobian(subject, params, x):
    slopes = jax.jit(jax.jacrev(subject.apply))(params, x)
    return np.concatenate([np.asarray(a).reshape(*a.shape[:2], -1) for a in jax.tree.leaves(slopes)], 2).astype(float)


def test_numbers_are_those_of_explicit_jacobians(learning):
    found = look(learning)
    (x, y), (x_test, y_test) = learning.train, learning.test
    first, last = (jacobian(learning, p, x)[:, 0] for p in (learning.initial_params, learning.params))
    k0, k1 = first @ first.T, last @ last.T
    # kernels in single precision, sums of some hundred terms: 1e-5 of relative error at most, twice that for quotients
    near = lambda v: pytest.approx(v, rel=1e-4)  # noqa: E731
    assert found["drift of the tangent kernel"].value == near(np.linalg.norm(k1 - k0) / np.linalg.norm(k0))
    cosine = np.sum(k0 * k1) / np.linalg.norm(k0) / np.linalg.norm(k1)
    assert found["alignment of the tangent kernel with its start"].value == near(cosine)
    phi, t = last - last.mean(0), np.asarray(y - y.mean(0), float)
    aligned = np.linalg.norm(phi.T @ t) ** 2 / np.linalg.norm(phi.T @ phi) / np.linalg.norm(t.T @ t)
    assert found["alignment with the labels"].value == near(aligned)
    assert found["variation of the tangent kernel"].value == near((phi**2).sum() / (last**2).sum())
    values = np.linalg.svd(last, compute_uv=False) ** 2
    assert found["effective rank of the tangent kernel"].value == near(values.sum() ** 2 / (values**2).sum())

    way = np.concatenate(
        [
            np.ravel(np.asarray(b, float) - np.asarray(a, float))
            for a, b in zip(*map(jax.tree.leaves, (learning.initial_params, learning.params)), strict=True)
        ]
    )
    size = np.sqrt(sum(np.sum(np.asarray(a, float) ** 2) for a in jax.tree.leaves(learning.initial_params)))
    assert found["distance travelled"].value == near(np.linalg.norm(way) / size)
    f = np.asarray(learning.outputs("train"), float)[:, 0]
    # this network starts at zero
    assert found["error of the linearised network"].value == near(np.linalg.norm(f - first @ way) / np.linalg.norm(f))
    assert found["regime"].value == found["error of the linearised network"].value

    # all training examples were seen: exact; the test examples are a sample
    assert found["drift of the tangent kernel"].exact
    for name, phi, params in (("initial", first, learning.initial_params), ("final", last, learning.params)):
        new = jacobian(learning, params, x_test)[:, 0]
        base = 0.0 if name == "initial" else float(y.mean())
        ridge = 1e-3 * np.mean(np.sum(phi**2, 1))
        # ridge regression on the features themselves, the other way to the same function
        weights = np.linalg.solve(phi.T @ phi + ridge * np.eye(phi.shape[1]), phi.T @ (np.asarray(y)[:, 0] - base))
        errors = (base + new @ weights - np.asarray(y_test)[:, 0]) ** 2
        got = found[f"regression with the {name} kernel"]
        # the system has a condition of up to 1e5
        assert got.value == pytest.approx(errors.mean(), rel=1e-2)
        assert got.interval[0] < got.value < got.interval[1]


def test_answers_of_a_classifier_are_counted(healthy):
    found = look(healthy)
    (x, y), (x_test, y_test) = healthy.train, healthy.test
    way = jax.tree.map(jnp.subtract, healthy.params, healthy.initial_params)
    value, change = jax.jvp(lambda p: healthy.apply(p, x_test), (healthy.initial_params,), (way,))
    line, own = np.argmax(value + change, 1), np.argmax(healthy.apply(healthy.params, x_test), 1)
    got = found["classes of the linearised network"]
    assert got.value == pytest.approx(np.mean(line == own))
    want = stats.binomtest(int(np.sum(line == own)), len(own)).proportion_ci(method="wilson")
    assert got.interval == pytest.approx((want.low, want.high), abs=1e-5)
    first, new = (jacobian(healthy, healthy.params, a) for a in (x, x_test))
    kernel, cross = (np.einsum("ikp,jkp->ij", a, first) / 2 for a in (first, new))
    hot = np.eye(2)[np.asarray(y)]
    alpha = np.linalg.solve(kernel + 1e-3 * np.trace(kernel) / len(x) * np.eye(len(x)), hot - hot.mean(0))
    right = np.argmax(cross @ alpha + hot.mean(0), 1) == np.asarray(y_test)
    # two of 120 answers may be near enough to a draw for rounding to decide
    assert found["regression with the final kernel"].value == pytest.approx(right.mean(), abs=2.1 / 120)
    assert found["most frequent answer"].value == pytest.approx(
        max(np.mean(np.asarray(healthy.predict("train"))), 1 - np.mean(np.asarray(healthy.predict("train"))))
    )


def test_lazy_by_scaling_is_named_and_its_twin_is_not(learning):
    lazy = look(scaled(100.0))
    assert lazy["regime"].mark == "look"
    assert lazy["regime"].sentence.startswith("Lazy")
    # of the order of 1/alpha
    assert lazy["drift of the tangent kernel"].value < 0.05
    twin = look(learning)
    assert twin["regime"].sentence.startswith("Feature-learning")
    assert not marked(twin)


@pytest.mark.parametrize("seed", [2])
def test_lazy_on_other_seeds(seed):
    assert look(scaled(100.0, seed))["regime"].mark == "look"
    assert look(scaled(0.3, seed))["regime"].mark == "fine"


def test_a_head_on_a_frozen_body_has_no_features_to_learn():
    rng = np.random.default_rng(0)
    x, body = (rng.normal(size=size).astype(np.float32) for size in ((64, 6), (6, 8)))
    end = rng.normal(size=(8, 2)).astype(np.float32)
    y = (np.tanh(x @ body) @ end).argmax(1)
    subject = made(lambda w, x: jnp.tanh(x @ body) @ w, end, "cross_entropy", (x, y), initial=0.1 * end[::-1])
    found = look(subject)["regime"]
    assert (found.mark, found.sentence.partition(":")[0]) == ("fine", "Linear")


def test_one_answer_to_most_that_the_start_gave_too_is_no_finding():
    """Of three classes the untrained network answers one to nearly all: what hardly moved is not to blame for that."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, 4)).astype(np.float32), np.arange(90) % 3

    def mark(start, end):
        bias = lambda b: {"w": 0.4 * jnp.eye(4)[:, :3], "b": jnp.array([b, 0.0, 0.0])}  # noqa: E731
        subject = made(lambda p, x: x @ p["w"] + p["b"], bias(end), "cross_entropy", (x, y), initial=bias(start))
        return regime._constant_outputs(subject).mark

    assert mark(1.0, 1.01) == "fine"
    assert mark(0.0, 1.0) == "look"
    assert mark(9.0, 9.0) == "problem"


def test_constant_classifier_is_named_and_its_twin_is_not(healthy):
    sick = look(classifier(-30.0))
    assert sick["most frequent answer"].mark == "problem"
    assert sick["variation of the tangent kernel"].mark == "problem"
    # nothing but rounding differs between inputs
    assert sick["alignment with the labels"].mark == "not applicable"
    assert not marked(look(healthy))


def test_constant_regression_is_named():
    train, test = data(0)
    start = draw(KEY)
    dead = {**start, "bias": jnp.full(WIDTH, -30.0), "offset": jnp.full(1, float(train[1].mean()))}
    found = look(made(relu, dead, "squared", train, test, initial=start))
    assert found["variation of the outputs"].mark == "problem"
    assert found["variation of the tangent kernel"].mark == "problem"


def test_a_kernel_of_zeros_is_named():
    train, test = data(0)
    nothing = jax.tree.map(jnp.zeros_like, draw(KEY))

    def apply(params, x):
        return relu(params, x) - params["offset"] + 1

    found = look(made(apply, nothing, "squared", train, test, initial=nothing))
    assert found["variation of the tangent kernel"].mark == "problem"
    assert found["regime"].mark == "not applicable"
    assert found["distance travelled"].sentence == "All parameters started at zero."


def test_an_untrained_network_has_no_regime():
    train, test = data(0)
    start = draw(KEY)
    found = look(made(tanh, start, "squared", train, test, initial=start))
    assert found["regime"].mark == "not applicable"
    assert found["distance travelled"].mark == "look"
    noise = jax.tree.map(lambda p, q: p + 1e-3 * q, start, draw(jax.random.key(9)))
    near = look(made(tanh, noise, "squared", train, test, initial=start))
    assert near["regime"].mark == "look"
    assert near["regime"].sentence.startswith("The loss fell by less than 10 %")


def test_without_start_and_without_test_the_rest_is_given(learning):
    train, test = data(0)
    found = look(made(tanh, learning.params.params, "squared", train))
    absent = {name for name, f in found.items() if f.mark == "not applicable"}
    assert absent == {
        "regime",
        "distance travelled",
        "drift of the tangent kernel",
        "alignment of the tangent kernel with its start",
        "error of the linearised network",
        "classes of the linearised network",
        "regression with the initial kernel",
        "regression with the final kernel",
    }
    assert all(found[name].sentence.endswith(".") for name in absent)
    found = look(made(tanh, learning.params.params, "squared", train, test))
    assert found["regression with the final kernel"].value is not None


@pytest.mark.parametrize(("loss", "outputs"), [("cross_entropy", 1), ("squared", 1), ("squared", 2)])
def test_classes_in_every_form(loss, outputs):
    train, test = ((x, (y[:, 0] > 0).astype(int)) for x, y in data(1))
    if loss == "squared":
        train, test = ((x, (np.eye(2)[y] if outputs == 2 else y[:, None]).astype(np.float32)) for x, y in (train, test))
    params = draw(KEY, outputs)
    found = look(made(tanh, params, loss, train, test, initial=draw(jax.random.key(1), outputs)))
    # the labels are half linear: a kernel method finds that out, whatever their form
    assert found["regression with the final kernel"].interval[0] > 0.5
    assert found["regression with the initial kernel"].interval[0] > 0.5


@pytest.mark.parametrize("n", [1, 2])
def test_hardly_any_examples(n):
    train, test = (tuple(a[:n] for a in part) for part in data(0))
    found = look(made(tanh, draw(KEY), "squared", train, test, initial=draw(jax.random.key(1))))
    assert not {name for name, f in found.items() if f.mark == "problem"}


def test_a_loss_of_its_own_without_targets(learning):
    (x, _), _ = data(0)
    subject = made(tanh, learning.params.params, lambda f, y: jnp.mean(jnp.abs(f)), (x, np.zeros((len(x), 3))))
    found = look(subject)
    assert found["alignment with the labels"].mark == "not applicable"
    assert found["variation of the outputs"].mark == "fine"


def test_samples_cover_what_all_examples_give(healthy):
    names = ("drift of the tangent kernel", "error of the linearised network", "alignment with the labels")
    whole = look(healthy)
    assert whole[names[0]].exact
    found = [{f.name: f for f in regime.findings(healthy, SMALL, jax.random.key(s))} for s in range(12)]
    for name in names:
        hits = sum(f[name].interval[0] <= whole[name].value <= f[name].interval[1] for f in found)
        # nominally 95 %, less for so few examples; were it but 80 %, fewer than 6 of 12 would come once in 250 times
        assert hits >= 6
        assert not any(f[name].exact for f in found)


def test_figures_and_claims_exist(learning, healthy):
    known = set(claims())
    for found in (look(learning), look(healthy)):
        assert all(f.claim in known and f.theorem for f in found.values())
        figures = [f.figure for f in found.values() if f.figure is not None]
        assert len(figures) == 2
        assert all(isinstance(figure, Figure) for figure in figures)


def test_jackknife_of_a_mean_is_its_standard_error():
    values = jnp.asarray(np.random.default_rng(0).normal(size=15), jnp.float32)

    def mean(pairs, rows):
        return {"mean": rows["v"].mean(), "pairs": pairs["k"].mean()}

    found = jackknife(mean, {"k": jnp.outer(values, values)}, {"v": values, "none": None})
    value, (low, high) = found["mean"]
    want = stats.t.ppf(0.975, 14) * np.std(np.asarray(values, float), ddof=1) / 15**0.5
    assert value == pytest.approx(float(values.mean()), rel=1e-5)
    assert (high - low) / 2 == pytest.approx(want, rel=1e-4)
    assert jackknife(mean, {"k": jnp.outer(values, values)}, {"v": values}, 15)["mean"][1] == (value, value)
    one = jackknife(mean, {"k": jnp.ones((1, 1))}, {"v": jnp.ones(1)}, 1)
    assert one["pairs"] == (1.0, (1.0, 1.0))


def test_layers_that_training_did_not_move():
    start, train = draw(KEY), data(0)[0]
    end = descend(relu, start, train, 0.05, 200)
    assert _unmoved.judge(_unmoved.measure(made(relu, end, "squared", train, initial=start))).mark == "fine"
    stuck = made(relu, end | {"first": start["first"]}, "squared", train, initial=start)
    finding = _unmoved.judge(_unmoved.measure(stuck))
    assert finding.sentence.startswith("first is exactly as at the start")
    assert finding.value == pytest.approx(100 * DIM * WIDTH / stuck.size)
    assert finding.mark == ("look" if _unmoved.measure(stuck).learned else "problem")
    assert _unmoved.judge(_unmoved.measure(stuck)._replace(learned=True)).mark == "look"
    assert _unmoved.judge(_unmoved.measure(stuck)._replace(learned=False)).mark == "problem"
    # nothing was trained, nothing is known, and a unit that is dead cannot move
    assert _unmoved.measure(made(relu, start, "squared", train, initial=start)) is None
    assert _unmoved.measure(made(relu, start, "squared", train)) is None
    dead = start | {"bias": start["bias"] - 100}
    moved = dead | {"offset": dead["offset"] + 1}
    assert _unmoved.measure(made(relu, moved, "squared", train, initial=dead)).names == ()
