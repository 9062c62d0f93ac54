"""The zoo of texts: a transformer that sees the future, one without positions, a token that training never showed.

One architecture, whose mask and positions are switched by buffers, so that all are trained and asked by one program. In
the text a token depends on the two before it: pairs of tokens do not tell it.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from corollary import Network, Subject
from corollary.audit import SubjectError, audit
from corollary.audit import run as running
from corollary.audit._budget import BUDGETS
from corollary.audit.action import by_hand, ranked
from corollary.audit.finding import causes
from corollary.audit.sections import _renumbered, reading
from corollary.audit.sections._paid_tokens import PERPLEXITY, UNSEEN
from corollary.audit.sections._read_tokens import AHEAD, ORDER, TARGETS

KEY = jax.random.key(0)
N, T, V, D = 384, 8, 5, 12
LAWS = np.random.default_rng(0).dirichlet(0.2 * np.ones(V - 1), (V, V))


def texts(seed, without=None):
    """Sequences in which the law of a token depends on both before it; the last token of the vocabulary at times."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, V, (N, T + 1))
    for t in range(2, T + 1):
        drawn = [rng.choice(V - 1, p=LAWS[a, b]) for a, b in words[:, t - 2 : t]]
        words[:, t] = np.where(rng.random(N) < 0.15, V - 1, drawn)
    if without is not None:
        words = np.where(words == without, rng.integers(0, without, words.shape), words)
    return words[:, :-1], words[:, 1:]


def apply(params, switches, tokens):
    place = jnp.arange(tokens.shape[0])
    x = params["table"][tokens] + switches["positions"] * params["places"]
    q, k, v = (x @ params[name] for name in "qkv")
    seen = (place[:, None] >= place) | (switches["causal"] == 0)
    x = x + jax.nn.softmax(jnp.where(seen, q @ k.T / D**0.5, -jnp.inf)) @ v
    return jax.nn.relu(x @ params["up"]) @ params["down"]


SHAPES = {
    "table": (V, D),
    "places": (T, D),
    "q": (D, D),
    "k": (D, D),
    "v": (D, D),
    "up": (D, 4 * D),
    "down": (4 * D, V),
}


@jax.jit
def trained(switches, x, y):
    """Three hundred steps of Adam on all of the text."""
    keys = jax.random.split(KEY, len(SHAPES))
    params = {n: jax.random.normal(k, s) / s[0] ** 0.5 for k, (n, s) in zip(keys, SHAPES.items(), strict=True)}
    optimiser = optax.adam(3e-3)

    def loss(params):
        out = jax.vmap(lambda tokens: apply(params, switches, tokens))(x)
        return optax.softmax_cross_entropy_with_integer_labels(out, y).mean()

    def step(carry, _):
        update, state = optimiser.update(jax.grad(loss)(carry[0]), carry[1])
        return (optax.apply_updates(carry[0], update), state), None

    return jax.lax.scan(step, (params, optimiser.init(params)), None, length=300)[0][0]


TRAIN, TEST = texts(1), texts(2)


def made(train=TRAIN, test=TEST, causal=1.0, positions=1.0, **known):
    switches = {"causal": jnp.asarray(causal), "positions": jnp.asarray(positions)}
    network = Network(apply, trained(switches, *train), switches)
    return Subject(network, "cross_entropy", train, test, **known)


def found(subject):
    return tuple(reading.findings(subject, BUDGETS["quick"], KEY))


@cache
def sick(name):
    """A sick network of the zoo, and what is found."""
    subject = ZOO[name][0]()
    return subject, found(subject)


def named(findings):
    return {f.name: f for f in findings}


def first_action(subject, findings):
    return ranked(reading.actions(subject, findings), causes(findings, reading.EXPLAINS))[0]


@pytest.fixture(scope="module")
def healthy():
    return made()


def test_a_healthy_network_reads(healthy):
    findings = found(healthy)
    assert {f.name: f.mark for f in findings} == dict.fromkeys((TARGETS, AHEAD, ORDER, PERPLEXITY, UNSEEN), "fine")
    assert named(findings)[AHEAD].value == 0
    assert named(findings)[AHEAD].exact
    assert named(findings)[ORDER].value > 10
    assert reading.answer(findings).startswith("Yes: on test text")
    assert list(reading.actions(healthy, findings)) == []


ZOO = {
    "future": (lambda: made(causal=0.0), AHEAD),
    "positions": (lambda: made(positions=0.0), ORDER),
    "token": (lambda: made(train=texts(1, without=V - 1)), UNSEEN),
}


@pytest.mark.parametrize("name", ZOO)
def test_the_defect_is_named_and_gone_in_the_mended_twin(name, healthy):
    what = ZOO[name][1]
    subject, findings = sick(name)
    assert named(findings)[what].mark == "problem"
    assert causes(findings, reading.EXPLAINS)[0].finding.name == what
    assert reading.answer(findings).startswith("No")
    action = first_action(subject, findings)
    assert (action.treats, action.apply) == (what, by_hand)
    # a person did what was advised: the twin is the same network, data and training with that alone
    low, high = action.effect.interval
    assert low <= action.effect.measured(healthy) <= high
    others = {f.name: f.mark for f in findings if f.name not in (what, *reading.EXPLAINS[what])}
    assert set(others.values()) == {"fine"}


