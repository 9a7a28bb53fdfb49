"""Existing tokenizers: a ``tokenizer.json``, or vocabulary and merges, as GPT-1 and GPT-2 have them.

| file | content |
|---|---|
| vocabulary (``vocab.json``, ``encoder.json``) | a JSON object: token to id |
| merges (``merges.txt``, ``vocab.bpe``) | ``#version: 0.2``, then two pieces a line, in the order of joining |

The pieces of GPT-2 (Radford et al. 2019) are made of bytes, each written as a printable character; those of GPT-1
(Radford et al. 2018) of characters, the last of a word with ``</w>`` behind it. GPT-1's text is lower case, without
accents, cut at white space and around punctuation: what ``transformers`` does where the authors used ftfy and spaCy.
"""

import json
import logging
from pathlib import Path
from typing import Any

from wenmai.core.compressed import reading
from wenmai.core.errors import FormatError
from wenmai.text.tokenizer import USUAL_SPECIALS, Tokenizer

__all__ = ["read_tokenizer", "read_vocabulary"]

_log = logging.getLogger(__name__)

_PAIRS = (
    ("vocab.json", "merges.txt"),
    ("encoder.json", "vocab.bpe"),
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),  # GPT-1 as its authors published it
)
_ADDED = "added_tokens.json"  # beside the pair, written by earlier versions of transformers
_COMPRESSIONS = ("", ".gz", ".xz", ".bz2", ".zst")
_MOST_BYTES = 1 << 28  # of a vocabulary: so much text would be its tokens, millions of them
_WORD_END = "</w>"


def read_tokenizer(source: str | Path) -> Tokenizer:
    """Reads a tokenizer; what the file has that has no effect here is logged as a warning.

    Args:
        source: A ``tokenizer.json``; ``VOCABULARY,MERGES``, in any order; or a folder with either, under the usual
            names. Files may be compressed.

    Raises:
        FormatError: if nothing is there, or it is damaged, no tokenizer, or lacks special tokens.
    """
    first, second = _files(source)
    if second is not None:
        if (more := first.with_name(_ADDED)).is_file():
            _log.warning(
                "%s: is not read; tokens added to a vocabulary are kept in a tokenizer.json, which transformers writes",
                more,
            )
        return read_vocabulary(first, second)
    content = _json(first)
    if "model" not in content and content and all(isinstance(number, int) for number in content.values()):
        raise FormatError(f"{first}: is a vocabulary without its merges; name both, as {first},MERGES, or their folder")
    found = Tokenizer.of_json(json.dumps(content), first)
    if found.left_out:
        listed = ", ".join(f"{name} ({instead})" for name, instead in found.left_out.items())
        _log.warning("%s: has sections that have no effect here: %s", first, listed)
    return found


def read_vocabulary(vocabulary: str | Path, merges: str | Path) -> Tokenizer:
    """Makes a tokenizer of a vocabulary and its merges.

    Args:
        vocabulary: A JSON object, token to id.
        merges: Two pieces a line, in the order in which they are joined.

    Raises:
        FormatError: if one is missing, damaged, or does not fit the other, or they are neither of bytes nor of words.
    """
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    vocab, pairs = _vocab(vocabulary), _merges(merges)
    words = any(token.endswith(_WORD_END) for token in vocab)
    if not words and not vocab.keys() >= set(pre_tokenizers.ByteLevel.alphabet()):
        raise FormatError(
            f"{vocabulary}: is no vocabulary of GPT: it has neither the 256 characters that stand for bytes, nor "
            f"tokens that end in {_WORD_END}"
        )
    options: dict[str, Any] = {"end_of_word_suffix": _WORD_END, "unk_token": "<unk>"} if words else {}
    try:
        backend = tokenizers.Tokenizer(models.BPE(vocab, pairs, **options))
    except Exception as error:
        raise FormatError(f"{merges}: does not fit {vocabulary}: {error}") from None
    if words:
        backend.normalizer = normalizers.BertNormalizer(lowercase=True)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.BPEDecoder(suffix=_WORD_END)
    else:
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
    special = [name for names in USUAL_SPECIALS.values() for name in names if name in vocab]
    backend.add_special_tokens([name for name in special if not name.endswith(_WORD_END)])
    return Tokenizer.of_json(backend.to_str(), vocabulary)


def _files(source: str | Path) -> tuple[Path, Path | None]:
    """The files of a tokenizer: ``tokenizer.json``, or vocabulary and merges."""
    path = Path(source).expanduser()
    if path.is_dir():
        if (whole := _named(path, "tokenizer.json")) is not None:
            return whole, None
        for vocabulary, merges in _PAIRS:
            first, second = _named(path, vocabulary), _named(path, merges)
            if first is not None and second is not None:
                return first, second
            if first is not None or second is not None:
                there, gone = (vocabulary, merges) if second is None else (merges, vocabulary)
                raise FormatError(f"{path}: has {there}, but not the {gone} that belongs to it")
        expected = " or ".join(f"{vocabulary} with {merges}" for vocabulary, merges in _PAIRS[:2])
        raise FormatError(f"{path}: has no tokenizer; expected tokenizer.json, or {expected}")
    if path.exists() or "," not in str(source):
        return path, None
    parts = [Path(part.strip()).expanduser() for part in str(source).split(",")]
    if len(parts) != 2:
        raise FormatError(f"{source}: names {len(parts)} files; expected a vocabulary and its merges, or one file")
    first, second = parts
    return (second, first) if not _is_json(first) and _is_json(second) else (first, second)


def _named(folder: Path, name: str) -> Path | None:
    """The file of this name, which may be compressed."""
    return next((path for end in _COMPRESSIONS if (path := folder / f"{name}{end}").is_file()), None)


def _is_json(path: Path) -> bool:
    with reading(path) as file:
        return file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


def _text(path: str | Path) -> str:
    with reading(path) as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise FormatError(f"{path}: has more than {_MOST_BYTES >> 20} MiB, more than any vocabulary")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: is not UTF-8 text: {error}") from None


def _json(path: str | Path) -> dict[str, Any]:
    try:
        content = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: is not a tokenizer in JSON: {error}") from None
    if not isinstance(content, dict):
        raise FormatError(f"{path}: is not a tokenizer: expected a JSON object")
    return content


def _vocab(path: str | Path) -> dict[str, int]:
    """Token to id; ids are contiguous from zero."""
    vocab = _json(path)
    numbers = vocab.values()
    if any(type(number) is not int for number in numbers) or set(numbers) != set(range(len(vocab))) or not vocab:
        raise FormatError(
            f"{path}: is no vocabulary: expected an object of tokens whose ids are 0 to {max(0, len(vocab) - 1)}"
        )
    return vocab


def _merges(path: str | Path) -> list[tuple[str, str]]:
    lines = _text(path).replace("\r\n", "\n").split("\n")
    start = 1 if lines[0].startswith("#version") else 0
    pairs = []
    for number, line in enumerate(lines[start:], start=start + 1):
        if not line and number == len(lines):
            continue
        pieces = line.split(" ")
        if len(pieces) != 2 or not all(pieces):
            raise FormatError(f"{path}: line {number} is no merge: expected two pieces with a space between them")
        pairs.append((pieces[0], pieces[1]))
    return pairs
