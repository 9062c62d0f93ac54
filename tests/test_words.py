"""One word for one thing: every public signature is held to the table of docs/design.md, and texts to plain English."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "corollary"
PACKAGES = sorted(path.parent for path in SOURCE.rglob("__init__.pyi") if "claims" not in path.parts)

# Names of the table's last column that mean something else here, with the reason. A function is named by its package.
MEANT = {
    "model": {
        "an ONNX model, as its own package says": ["onnx.run"],
        "a law of the next token, learned or not": [
            "language.ClozeQuestion",
            "language.beam_search",
            "language.cloze_question",
            "language.cross_entropy_rate",
            "language.excess_entropy",
            "language.exhaustive_search",
            "language.greedy_search",
            "language.perplexity",
            "language.sample_sequence",
            "language.sequence_log_probability",
            "language.stochastic_beam",
        ],
        "what Keras calls its own": ["Network.from_keras"],
        "a law with latent variables": [
            "generative.elbo",
            "generative.importance_bound",
            "generative.variational_gap",
        ],
        "how a tokeniser cuts words": ["language.Tokeniser", "language.Tokeniser.train"],
        "a hypothesis of the setting of learning, or a factorisation": [
            "foundations.FactorizationFit",
            "foundations.factorization_gradient",
            "foundations.factorization_loss",
            "foundations.fit_factorization",
            "foundations.point_loss",
        ],
    },
    "eta": {
        "the constant of a step that also depends on the width, and of the flow in its limit": [
            "dynamics.martingale_variance",
            "dynamics.outer_weight_bound",
            "dynamics.shallow_flow",
            "dynamics.shallow_sgd",
            "dynamics.shallow_step",
            "dynamics.shallow_velocity",
            "reinforcement.q_limit",
            "reinforcement.q_network_sgd",
        ],
    },
    "frozen": {"whether a target network stays, not which parameters count": ["reinforcement.td_stability"]},
    "learning_rate": {"how people say it of their training": ["Subject", "audit.QSubject"]},
    "batch": {
        "the arrays of a batch, as a BatchLoss takes them": [
            "BatchLoss.__call__",
            "audit.Objective.__call__",
            "nets.attention.teacher_forcing_loss",
        ],
    },
    "ridge": {
        "what is added to the diagonal of a kernel matrix": [
            "kernels.KernelClassifier",
            "kernels.KernelRegressor",
            "kernels.kernel_coefficients",
        ],
    },
    "seed": {
        "a number that is written down, and from which a key is made": [
            "audit.audit",
            "evidence.Evidence",
            "evidence.run",
        ]
    },
    "parameters": {
        "names of arrays in a file": ["Network.from_onnx"],
        "a number of parameters": [
            "autodiff.composition_cost",
            "generalization.Description",
            "generalization.compression_bound",
            "landscape.GradientNoise",
            "nets.Memory",
        ],
        "the arguments of a claim": ["evidence.Claim", "evidence.Evidence"],
        "constants of a method": ["landscape.Search", "landscape.perturbed_descent"],
    },
    "variables": {
        "Linen's own word": ["Network.from_flax"],
        "variables of clauses": ["optimization.random_clauses"],
    },
    "x0": {"a point that a parabola goes through": ["foundations.parabola_through"]},
    "X": {
        "the interface of scikit-learn": [
            "kernels.KernelClassifier.decision_function",
            "kernels.KernelClassifier.fit",
            "kernels.KernelClassifier.predict",
            "kernels.KernelRegressor.fit",
            "kernels.KernelRegressor.predict",
        ],
    },
}

# Functions that take a key by position, with the reason.
BY_POSITION = {
    "the interface of jax.nn.initializers": [
        "nets.glorot_normal",
        "nets.glorot_uniform",
        "nets.he_normal",
        "nets.he_uniform",
        "nets.lecun_normal",
        "nets.orthogonal",
        "nets.standard_normal",
        "nets.uniform_fan_in",
        "nets.zeros",
    ],
    "a key to look up a memory with, nothing random": ["nets.recurrent.address"],
}


def members(name: str, value):
    """A public value and, of a class, its own public methods."""
    yield name, value
    if inspect.isclass(value):
        for attribute, raw in vars(value).items():
            function = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
            public = not attribute.startswith("_") or attribute == "__call__"
            if public and inspect.isfunction(function) and function.__module__.startswith("corollary"):
                yield f"{name}.{attribute}", function


def signatures() -> dict:
    """All public functions, classes and methods by name, each once, with their parameters."""
    found, seen = {}, set()
    for package in PACKAGES:
        parts = package.relative_to(SOURCE.parent).parts
        module = importlib.import_module(".".join(parts))
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.ismodule(value) or not callable(value) or id(value) in seen:
                continue
            seen.add(id(value))
            for full, member in members(".".join([*parts[1:], name]), value):
                try:
                    found[full] = list(inspect.signature(member).parameters.values())
                except (TypeError, ValueError):  # made of types alone, as an annotation
                    continue
    return found


def refused() -> dict[str, str]:
    """The words of the table's last column, with the word that is used instead."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = re.search(r"## One word for one thing\n(.*?)\n## ", text, re.S).group(1)
    rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| `")]
    return {word: row[0].strip() for row in rows for word in re.findall(r"`(\w+)`", row[2])}


SIGNATURES = signatures()
REFUSED = refused()
EXCEPTIONS = {(name, word) for word, reasons in MEANT.items() for names in reasons.values() for name in names}


def test_every_argument_has_the_word_of_the_table():
    assert len(SIGNATURES) > 1000
    assert len(REFUSED) > 50
    found = {(name, p.name) for name, parameters in SIGNATURES.items() for p in parameters if p.name in REFUSED}
    wrong = sorted(f"{name}: {REFUSED[word]}, not {word}" for name, word in found - EXCEPTIONS)
    assert not wrong, "\n".join(wrong)
    assert not EXCEPTIONS - found, "exceptions that are none any more"


def test_no_word_of_the_table_is_refused_by_it():
    used = {word for words in REFUSED.values() for word in re.findall(r"`(\w+)`", words)}
    assert not used & set(REFUSED)


def test_a_key_is_given_by_its_name():
    allowed = {name for names in BY_POSITION.values() for name in names}
    found = {
        name
        for name, parameters in SIGNATURES.items()
        for p in parameters
        if p.name == "key" and p.kind < p.KEYWORD_ONLY
    }
    assert found == allowed


PHRASES = {
    r"\bprocessors?\b(?!\()": "CPU",
    r"\b[Ii]nside of\b": "inside",
    r"\b[Oo]utside of\b": "outside",
    r"\b(?:[Oo]ne|factor|features|truth values) a (?:layer|row|column|unit|step|vertex|token|feature)\b": "per",
}
TEXTS = [
    path
    for place in ("src", "docs", "benchmarks", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md")
    for path in ([ROOT / place] if place.endswith(".md") else sorted((ROOT / place).rglob("*")))
    # benchmarks install their peers into a hidden directory
    if path.suffix in (".py", ".md", ".pyi") and path.exists() and ".peers" not in path.parts
]


@pytest.mark.parametrize("phrase", PHRASES)
def test_texts_are_in_plain_english(phrase):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(phrase, line)
    ]
    assert not found, f"say {PHRASES[phrase]!r}:\n" + "\n".join(found)
