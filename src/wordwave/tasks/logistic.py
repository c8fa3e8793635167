"""Logistic regression with an L2 penalty, of far more features than texts.

The coefficients that minimize the loss are sums of the texts' features, Xᵀα. Newton's method works
on α, a row for each text, and on XXᵀα: inner products of coefficients are ⟨Xᵀα, Xᵀβ⟩ = α·XXᵀβ. It
takes the same steps as on the coefficients, of which there may be millions, and line searches need
no products with X.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np

MAX_PRODUCTS, TOLERANCE = 300, 1e-4
"""Of XXᵀ, and the largest element of the gradient of the mean loss by a coefficient."""
MOST_LEFT = 0.5
"""Of the gradient, after a Newton step by conjugate gradients. Steps become more exact near the
minimum, as in "Numerical Optimization" (Nocedal and Wright 2006), Algorithm 7.1."""
SUFFICIENT, SHORTEST = 1e-4, 1e-9
"""Of the decrease that the slope promises, the share that a step must have; and of a Newton step,
the shortest part that is tried."""


class Features(Protocol):
    """The matrix X of features. Shape: (N, F)"""

    def coefficients(self, of_texts: Any) -> tuple[Any, ...]:
        """Xᵀα, in parts. Shape: (N, C) -> (F₁, C), (F₂, C), …"""

    def logits(self, *coefficients: Any) -> Any:
        """X times coefficients. Shape: (F₁, C), (F₂, C), … -> (N, C)"""


def cross_entropy(logits: Any, targets: Any, weights: Any) -> tuple[float, Any]:
    """The weighted sum of the cross-entropies, of several labels those of each class, and its
    gradient by the logits.

    Shape: logits (N, C), targets (N,) or (N, C), weights (N,), or (N, C) -> (), (N, C)
    """
    if targets.ndim > 1:
        weights = weights if weights.ndim > 1 else weights[:, None]
        losses = np.logaddexp(0.0, logits) - targets * logits
        return float((weights * losses).sum()), weights * (_sigmoid(logits) - targets)
    shifted = logits - logits.max(1, keepdims=True)
    grown = np.exp(shifted)
    totals = grown.sum(1, keepdims=True)
    rows = np.arange(len(targets))
    gradient = grown / totals
    gradient[rows, targets] -= 1.0
    losses = np.log(totals[:, 0]) - shifted[rows, targets]
    return float(weights @ losses), weights[:, None] * gradient


def curvature(logits: Any, targets: Any, weights: Any) -> Callable[[Any], Any]:
    """The product of the Hessian of `cross_entropy` with changes of the logits. Shape: as there"""
    weights = weights if weights.ndim > 1 else weights[:, None]
    if targets.ndim > 1:
        variances = weights * _sigmoid(logits) * _sigmoid(-logits)
        return lambda change: variances * change
    grown = np.exp(logits - logits.max(1, keepdims=True))
    p = grown / grown.sum(1, keepdims=True)
    weighted = weights * p
    return lambda change: weighted * (change - np.einsum("nc,nc->n", p, change)[:, None])


def _sigmoid(x: Any) -> Any:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


def logistic_regression(
    features: Features, targets: Any, weights: Any, n_classes: int, penalty: float
) -> tuple[Any, Any]:
    """The α and the bias that minimize the `cross_entropy` of the logits XXᵀα + bias, plus
    penalty/2·|Xᵀα|², by Newton-CG.

    Shape: targets, weights as of `cross_entropy` -> (N, C), (C,)
    """
    # A vector holds α and the bias in [0], XXᵀα and the bias in [1].
    at = np.zeros((2, len(targets) + 1, n_classes))
    # Changes of softmax add up to 0: the last class follows from the others.
    n_free = n_classes - (targets.ndim == 1)

    def vector(by_logits: Any, of_texts: Any) -> tuple[Any, tuple[Any, ...]]:
        """A gradient, or a product with the Hessian; and its coefficients and bias."""
        found = np.empty_like(at)
        found[:, -1] = by_logits.sum(0)
        np.add(by_logits, penalty * of_texts, out=found[0, :-1])
        coefficients = features.coefficients(found[0, :-1, :n_free])
        found[1, :-1, :n_free] = features.logits(*coefficients)
        if n_free < n_classes:
            found[1, :-1, -1] = -found[1, :-1, :-1].sum(1)
        return found, (*coefficients, found[0, -1])

    def objective(point: Any) -> tuple[float, Any]:
        value, by_logits = cross_entropy(_logits(point), targets, weights)
        return value + 0.5 * penalty * float(np.vdot(point[0, :-1], point[1, :-1])), by_logits

    def hessian(of_loss: Callable[[Any], Any], change: Any) -> Any:
        return vector(of_loss(_logits(change)), change[0, :-1])[0]

    first, n_products = 0.0, 0
    value, by_logits = objective(at)
    while n_products < MAX_PRODUCTS:
        gradient, parts = vector(by_logits, at[0, :-1])
        if all(_largest(part, n_free < n_classes) <= TOLERANCE for part in parts):
            break
        size = _inner(gradient, gradient)
        first = first or size
        step, n = _conjugate_gradients(
            partial(hessian, curvature(_logits(at), targets, weights)),
            gradient,
            enough=min(MOST_LEFT**2, np.sqrt(size / first)) * size,
            most=MAX_PRODUCTS - n_products,
        )
        n_products += n + 1
        slope, length = _inner(gradient, step), 1.0
        while True:
            new, by_logits = objective(at + length * step)
            if new <= value + SUFFICIENT * length * slope or length < SHORTEST:
                break
            length *= 0.5
        if not new < value:
            break  # the minimum, as far as rounding shows
        at, value = at + length * step, new
    return at[0, :-1], at[0, -1]


def _conjugate_gradients(
    hessian: Callable[[Any], Any], gradient: Any, *, enough: float, most: int
) -> tuple[Any, int]:
    """The step at which the gradient is about 0, and the number of products with the Hessian.

    Args:
        enough: the squared length of what may be left of the gradient.
        most: products.
    """
    step, left = np.zeros_like(gradient), -gradient
    direction, size = left, _inner(left, left)
    for n in range(1, most + 1):
        curve = hessian(direction)
        bend = _inner(direction, curve)
        if not bend > 0:  # a loss without weights has none
            return step, n
        step += size / bend * direction
        left = left - size / bend * curve
        before, size = size, _inner(left, left)
        if size <= enough:
            return step, n
        direction = left + size / before * direction
    return step, most


def _largest(part: Any, sums_to_0: bool) -> float:
    """The largest element of a gradient; if rows sum to 0, that of the class left out, too."""
    found = float(abs(part).max(initial=0.0))
    return max(found, float(abs(part.sum(-1)).max(initial=0.0))) if sums_to_0 else found


def _inner(one: Any, other: Any) -> float:
    """α·XXᵀβ plus the product of the biases."""
    return float(np.vdot(one[0], other[1]))


def _logits(vector: Any) -> Any:
    return vector[1, :-1] + vector[1, -1]
