"""Does it cheat? Planted defects, each beside a healthy twin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from corollary.audit import Sampler, SubjectError, audit
from corollary.audit.sections import cheating
from corollary.evidence import claims

RNG = np.random.default_rng(0)
DIM, N = 4, 1100
CENTRES = 3.0 * np.eye(4, dtype=np.float32)
SCALES = np.array([1.0, 0.5, 2.0, 0.2], np.float32)


def examples(count, rng=RNG):
    y = rng.integers(0, 4, count)
    return (CENTRES[y] + 0.5 * rng.normal(size=(count, DIM))).astype(np.float32) * SCALES, y


TRAIN, TEST = examples(N), examples(N)[0]


def rows(table):
    """A sampler that draws rows of a table."""
    return lambda count, *, key: jnp.asarray(table)[jax.random.randint(key, (count,), 0, len(table))]


def healthy(count, *, key, classes=4):
    at, z = jax.random.split(key)
    y = jax.random.randint(at, (count,), 0, classes)
    return (jnp.asarray(CENTRES)[y] + 0.5 * jax.random.normal(z, (count, DIM))) * SCALES


def log_prob(x, jacobian=True):
    z = x / SCALES
    each = -0.5 * jnp.sum((z - CENTRES) ** 2, 1) / 0.25 - DIM / 2 * jnp.log(2 * jnp.pi * 0.25)
    return jax.nn.logsumexp(each) - jnp.log(4.0) - jacobian * jnp.sum(jnp.log(SCALES))


def marks(sample, **known):
    report = audit(Sampler(sample, TRAIN, TEST, **known))
    (section,) = report.sections
    assert section.failed is None
    return report, {f.name: f for f in report.findings}


@pytest.fixture(scope="module")
def fine():
    return marks(healthy, log_prob=log_prob)


def test_a_healthy_sampler_does_not_cheat(fine):
    report, found = fine
    assert [f.mark for f in found.values()] == ["fine"] * 6
    assert report.sections[0].answer.startswith("No: no two of 1024 samples are alike")
    assert report.causes == ()
    assert "Nothing to do" in report.advice


def test_findings_name_claims_that_exist(fine):
    known = claims()
    for f in fine[1].values():
        assert f.claim in known, f.name
        assert f.theorem
        assert f.interval[0] <= f.value <= f.interval[1]


def test_500_atoms():
    report, found = marks(rows(examples(500, np.random.default_rng(1))[0]))
    support = found["different examples it can make"]
    assert support.mark == "problem"
    assert support.interval[0] < 500 < support.interval[1]
    assert found["samples that copy the training data"].mark == "fine"
    assert report.sections[0].answer.startswith("Yes: ")
    assert report.causes[0].finding.name == "different examples it can make"


def test_copies_of_training_examples():
    noisy = lambda count, *, key: rows(TRAIN[0])(count, key=key) + 1e-3 * jax.random.normal(key, (count, DIM))  # noqa: E731
    report, found = marks(noisy)
    assert found["samples that copy the training data"].mark == "problem"
    assert found["samples that copy the training data"].value > 90
    assert report.causes[0].finding.name == "samples that copy the training data"
    assert "it recites what it was trained on" in report.sections[0].answer


def test_a_class_that_never_comes():
    _, found = marks(lambda count, *, key: healthy(count, key=key, classes=3))
    missing = found["modes that it leaves out"]
    assert missing.mark == "problem"
    assert "It leaves out, or makes less than half as often as it should, 1 of 4 classes: class 3 (" in missing.sentence
    assert missing.interval[0] < 25 < missing.interval[1]


def test_a_likelihood_without_its_jacobian():
    report, found = marks(healthy, log_prob=lambda x: log_prob(x, jacobian=False))
    integral = found["integral of its likelihood"]
    assert integral.mark == "problem"
    assert integral.value == pytest.approx(float(np.log(SCALES).sum()), abs=0.15)
    assert "nats worse than it is" in integral.sentence
    assert report.causes[0].finding.name == "integral of its likelihood"


def test_a_likelihood_that_was_learned_by_heart():
    table = jnp.asarray(TRAIN[0])

    def by_heart(x):
        each = -0.5 * jnp.sum((x - table) ** 2, 1) / 1e-4 - DIM / 2 * jnp.log(2 * jnp.pi * 1e-4)
        return jnp.logaddexp(jax.nn.logsumexp(each) - jnp.log(N) - 0.7, log_prob(x) - 0.7)

    _, found = marks(healthy, log_prob=by_heart)
    assert found["likelihood of training and test data"].mark == "problem"


def test_a_generator_of_constants():
    report, found = marks(lambda count, *, key: jnp.ones((count, DIM)))
    assert found["different examples it can make"].value == 1
    assert "all 1024 samples are the same: it makes one example, where the data have" in report.sections[0].answer


def test_without_a_likelihood_nothing_is_said_about_it(fine):
    assert cheating.judge_integral(None).mark == "not applicable"
    assert cheating.judge_held_out(None).mark == "not applicable"


def test_the_page(fine, tmp_path):
    fine[0].save(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Does it cheat?" in page
    assert "<b>1,100</b> training examples of 4 classes" in page
    assert page.count("<img") == 2


def test_bad_samplers():
    with pytest.raises(SubjectError, match="sample must be a function, got int"):
        Sampler(3, TRAIN, TEST)
    with pytest.raises(SubjectError, match="log_prob must be a function, got int"):
        Sampler(healthy, TRAIN, TEST, log_prob=3)
    with pytest.raises(SubjectError, match=r"sample\(4, key=key\) failed: .*key"):
        Sampler(lambda count: TEST[:count], TRAIN, TEST)
    with pytest.raises(SubjectError, match=r"must return examples of shape \(4, 4\), got \(4, 3\)"):
        Sampler(lambda count, *, key: jnp.ones((count, 3)), TRAIN, TEST)
    with pytest.raises(SubjectError, match="what sample returns must be finite"):
        Sampler(lambda count, *, key: jnp.full((count, DIM), jnp.nan), TRAIN, TEST)
    with pytest.raises(SubjectError, match="train must hold 32 examples at least"):
        Sampler(healthy, TEST[:5], TEST)
    with pytest.raises(SubjectError, match=r"test must hold examples of shape \(4,\) as train does, got \(2,\)"):
        Sampler(healthy, TRAIN, TEST[:, :2])
    with pytest.raises(SubjectError, match="train must have one label for each of its 1100 examples, got 3"):
        Sampler(healthy, (TRAIN[0], [0, 1, 2]), TEST)
    with pytest.raises(SubjectError, match=r"log_prob\(x\) failed on a test example"):
        Sampler(healthy, TRAIN, TEST, log_prob=lambda x: x @ jnp.ones(3))
    with pytest.raises(SubjectError, match=r"log_prob\(x\) must return one number for one example"):
        Sampler(healthy, TRAIN, TEST, log_prob=lambda x: x)
    with pytest.raises(TypeError, match="subject must be a Subject, a QSubject or a Sampler, got int"):
        audit(3)


def test_a_function_in_a_file_makes_a_sampler(tmp_path):
    from corollary.audit._asked import Asked
    from corollary.audit._child import answer
    from corollary.audit.load import load

    file = tmp_path / "mine.py"
    file.write_text(
        "import jax, numpy as np\n"
        "from corollary.audit import Sampler\n"
        "x = np.random.default_rng(0).normal(size=(40, 2))\n"
        "def make_sampler():\n"
        "    return Sampler(lambda count, *, key: jax.random.normal(key, (count, 2)), x, x)\n"
        "def make_number():\n"
        "    return 3\n",
        encoding="utf-8",
    )
    made = load(f"{file}:make_sampler")
    with pytest.raises(SubjectError, match="a Sampler cannot be compared with another one: leave against out"):
        audit(made, against=made)
    (tmp_path / "old.json").write_text("{}", encoding="utf-8")
    asked = Asked(f"{file}:make_sampler")
    for option, given in (("against", str(tmp_path / "old.json")), ("checkpoints", "*.onnx")):
        said = answer(asked._replace(**{option: given}), lambda title: None)
        assert said == ("refused", f"--{option} is for networks with a loss and data, not for a Sampler.")
    assert isinstance(made, Sampler)
    assert made.summary()["shape"] == [2]
    with pytest.raises(
        SubjectError, match="must return a corollary.Subject, or a QSubject or Sampler of corollary.audit, got int"
    ):
        load(f"{file}:make_number")


def test_the_line_on_the_terminal():
    from corollary._console import _about

    line = _about(Sampler(healthy, TRAIN, TEST).summary())
    assert (
        line
        == "4 numbers in an example, 1,100 training examples of 4 classes, 1,100 test examples, No likelihood was given"
    )
