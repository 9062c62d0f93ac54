"""Estimators of scikit-learn as networks: what the estimator itself decides and predicts is the reference."""

import jax
import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Perceptron,
    Ridge,
    RidgeClassifier,
    SGDClassifier,
    SGDRegressor,
)  # fmt: skip
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

from corollary import Network, Subject
from corollary.audit import SubjectError

N, D = 60, 4
RNG = np.random.default_rng(0)
X = 3 + 2 * RNG.normal(size=(N, D))
THREE = np.arange(N) % 3
X[THREE == 1] += 1.5
TWO = np.where(X[:, 0] + RNG.normal(size=N) > 3, "yes", "no")
Y = X @ np.arange(D) + RNG.normal(size=N)
CLOSE = dict(rtol=1e-10, atol=1e-10)


@pytest.fixture(scope="module", autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def decided(estimator, x=X):
    """What the estimator says of its own: decisions of a classifier, predictions of a regressor."""
    out = estimator.decision_function(x) if hasattr(estimator, "decision_function") else estimator.predict(x)
    return out.reshape(len(x), -1)


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (LinearRegression(), Y),
        (LinearRegression(fit_intercept=False), Y),
        (Ridge(), np.stack([Y, -Y], 1)),
        (Lasso(0.01), Y),
        (ElasticNet(0.01), Y),
        (SGDRegressor(eta0=1e-4, random_state=0), Y),
        (LogisticRegression(), TWO),
        (LogisticRegression(), THREE),
        (SGDClassifier(random_state=0), TWO),
        (SGDClassifier(loss="log_loss", random_state=0), THREE),
        (Perceptron(random_state=0), THREE),
        (LinearSVC(random_state=0), TWO),
        (LinearSVC(random_state=0), THREE),
        (SVC(kernel="linear"), TWO),
        (RidgeClassifier(), THREE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_linear_models(estimator, y):
    network = Network.from_sklearn(estimator.fit(X, y), X[0])
    np.testing.assert_allclose(jax.vmap(network)(X), decided(estimator), **CLOSE)
    assert sum(leaf.size for leaf in jax.tree.leaves(network.params)) == (D + 1) * decided(estimator).shape[1]


@pytest.mark.parametrize(
    "step",
    [
        StandardScaler(),
        StandardScaler(with_mean=False, with_std=False),
        MinMaxScaler((-1, 1)),
        MinMaxScaler(clip=True),
        MaxAbsScaler(),
        RobustScaler(),
        RobustScaler(with_centering=False),
        PCA(2),
        PCA(3, whiten=True),
        TruncatedSVD(2),
        "passthrough",
        make_pipeline(StandardScaler(), PCA(2)),
    ],
    ids=str,
)
def test_steps_of_a_pipeline_are_buffers(step):
    estimator = make_pipeline(step, LogisticRegression()).fit(X, THREE)
    network = Network.from_sklearn(estimator, X[0])
    # beyond the data too, where clipping shows
    np.testing.assert_allclose(jax.vmap(network)(2 * X - 3), decided(estimator, 2 * X - 3), **CLOSE)
    assert set(network.params) == {"w", "b"}


def test_a_network_behind_a_scaler():
    pipeline = make_pipeline(StandardScaler(), MLPClassifier((5,), max_iter=3, random_state=0))
    regressor = make_pipeline(MinMaxScaler(), MLPRegressor(hidden_layer_sizes=(5,), max_iter=3, random_state=0))
    for estimator, y in ((pipeline, THREE), (regressor, Y)):
        with pytest.warns(match="converge"):
            estimator.fit(X, y)
    subject = Subject.from_sklearn(pipeline, (X, THREE))
    np.testing.assert_allclose(jax.nn.softmax(subject.outputs()), pipeline.predict_proba(X), **CLOSE)
    assert (subject.batch_size, subject.init is None) == (N, False)
    np.testing.assert_allclose(Subject.from_sklearn(regressor, (X, Y)).outputs()[:, 0], regressor.predict(X), **CLOSE)


def test_a_search_stands_for_the_best_it_found():
    search = GridSearchCV(make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 10.0]}).fit(X, Y)
    np.testing.assert_allclose(jax.vmap(Network.from_sklearn(search))(X)[:, 0], search.predict(X), **CLOSE)


def signs(y):
    return (
        np.where(y[:, None] == np.unique(y), 1, -1) if len(np.unique(y)) > 2 else np.where(y == "yes", 1, -1)[:, None]
    )


