"""A text classifier with the manners of scikit-learn."""

from wordwave.sklearn.estimator import WaveClassifier

__all__ = ["WaveClassifier"]
