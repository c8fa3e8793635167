"""Models: classifier, encoder-decoder and Transformer-XL, with beam search."""
