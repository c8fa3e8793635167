"""Hyperparameter search and the comparison of encoders and embeddings."""
