"""Text: tokenizers, vocabularies and batching. Imports no model."""
