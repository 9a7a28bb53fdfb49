r"""ARPA files: n-gram models as text, which KenLM, SRILM and speech recognisers read.

``\data\``, a line ``ngram N=COUNT`` for each order, then for each order ``\N-grams:`` and lines of a logarithm to base
10, the words, and (but for the highest order) the logarithm of the back-off weight; ``\end\`` closes the file. Only
tabs, spaces and line ends separate words.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.folder import writing
from wenmai.formats.arpa_reader import WORD_OF_TEXT, read_arpa
from wenmai.formats.format import Format, Imported
from wenmai.kernels.arpa import format_lines
from wenmai.kernels.ngram_lookup import BEGIN, INVERSE
from wenmai.models.ngram import Ngram

__all__ = ["FORMATS", "read_arpa", "write_arpa"]

_BLOCK = 1 << 22  # bytes that are written at once


def write_arpa(path: str | Path, model: Ngram) -> None:
    """Writes a model as an ARPA file, whole or not at all; zero probabilities as -99, as SRILM does.

    A remark on the first line keeps ``unknown_is_word``, if it is true.

    Raises:
        SettingError: for an add-k model, whose unseen words have no back-off weights.
        FormatError: if the model is damaged.
    """
    if model.config.smoothing == "add-k" and model.config.order > 1:
        raise SettingError(
            "add-k gives all unseen words the same probability, which an ARPA file, where shorter n-grams decide, "
            "cannot store; train with another smoothing, or order=1"
        )
    vocab, order = model.vocab, model.config.order
    longest = int(np.diff(vocab.bounds).max())
    out = np.empty(max(_BLOCK, 4 * order * (longest + 32)), np.uint8)
    with writing(path) as file:
        if model.unknown_is_word:
            file.write(WORD_OF_TEXT + b"\n")
        file.write(b"\\data\\\n")
        for number, count in enumerate(model.ngrams, 1):
            file.write(f"ngram {number}={count}\n".encode())
        words = np.arange(len(vocab), dtype=np.int32)[:, None]
        first_id = 0
        for number in range(1, order + 1):
            file.write(f"\n\\{number}-grams:\n".encode())
            if number > 1:
                bounds = model.contexts["first"][first_id - len(words) : first_id + 1].astype(np.int64)
                records, sizes = _records(model, number, first_id), np.diff(bounds)
                last = records["word"] * INVERSE
                if (sizes < 0).any() or sizes.sum() != len(records) or (last >= len(vocab)).any():
                    raise FormatError(f"{path}: is not written: the model's n-grams are damaged; train it again")
                words = np.column_stack([np.repeat(words, sizes, axis=0), last.astype(np.int32)])
            records = _records(model, number, first_id)
            log_probs = np.array(records["log_prob"])
            if number == 1:
                log_probs[BEGIN] = 0  # as lmplz does: it is never predicted
            backoffs = np.array(records["backoff"]) if number < order else np.zeros(0, np.float32)
            begin = 0
            while begin < len(words):
                begin, size = format_lines(
                    words, log_probs, backoffs, vocab.text, vocab.bounds, begin, order * (longest + 1) + 64, out
                )
                file.write(out[:size].data)
            first_id += len(words)
        file.write(b"\n\\end\\\n")


def _records(model: Ngram, number: int, first_id: int) -> npt.NDArray[np.void]:
    count = model.ngrams[number - 1]
    if number == model.config.order and number > 1:
        return model.leaves
    return model.contexts[first_id : first_id + count]


def _imported(path: Path) -> Imported:
    model = read_arpa(path)
    settings = {"order": model.config.order, "smoothing": model.config.smoothing, "min_count": 1}
    return Imported(system="ngram", model=model, vocabulary=len(model.vocab), settings=settings)


FORMATS = (
    Format(
        name="arpa",
        summary="ARPA text of an n-gram model, for KenLM, SRILM and speech recognisers",
        models=("wenmai.models.ngram:Ngram",),
        write=lambda path, run: write_arpa(path, run.model.model),
        read=_imported,
    ),
)
