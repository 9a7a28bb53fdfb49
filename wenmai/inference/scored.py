"""The score of a text from the log-probabilities of its tokens."""

import numpy as np
import numpy.typing as npt

from wenmai.core.tensors import require_numbers
from wenmai.measures.language import SentenceScore
from wenmai.text.tokenizer import Tokenizer

__all__ = ["sentence_score"]


def sentence_score(
    tokenizer: Tokenizer,
    text: str,
    ids: npt.NDArray[np.int32],
    log_probs: npt.NDArray[np.float64],
    *,
    unpredicted: npt.NDArray[np.int64] | None = None,
    pseudo: bool = False,
) -> SentenceScore:
    """Returns the score of a text, with its unknown tokens and their spelling.

    Args:
        tokenizer: Made the tokens.
        text: The text.
        ids: (T,) its tokens.
        log_probs: (T,) the natural logarithms of their probabilities.
        unpredicted: The places of tokens that were predicted as the unknown one; None: those that are.
        pseudo: Whether each was predicted from all others.

    Raises:
        FormatError: if one is NaN.
    """
    require_numbers(not np.isnan(log_probs).any())
    places = unpredicted
    if places is None:
        places = np.flatnonzero((ids == tokenizer.unk_id) & (ids != tokenizer.eos_id))
    spelled: list[str] = []
    if len(places):
        offsets = tokenizer.encode(text).offsets
        named = tokenizer.token(tokenizer.unk_id) if tokenizer.takes_unknown else None
        found = [(place, tokenizer.normalise(text[slice(*offsets[place])])) for place in places]
        places = np.array([place for place, word in found if word != named], np.int64)
        spelled = [word for _, word in found if word != named]
    return SentenceScore(
        text=text,
        log_prob=float(log_probs.sum()),
        tokens=len(ids),
        oov=len(places),
        known_log_prob=float(np.delete(log_probs, places).sum()),
        oov_bytes=sum(len(word.encode()) + 1 for word in spelled),
        token_log_probs=tuple(log_probs.tolist()),
        pseudo=pseudo,
    )
