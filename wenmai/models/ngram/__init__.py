"""N-gram language models: how likely a word is after the N - 1 before it, from counts.

Papers: Ney, Essen, Kneser 1994, "On Structuring Probabilistic Dependences in Stochastic Language Modelling", Computer
Speech and Language 8; Kneser, Ney 1995, "Improved Backing-off for M-gram Language Modeling", ICASSP; Chen, Goodman
1999, "An Empirical Study of Smoothing Techniques for Language Modeling", Computer Speech and Language 13; Heafield,
Pouzyrevsky, Clark, Koehn 2013, "Scalable Modified Kneser-Ney Language Model Estimation", ACL.

Sentences are ``<s> w_1 ... w_T </s>``: ``<s>`` is context alone, ``</s>`` is predicted. The equations and where they
are stand in ``estimate.py``; how a text is counted in ``kernels/ngrams.py`` and
``kernels/ngram_estimate.py``, and within little memory in ``streamed_estimate.py``; how n-grams are stored and found
in ``kernels/ngram_lookup.py``.

Differs from the papers, as KenLM does: words share the mass of unknown ones evenly (γ / V).
"""

from wenmai.models.ngram.config import CountingConfig, NgramConfig, Smoothing
from wenmai.models.ngram.estimate import Estimated, discounts_of, estimate
from wenmai.models.ngram.model import Ngram
from wenmai.models.ngram.streamed_estimate import estimate_in_parts
from wenmai.models.ngram.words import SPECIALS, Words

__all__ = [
    "SPECIALS",
    "CountingConfig",
    "Estimated",
    "Ngram",
    "NgramConfig",
    "Smoothing",
    "Words",
    "discounts_of",
    "estimate",
    "estimate_in_parts",
]