@pytest.mark.parametrize(
    ("estimator", "y", "of_margins"),
    [
        (LinearSVC(loss="hinge", random_state=0), TWO, lambda m: np.maximum(0, 1 - m)),
        (LinearSVC(random_state=0), TWO, lambda m: np.maximum(0, 1 - m) ** 2),
        (LinearSVC(random_state=0), THREE, lambda m: np.maximum(0, 1 - m) ** 2),
        (SGDClassifier(random_state=0), THREE, lambda m: np.maximum(0, 1 - m)),
        (SGDClassifier(loss="log_loss", random_state=0), TWO, lambda m: np.log1p(np.exp(-m))),
        (SGDClassifier(loss="log_loss", random_state=0), THREE, lambda m: np.log1p(np.exp(-m))),
        (Perceptron(random_state=0), THREE, lambda m: np.maximum(0, -m)),
        (RidgeClassifier(), TWO, lambda m: (1 - m) ** 2 / 2),
        (RidgeClassifier(), THREE, lambda m: (1 - m) ** 2 / 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_losses_of_margins(estimator, y, of_margins):
    estimator = make_pipeline(StandardScaler(), estimator).fit(X, y)
    subject = Subject.from_sklearn(estimator, (X, y))
    expected = of_margins(decided(estimator) * signs(y)).sum(1).mean()
    assert subject.mean_loss() == pytest.approx(expected, rel=1e-10)
    assert subject.classes == len(np.unique(y))
    assert subject.error() == pytest.approx(1 - estimator.score(X, y))


def test_a_linear_minimum_is_one_for_the_audit():
    """Without a penalty the gradient of the subject vanishes where `fit` ended."""
    for estimator, y in ((LinearRegression(), Y), (LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000), THREE)):
        subject = Subject.from_sklearn(estimator.fit(X, y), (X, y))
        gradient = jax.grad(subject.objective)(subject.params, subject.train)
        assert max(float(abs(g).max()) for g in jax.tree.leaves(gradient)) < 1e-6
        assert subject.loss_name == ("squared" if y is Y else "cross_entropy")


def test_notes_say_what_the_loss_has_not():
    (note,) = Network.from_sklearn(Ridge(0.5).fit(X, Y)).notes
    assert "a penalty (alpha=0.5), which no loss here has" in note
    penalty, weights = Network.from_sklearn(LogisticRegression(class_weight="balanced").fit(X, TWO)).notes
    assert "C=1" in penalty
    assert "class weights (balanced)" in weights
    assert Network.from_sklearn(Perceptron().fit(X, TWO)).notes == ()
    assert Network.from_sklearn(LinearRegression().fit(X, Y)).notes == ()


def test_one_sentence():
    linear = LinearRegression().fit(X, Y)
    for attempt, kind, sentence in (
        (lambda: Network.from_sklearn(1), TypeError, "must be an estimator of scikit-learn, got int"),
        (lambda: Network.from_sklearn(LogisticRegression()), ValueError, "the LogisticRegression is not fitted"),
        (lambda: Network.from_sklearn(make_pipeline(StandardScaler(), Ridge())), ValueError, "is not fitted"),
        (lambda: Network.from_sklearn(linear, X[0, 1:]), ValueError, r"example must have shape \(4,\), got \(3,\)"),
        (lambda: Network.from_sklearn(linear, "x"), TypeError, "example must be an array of numbers, got str"),
        (
            lambda: Network.from_sklearn(StandardScaler().fit(X)),
            TypeError,
            "must be an MLPClassifier, .* StandardScaler",
        ),
        (
            lambda: Network.from_sklearn(RandomForestClassifier(2).fit(X, THREE)),
            TypeError,
            "a linear model that answers with coef_ and intercept_, or a pipeline .* got RandomForestClassifier",
        ),
        # its predictions are exponentials of what its weights give
        (lambda: Network.from_sklearn(GammaRegressor().fit(X, np.exp(Y / 9))), TypeError, "got GammaRegressor"),
        # of every class against every other one
        (lambda: Network.from_sklearn(SVC(kernel="linear").fit(X, THREE)), TypeError, "got SVC"),
        (
            lambda: Network.from_sklearn(make_pipeline(Normalizer(), Ridge()).fit(X, Y)),
            TypeError,
            "the step Normalizer of the pipeline is none of .*: transform the data with it",
        ),
        (
            lambda: Subject.from_sklearn(SGDRegressor("huber", eta0=1e-4).fit(X, Y), (X, Y)),
            SubjectError,
            "the loss 'huber' of the SGDRegressor is not known here: give one",
        ),
        (
            lambda: Subject.from_sklearn(SGDClassifier("modified_huber").fit(X, TWO), (X, TWO)),
            SubjectError,
            "the loss 'modified_huber' of the SGDClassifier is not known here",
        ),
    ):
        with pytest.raises(kind, match=sentence) as caught:
            attempt()
        assert str(caught.value).endswith(".")
