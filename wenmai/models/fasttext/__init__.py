"""fastText: a word is the mean of its own vector and those of its character n-grams; a text that of its features.

Papers: Bojanowski, Grave, Joulin, Mikolov 2017, "Enriching Word Vectors with Subword Information", TACL 5,
arXiv:1607.04606; Joulin, Grave, Bojanowski, Mikolov 2017, "Bag of Tricks for Efficient Text Classification", EACL,
arXiv:1607.01759; Joulin et al. 2016, "FastText.zip: Compressing text classification models", arXiv:1612.03651.

| equation                                                          | where                                       |
|-------------------------------------------------------------------|---------------------------------------------|
| character n-grams of ``<word>``, hashed (2017 TACL, sec. 3.2)     | kernels/subwords.py, ``subword_table``      |
| word n-grams, hashed (2017 EACL, sec. 2.2)                        | kernels/subwords.py, ``text_features``      |
| hidden vector: mean of the rows of all features                   | kernels/pooling.py, ``mean_rows``           |
| softmax, hierarchical softmax (2017 EACL, sec. 2.1), sigmoids     | kernels/classes.py                          |
| product quantisation with norms, pruning (2016, sec. 3)           | kernels/quantise.py; formats/fasttext/     |

Differs from the papers, as the reference implementation does: the rows of a word are averaged, not summed; the bytes of
a hashed text are sign-extended. Differs from the reference implementation: a probability is not raised by 1e-5, and
sigmoids are exact instead of a table of 512 steps, but for models that are read from its files: their losses ``ns`` and
``ova`` were trained with the table, and only with it they name the labels that they name there (reference.py).
"""

from wenmai.models.fasttext.config import (
    END_OF_LINE,
    LABEL_PREFIX,
    LONGEST_WORD_NGRAM,
    Config,
    FastTextClassifierConfig,
    FastTextConfig,
    is_hierarchical,
    used_buckets,
)
from wenmai.models.fasttext.matrices import Matrix, misnamed_buckets, rows_to_fill
from wenmai.models.fasttext.model import FastText

__all__ = [
    "END_OF_LINE",
    "LABEL_PREFIX",
    "LONGEST_WORD_NGRAM",
    "Config",
    "FastText",
    "FastTextClassifierConfig",
    "FastTextConfig",
    "Matrix",
    "is_hierarchical",
    "misnamed_buckets",
    "rows_to_fill",
    "used_buckets",
]
