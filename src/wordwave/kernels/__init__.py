"""Compiled loops of training and prediction with a bag of words or a CNN.

Imported by `wordwave.compiled` only, since numba may be missing. numba keeps the machine code in
`__pycache__`, or in a folder of the user where that cannot be written. All arithmetic is float32
and in a fixed order, so that results are the same bit for bit at every run on a machine.
"""

from wordwave.kernels.bag import bag_steps
from wordwave.kernels.ngrams import sum_ngrams
from wordwave.kernels.steps import (
    adam_rows,
    is_ascending,
    keep,
    take_tokens,
)
from wordwave.kernels.text import encode_ascii, hash_ngrams, index_words
from wordwave.kernels.waves import pair_rows, rows_in_use, sum_waves, sum_waves_backward
from wordwave.kernels.windows import pool_windows, pool_windows_backward

__all__ = [
    "adam_rows",
    "bag_steps",
    "encode_ascii",
    "hash_ngrams",
    "index_words",
    "is_ascending",
    "keep",
    "pair_rows",
    "pool_windows",
    "pool_windows_backward",
    "rows_in_use",
    "sum_ngrams",
    "sum_waves",
    "sum_waves_backward",
    "take_tokens",
]
