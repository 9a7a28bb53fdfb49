"""The dictionary in fastText's model files.

Sizes; then words, then labels, each followed by a zero byte, its count and type; then the buckets that pruning keeps.
"""

import struct
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from wenmai.core.errors import FormatError
from wenmai.formats.fasttext.reader import Reader
from wenmai.models.fasttext import (
    LABEL_PREFIX,
    Config,
    FastText,
    FastTextClassifierConfig,
    is_hierarchical,
    misnamed_buckets,
    used_buckets,
)
from wenmai.text.vocab import Vocab, WordTable

__all__ = ["Dictionary", "read_dictionary", "write_dictionary"]

_SIZES = struct.Struct("<3iq")
_PRUNED = struct.Struct("<q")
_SHORTEST_ENTRY = 11  # bytes: a word of one, the zero byte, count and type
_AFTER_WORD = 10  # bytes: the zero byte, count and type
_LONGEST_WORD = 1 << 16
_MOST_SUBWORDS = 1 << 29  # of all words together, which take 2 GiB; the largest models published have 1 << 27
_NOT_PRUNED = -1
_BLOCK_BYTES = 1 << 22
_BLOCK_WORDS = 1 << 14


class Dictionary(NamedTuple):
    """The words and labels of a model; ``prefix`` is what labels begin with, ``kept`` (K, 2) buckets and their rows."""

    vocab: Vocab
    labels: Vocab | None
    prefix: str
    tokens: int
    kept: npt.NDArray[np.int32] | None


def read_dictionary(reader: Reader, config: Config, buckets: int, *, with_pruning: bool = True) -> Dictionary:
    """Reads the dictionary of a model with this configuration.

    One word may be empty: the official trainer writes it for vectors that were given to it under no name.

    Args:
        reader: The file, at its dictionary.
        config: What was read before.
        buckets: How many the model had before pruning.
        with_pruning: Whether the file says what pruning has kept; those of 2016 do not.

    Raises:
        FormatError: if it is truncated, or not as the configuration and its own sizes have it.
        VocabError: if a word or label comes twice.
    """
    size, num_words, num_labels, tokens = reader.unpack(_SIZES, "the sizes of the dictionary")
    (pruned,) = reader.unpack(_PRUNED, "the number of kept buckets") if with_pruning else (_NOT_PRUNED,)
    supervised = isinstance(config, FastTextClassifierConfig)
    if num_words < 1 or num_labels < supervised or size != num_words + num_labels or tokens < 0:
        raise reader.error(
            f"the dictionary has {size} entries, of which {num_words} are words and {num_labels} labels, of a text of "
            f"{tokens} tokens"
        )
    if pruned < _NOT_PRUNED:
        raise reader.error(f"the dictionary keeps {pruned} buckets")
    reader.require(size * _SHORTEST_ENTRY - 1, f"a dictionary of {size} entries")
    content = np.memmap(reader.path, np.uint8, "r").view(np.ndarray)
    begins, ends = _find_words(content, reader.at, size)
    _check_words(reader, content, begins, ends, size)
    reader.at = int(ends[-1]) + _AFTER_WORD
    counts = sliding_window_view(content, 8)[ends + 1].view("<i8").ravel().astype(np.int64)
    kinds = content[ends + 9]
    reader.file.seek(reader.at)
    wrong = np.flatnonzero(kinds != (np.arange(size) >= num_words))
    if wrong.size:
        expected = "word" if wrong[0] < num_words else "label"
        raise reader.error(f"entry {wrong[0] + 1} of {size} of the dictionary is no {expected}")
    vocab = Vocab(_words(content, begins[:num_words], ends[:num_words]), counts[:num_words])
    _check_subwords(reader, config, ends[:num_words] - begins[:num_words])
    labels, prefix = None, LABEL_PREFIX
    if num_labels:
        texts = list(_words(content, begins[num_words:], ends[num_words:]))
        if "" in texts:
            raise reader.error("a label of the dictionary is empty")
        if all(text.startswith(prefix) and text != prefix for text in texts):
            texts = [text.removeprefix(prefix) for text in texts]
        else:
            prefix = ""
        labels = Vocab(texts, counts[num_words:])
        if supervised and is_hierarchical(config) and np.any(np.diff(labels.counts) > 0):
            raise reader.error("the labels of a hierarchical softmax are not in the order of their counts")
    return Dictionary(vocab, labels, prefix, tokens, _read_kept(reader, pruned, buckets))


def _check_subwords(reader: Reader, config: Config, lengths: npt.NDArray[np.int64]) -> None:
    """Makes sure that the list of all n-grams of words of so many bytes, made when it is needed, fits memory."""
    if not used_buckets(config):
        return
    bracketed, shortest = lengths + 2, max(config.min_ngram, 1)
    longest = np.maximum(np.minimum(bracketed, config.max_ngram), shortest - 1)  # none where words are too short
    lost = (
        longest * (longest + 1) - shortest * (shortest - 1)
    ) // 2  # Σ n: an n-gram of n begins at length - n + 1 places
    if (most := int(((longest - shortest + 1) * (bracketed + 1) - lost).sum())) > _MOST_SUBWORDS:
        raise reader.error(
            f"n-grams of {config.min_ngram} to {config.max_ngram} characters of {len(lengths)} words, the longest of "
            f"{lengths.max()} bytes, are up to {most:,}, and models may have {_MOST_SUBWORDS:,}"
        )


