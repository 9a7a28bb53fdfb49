"""Texts that a tokenizer can encode, and what is wrong where it cannot."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from wenmai.core.errors import CorpusError, FormatError

__all__ = ["FOREIGN", "MUCH_UNKNOWN", "encodable", "explaining", "is_panic", "require_text", "separators_between"]

MUCH_UNKNOWN = 0.2
"""Share of pieces that a vocabulary lacks which is worth a note."""
FOREIGN = 0.5
"""Share from which on a text is of another language."""


def separators_between(first: str, segments: int) -> int:
    """Returns how many marks an encoder has between two texts: two in RoBERTa (Liu et al. 2019), else one.

    Args:
        first: The token before a text.
        segments: How many segments the encoder tells apart.
    """
    return 2 if segments == 1 and first == "<s>" else 1


@contextmanager
def explaining(texts: Sequence[str]) -> Iterator[None]:
    """Says what is wrong with texts, or the tokenizer, where the library only fails, or takes two texts for one."""
    for text in texts:
        require_text(text)
    try:
        yield
    except BaseException as error:
        for text in texts if isinstance(error, UnicodeEncodeError | TypeError) else ():  # said of lone surrogates
            _check_encodable(text)
        if type(error) is Exception or is_panic(error):
            raise FormatError(f"the tokenizer of this model is damaged: it fails at a text ({error})") from None
        raise


def is_panic(error: BaseException) -> bool:
    """Whether the library ended where it should not; it says so beside all usual exceptions."""
    return type(error).__name__ == "PanicException"


def encodable(texts: Iterable[str]) -> Iterator[str]:
    """Yields texts, after a check that they are texts and not all empty."""
    if isinstance(texts, str):
        raise CorpusError("texts from Python are an iterable of strings, not one string")
    empty = True
    for text in texts:
        require_text(text)
        _check_encodable(text)
        empty = empty and not text.strip()
        yield text
    if empty:
        raise CorpusError("no vocabulary can be made of the texts: there are none, or all are empty")


def require_text(text: object) -> None:
    """Makes sure that something from Python is a text.

    Raises:
        CorpusError: if it is none.
    """
    if not isinstance(text, str):
        raise CorpusError(f"texts from Python are strings; one is {type(text).__name__}")


def _check_encodable(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        found = f"a text has the lone surrogate {text[error.start]!r} at character {error.start}"
        raise CorpusError(f"{found}, which no UTF-8 text has; decode the text with its right encoding") from None
