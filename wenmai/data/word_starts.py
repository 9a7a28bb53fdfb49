"""Where words begin in an encoded text: found once, then memory-mapped by every training that masks whole words.

``<cache>/words/<fingerprint>/`` holds ``words.bin`` (a byte for each token, 1 where a word begins) and ``words.json``.
"""

import hashlib
import json
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wenmai.core.folder import cache_folder, writing_json
from wenmai.data.cached import made, mapped, opened, stored_head
from wenmai.data.corpus import Progress
from wenmai.data.encoded_text import EncodedText
from wenmai.text.tokenizer import Tokenizer
from wenmai.text.word_starts import WordStarts

__all__ = ["word_starts"]

_VERSION = 1  # of the file, and of the words that a text and a tokenizer give
_BLOCK = 1 << 20  # tokens that are looked at together


def word_starts(
    text: EncodedText, tokenizer: Tokenizer, *, cache: Path | None = None, progress: Progress | None = None
) -> npt.NDArray[np.bool_]:
    """Returns where words begin among the tokens of a text, as :class:`wenmai.text.word_starts.WordStarts` finds them.

    Args:
        text: The text.
        tokenizer: Its tokenizer.
        cache: Folder for what was found; by default the cache of wenmai (``WENMAI_CACHE``).
        progress: Called with the tokens looked at so far and their number.

    Returns:
        (tokens,) bool, memory-mapped, for :attr:`EncodedText.tokens`.

    Raises:
        RunError: if the result cannot be written.
    """
    key = [_VERSION, text.fingerprint, tokenizer.fingerprint, version("rjieba")]
    fingerprint = hashlib.sha256(json.dumps(key).encode()).hexdigest()
    folder = (cache or cache_folder()) / "words"

    def open_folder(entry: Path) -> npt.NDArray[np.bool_]:
        with stored_head(entry, "words.json", _VERSION, "words of a text"):
            found: npt.NDArray[np.bool_] = mapped(entry / "words.bin", "|b1", len(text))
            return found

    def fill(entry: Path) -> str:
        starts = WordStarts(tokenizer)
        with (entry / "words.bin").open("wb") as file:
            for begin, end in pairwise(_cuts(text)):
                file.write(starts(text.tokens[begin:end]).data)
                if progress is not None:
                    progress(end, len(text))
        writing_json(entry / "words.json", {"version": _VERSION, "fingerprint": fingerprint, "text": text.fingerprint})
        return fingerprint

    if (found := opened(folder / fingerprint, open_folder)) is not None:
        return found
    return made(folder, fill, open_folder, "words of a text")


def _cuts(text: EncodedText) -> list[int]:
    """Places in a text with about a block between them, each at the end of a line, as no word goes on in the next."""
    ends = text.ends[:, 0]
    near = np.searchsorted(ends, np.arange(_BLOCK, len(text), _BLOCK))
    return sorted({0, *ends[near].tolist(), len(text)})
