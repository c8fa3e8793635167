"""The order laboratory: which position encoding knows what about word order."""
