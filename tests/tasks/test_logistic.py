"""Logistic regression in the space of texts, against scikit-learn and its own conditions."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from wordwave.tasks import logistic
from wordwave.tasks.logistic import cross_entropy, curvature, logistic_regression

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 150))
PENALTY = 0.01


class Dense:
    """A matrix whose columns are in two parts."""

    def coefficients(self, of_texts):
        return X[:, :100].T @ of_texts, X[:, 100:].T @ of_texts

    def logits(self, first, second):
        return X[:, :100] @ first + X[:, 100:] @ second


def labels(kind):
    classes = RNG.integers(3, size=len(X))
    return classes if kind == "one" else np.eye(3)[classes].cumsum(1) > 0


@pytest.mark.parametrize("kind", ["one", "several"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_gradient_of_the_coefficients_is_zero(kind, weighted):
    targets, n = labels(kind), len(X)
    weights = (RNG.uniform(size=n) if weighted else np.ones(n)) / n
    of_texts, bias = logistic_regression(Dense(), targets, weights, 3, PENALTY)
    coefficients = X.T @ of_texts
    _, by_logits = cross_entropy(X @ coefficients + bias, targets, weights)
    for gradient in (X.T @ by_logits + PENALTY * coefficients, by_logits.sum(0)):
        assert abs(gradient).max() <= 1.001 * logistic.TOLERANCE


def test_it_is_that_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(logistic, "TOLERANCE", 1e-8)
    targets, n = labels("one"), len(X)
    of_texts, bias = logistic_regression(Dense(), targets, np.full(n, 1 / n), 3, PENALTY)
    peer = LogisticRegression(C=1 / (n * PENALTY), tol=1e-9, max_iter=10_000).fit(X, targets)
    np.testing.assert_allclose(X.T @ of_texts, peer.coef_.T, atol=1e-4)
    np.testing.assert_allclose(bias - bias.mean(), peer.intercept_, atol=1e-4)


@pytest.mark.parametrize("kind", ["one", "several"])
def test_gradient_and_curvature_are_derivatives(kind):
    targets, logits = labels(kind), 2 * RNG.normal(size=(len(X), 3))
    weights, change = RNG.uniform(size=len(X)), 1e-5 * RNG.normal(size=logits.shape)
    (before, _), (after, _) = (
        cross_entropy(logits + sign * change, targets, weights) for sign in (-1, 1)
    )
    _, gradient = cross_entropy(logits, targets, weights)
    assert after - before == pytest.approx(2 * (gradient * change).sum(), rel=1e-6)
    low, high = (cross_entropy(logits + s * change, targets, weights)[1] for s in (-1, 1))
    product = curvature(logits, targets, weights)(change)
    np.testing.assert_allclose(high - low, 2 * product, atol=1e-6 * abs(product).max())


def test_texts_without_weight_or_of_one_class_are_no_trouble():
    nothing = logistic_regression(Dense(), labels("one"), np.zeros(len(X)), 3, PENALTY)
    assert not any(part.any() for part in nothing)
    same, weights = np.zeros(len(X), np.int64), np.full(len(X), 1 / len(X))
    of_texts, bias = logistic_regression(Dense(), same, weights, 3, PENALTY)
    assert np.isfinite(of_texts).all() and (bias[0] > bias[1:] + 5).all()