def test_what_is_seen_and_named():
    assert "it sees the future" in named(sick("future")[1])[AHEAD].sentence
    subject, findings = sick("token")
    unseen = named(findings)[UNSEEN]
    assert unseen.sentence.startswith(f"The test text has the token {V - 1}, which the training text never shows")
    assert f"train on text with the token {V - 1}," in first_action(subject, findings).what
    untested = Subject(subject.network, "cross_entropy", subject.train)
    alone = named(found(untested))[UNSEEN]
    assert (alone.mark, f"never shows the token {V - 1}, which cannot" in alone.sentence) == ("not applicable", True)


def test_perplexity_by_hand(healthy):
    finding = named(found(healthy))[PERPLEXITY]
    p = np.asarray(jax.nn.softmax(healthy.outputs("test")), float)
    losses = -np.log(np.take_along_axis(p, TEST[1][..., None], -1)[..., 0])
    assert finding.value == pytest.approx(np.exp(losses.mean()), rel=1e-5)
    # all sequences have as many tokens: the interval is that of the mean of their means
    reach = 1.96 * losses.mean(1).std(ddof=1) / N**0.5
    np.testing.assert_allclose(np.log(finding.interval), losses.mean() + np.array([-reach, reach]), rtol=1e-4)


def test_targets_that_were_not_moved():
    unmoved = made(train=(TRAIN[0], TRAIN[0]), test=(TEST[0], TEST[0]))
    findings = found(unmoved)
    assert causes(findings, reading.EXPLAINS)[0].finding.name == TARGETS
    assert "there is nothing to be predicted" in reading.answer(findings)
    assert first_action(unmoved, findings).treats == TARGETS


def test_labels_of_tokens_may_see_both_sides():
    labels = [(x, (x + np.roll(x, -1, 1)) % V) for x in (TRAIN[0], TEST[0])]
    tagger = made(*labels, causal=0.0)
    findings = named(found(tagger))
    assert (findings[AHEAD].mark, findings[AHEAD].value > 1) == ("fine", True)
    assert "it reads in both directions" in findings[AHEAD].sentence


def test_untrained_it_knows_less_than_counting(healthy):
    worse = healthy.with_params(jax.tree.map(lambda a: 3 * a, healthy.params))
    assert named(found(worse))[PERPLEXITY].mark == "problem"


def test_a_test_text_in_other_numbers(healthy):
    assert _renumbered.measure(healthy) is None
    to = np.array([3, 0, 4, 1, 2])
    other = healthy.replaced(test=tuple(jnp.asarray(to[a]) for a in TEST))
    measured = _renumbered.measure(other)
    finding = _renumbered.judge(measured)
    assert finding.mark == "problem"
    np.testing.assert_array_equal(measured.to[to], np.arange(V))
    assert "0 is 1, 1 is 3, 2 is 4 and 2 more" in finding.sentence
    action = _renumbered.rename(other, finding)
    assert action.apply(other, key=KEY).mean_loss("test") == pytest.approx(healthy.mean_loss("test"), rel=1e-5)
    assert action.effect.then == pytest.approx(healthy.mean_loss("test"), rel=1e-5)
    # numbers that bring back too little are not the ones
    assert _renumbered.judge(measured._replace(then=0.9 * measured.now)).mark == "fine"


def test_a_test_text_of_another_law_has_no_other_numbers(healthy):
    rng = np.random.default_rng(5)
    words = rng.integers(0, V, (N, T + 1))
    other = healthy.replaced(test=(jnp.asarray(words[:, :-1]), jnp.asarray(words[:, 1:])))
    finding = _renumbered.judge(_renumbered.measure(other))
    assert finding is None or finding.mark == "fine"


def test_only_texts_are_asked(healthy, monkeypatch):
    monkeypatch.setattr(running, "SECTIONS", ())
    assert [s.title for s in audit(healthy).sections] == [reading.TITLE]
    table = Network(lambda w, x: x @ w, jnp.ones((3, 2)))
    other = Subject(table, "cross_entropy", (np.eye(3, dtype=np.float32)[[0, 1, 2, 0]], [0, 1, 0, 1]))
    assert audit(other).sections == ()


def test_masks_and_positions_are_no_tokens():
    def with_mask(params, x):
        return params[x["ids"]] * x["mask"][:, None] + x["place"][:, None]

    x = {"place": np.tile(np.arange(T), (N, 1)), "ids": TRAIN[0], "mask": (TRAIN[0] > 0).astype(int)}
    subject = Subject(Network(with_mask, jnp.eye(V)), "cross_entropy", (x, TRAIN[1]))
    findings = named(found(subject))
    assert findings[TARGETS].value == 100
    # it looks its token up in a table
    assert (findings[ORDER].mark, findings[ORDER].value) == ("look", 0)


REFUSED = {
    "beyond the table": (
        TRAIN[0] + 1,
        "train x must hold tokens from 0 to 4, as the network's table has 5 rows, got 5",
    ),
    "below": (TRAIN[0] - 1, "train x must hold tokens from 0 to 4, as the network's table has 5 rows, got -1"),
    "one token": (TRAIN[0][:, :1], "train x must hold sequences of at least two tokens, got one each"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_one_sentence(case):
    x, sentence = REFUSED[case]
    with pytest.raises(SubjectError, match=sentence) as caught:
        Subject(Network(lambda w, x: w[x], jnp.eye(V)), "cross_entropy", (x, TRAIN[1][:, : x.shape[1]]))
    assert "\n" not in str(caught.value)
