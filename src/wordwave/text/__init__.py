"""Text: tokens, vocabularies, batches. Knows no model."""
