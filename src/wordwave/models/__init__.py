"""Models, composed from an embedding, an encoder, a read-out and a head."""

from wordwave.models.classifier import Classifier, Tagger, count_parameters
from wordwave.models.config import ModelConfig

__all__ = ["Classifier", "ModelConfig", "Tagger", "count_parameters"]
