"""Tables of few long trainings: translation (Table 5), language models (Table 6)."""
