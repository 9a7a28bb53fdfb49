"""Strings as contiguous UTF-8 bytes, which compiled loops read.

What ``surrogateescape`` stands for becomes the byte it was; other half pairs of surrogates stay what they are.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["encode", "encode_lines"]

Encoded = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]


def encode(words: Iterable[str]) -> Encoded:
    """Returns strings as contiguous bytes, and where each begins, and the end."""
    words = list(words)
    joined = "".join(words)
    if joined.isascii():
        lengths, content = [len(word) for word in words], joined.encode("ascii")
    else:
        encoded = [_encoded(word) for word in words]
        lengths, content = [len(word) for word in encoded], b"".join(encoded)
    bounds = np.zeros(len(words) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return np.frombuffer(content, np.uint8), bounds


def encode_lines(texts: Sequence[str]) -> Encoded:
    """As :func:`encode`, but a line feed may follow a text: many texts that are not ASCII are faster this way."""
    joined = "\n".join(texts)
    if joined.isascii() or joined.count("\n") != len(texts) - 1:
        return encode(texts)
    try:
        content = np.frombuffer(joined.encode("utf-8", "surrogateescape"), np.uint8)
    except UnicodeEncodeError:
        return encode(texts)
    ends = np.flatnonzero(content == ord("\n")) + 1
    return content, np.concatenate([[0], ends, [content.size]])


def _encoded(word: str) -> bytes:
    try:
        return word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return word.encode("utf-8", "surrogatepass")