def _find_words(
    content: npt.NDArray[np.uint8], at: int, size: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Finds where the words of ``size`` entries begin and end, from ``at`` on; fewer, if the content ends or is none.

    A word ends at the first zero byte, and the next one begins 10 bytes later. Only the first of zero bytes in a row
    may end a word, so that there are about two candidates for each, and a chain is followed from one to the next. The
    zero byte of an empty word may be none of these, which is why the chain begins anew behind the first such word.
    """
    begins, ends = np.empty(size, np.int64), np.empty(size, np.int64)
    found, no_empty_yet = 0, True
    while found < size:
        block = content[at : at + _BLOCK_BYTES]
        zero = block == 0
        zero[1:] &= block[:-1] != 0
        candidates = np.flatnonzero(zero)
        following = np.searchsorted(candidates, candidates + _AFTER_WORD).tolist()
        chain: list[int] = []
        place = 0
        while place < len(following) and len(chain) < size - found:
            chain.append(place)
            place = following[place]
        if not chain:
            break
        stop = found + len(chain)
        ends[found:stop] = at + candidates[chain]
        begins[found] = at
        begins[found + 1 : stop] = ends[found : stop - 1] + _AFTER_WORD
        empty = np.flatnonzero(content[begins[found:stop]] == 0)
        if no_empty_yet and empty.size:
            stop, no_empty_yet = found + int(empty[0]) + 1, False
            ends[stop - 1] = begins[stop - 1]
        found, at = stop, int(ends[stop - 1]) + _AFTER_WORD
    return begins[:found], ends[:found]


def _check_words(
    reader: Reader,
    content: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    size: int,
) -> None:
    """Refuses the first entry that is a second empty one, too long, or does not end in the file."""
    ended, long = ends + _AFTER_WORD > content.size, ends - begins > _LONGEST_WORD
    empty = content[begins] == 0
    empty[np.flatnonzero(empty)[:1]] = False
    wrong = np.flatnonzero(ended | long | empty)
    if not wrong.size and len(ends) == size:
        return
    first = int(wrong[0]) if wrong.size else len(ends)
    if first < len(ends):
        problem = "does not end in the file" if ended[first] else f"is longer than {_LONGEST_WORD} bytes"
        problem = problem if ended[first] or long[first] else "is the second empty one"
        reader.at = int(begins[first])
    else:
        reader.at = int(ends[-1]) + _AFTER_WORD if len(ends) else reader.at
        rest = content.size - reader.at
        problem = f"is longer than {_LONGEST_WORD} bytes" if rest > _LONGEST_WORD else "does not end in the file"
    raise reader.error(f"entry {first + 1} of {size} of the dictionary {problem}")


def _words(content: npt.NDArray[np.uint8], begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> WordTable:
    first = int(begins[0])
    marks = np.zeros(int(ends[-1]) + 2 - first, np.int8)
    marks[begins - first], marks[ends + 1 - first] = 1, -1
    inside = np.cumsum(marks[:-1], dtype=np.int8).view(np.bool_)
    words = content[first : int(ends[-1]) + 1][inside]  # each with its zero byte
    lines = np.where(words == 0, np.uint8(ord("\n")), words).tobytes()
    if lines.count(b"\n") == len(begins):
        try:
            lines.decode()
        except UnicodeDecodeError:
            pass
        else:
            return WordTable.of_lines(lines)
    return WordTable(word.decode("utf-8", "surrogateescape") for word in words.tobytes().split(b"\0")[:-1])


def _read_kept(reader: Reader, pruned: int, buckets: int) -> npt.NDArray[np.int32] | None:
    if pruned == _NOT_PRUNED:
        return None
    reader.require(8 * pruned, f"a list of {pruned} kept buckets")
    kept = np.empty((pruned, 2), np.int32)
    reader.fill(kept, "the list of kept buckets")
    if (wrong := misnamed_buckets(kept, buckets)) is not None:
        what, limit = wrong
        raise reader.error(f"the list of kept buckets names {what} twice or beyond {limit}")
    return kept


# --- writing --------------------------------------------------------------------------------------------------------


def write_dictionary(file: BinaryIO, model: FastText) -> None:
    """Writes the dictionary of a model.

    Raises:
        FormatError: if a word holds a zero byte.
    """
    kept = model.kept_buckets
    words, labels = len(model.vocab), len(model.labels or ())
    file.write(_SIZES.pack(words + labels, words, labels, model.tokens))
    file.write(_PRUNED.pack(_NOT_PRUNED if kept is None else len(kept)))
    _write_entries(file, model.vocab, "", 0)
    if model.labels is not None:
        _write_entries(file, _in_order(model, model.labels), model.label_prefix, 1)
    if kept is not None:
        file.write(np.ascontiguousarray(kept, "<i4").tobytes())


def _in_order(model: FastText, labels: Vocab) -> Vocab:
    """Labels as readers need them to build the same Huffman tree: by count. No row belongs to a label then."""
    if model.kind != "supervised" or not is_hierarchical(model.config):
        return labels
    order = np.argsort(-labels.counts, kind="stable")
    return Vocab([labels.tokens[place] for place in order.tolist()], labels.counts[order])


def _write_entries(file: BinaryIO, vocab: Vocab, prefix: str, kind: int) -> None:
    for start in range(0, len(vocab), _BLOCK_WORDS):
        tokens = vocab.tokens[start : start + _BLOCK_WORDS]
        words = [(prefix + token).encode("utf-8", "surrogateescape") for token in tokens]
        if any(b"\0" in word for word in words):
            raise FormatError(f"{file.name}: a word with a zero byte in it cannot be written in fastText's format")
        counts = vocab.counts[start : start + _BLOCK_WORDS].astype("<i8").tobytes()
        ends = bytes([kind])
        file.write(b"".join([b"%b\0%b%b" % (word, counts[8 * at : 8 * at + 8], ends) for at, word in enumerate(words)]))
