"""Existing tokenizers: ``tokenizer.json``, ``vocab.txt`` of BERT, or vocabulary and merges of GPT-1, GPT-2 and RoBERTa.

| file | content |
|---|---|
| ``vocab.txt`` | a token a line, the number of the line from 0 being its id; in ERNIE a tab and the id behind it |
| vocabulary (``vocab.json``, ``encoder.json``) | a JSON object: token to id |
| merges (``merges.txt``, ``vocab.bpe``) | ``#version: 0.2``, then two pieces a line, in the order of joining |
| ``tokenizer_config.json`` beside them | how text is cut, where ``transformers`` lets it be said |
| ``config.json`` beside them | the class of the tokenizer, where that does not name it |

The pieces of GPT-2 (Radford et al. 2019) are made of bytes, each written as a printable character; those of GPT-1
(Radford et al. 2018) of characters, the last of a word with ``</w>`` behind it. GPT-1's text is lower case, without
accents, cut at white space and around punctuation: what ``transformers`` does where the authors used ftfy and spaCy.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wenmai.core.compressed import reading
from wenmai.core.errors import FormatError
from wenmai.text.tokenizer import USUAL_SPECIALS, Tokenizer

if TYPE_CHECKING:
    from tokenizers import AddedToken

__all__ = ["read_tokenizer", "read_vocabulary", "read_wordpieces"]

_log = logging.getLogger(__name__)

_PAIRS = (
    ("vocab.json", "merges.txt"),
    ("encoder.json", "vocab.bpe"),
    ("encoder_bpe_40000.json", "vocab_40000.bpe"),  # GPT-1 as its authors published it
)
_ADDED = "added_tokens.json"  # beside the pair, written by earlier versions of transformers
_PIECES, _CONFIG, _MODEL = "vocab.txt", "tokenizer_config.json", "config.json"
_OF_ANY_KIND = ("PreTrained", "TokenizersBackend")  # which do what their tokenizer.json says
# Whose text is cut as BERT's is; others with a vocab.txt first find the words of Japanese, or by a dictionary.
_LIKE_BERT = ("Bert", "DistilBert", "Electra", "Ernie", "MobileBert", "ConvBert", "LayoutLM")
# Whose text is cut as that of GPT-1, GPT-2 or RoBERTa is; others with merges keep capitals, or cut numbers into digits.
_LIKE_GPT = ("GPT2", "OpenAIGPT", "Roberta", "Bart", "CodeGen", "Deberta", "LED", "Longformer", "Mvp")
# What tokenizer_config.json says of a step of tokenizer.json, and what that calls it.
_SAID = {
    "BertNormalizer": {
        "do_lower_case": "lowercase",
        "strip_accents": "strip_accents",
        "tokenize_chinese_chars": "handle_chinese_chars",
    },
    "ByteLevel": {"add_prefix_space": "add_prefix_space"},
}
_CAPITALS = re.compile(r"(?:##)?[A-Za-z]*[A-Z][A-Za-z]*")
_COMPRESSIONS = ("", ".gz", ".xz", ".bz2", ".zst")
_MOST_BYTES = 1 << 28  # of a vocabulary: so much text would be its tokens, millions of them
_MOST_DIGITS = 10  # of an id
_WORD_END = "</w>"


def read_tokenizer(source: str | Path, *, most: int | None = None) -> Tokenizer:
    """Reads a tokenizer; what the file has that has no effect here is logged as a warning.

    Args:
        source: A ``tokenizer.json``; a ``vocab.txt``; ``VOCABULARY,MERGES``, in any order; or a folder with one of
            them, under the usual names. Files may be compressed.
        most: How many tokens a model has rows for; those that are added to a ``vocab.txt`` beyond are left out.

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
    if not _is_json(first):
        return read_wordpieces(first, most=most)
    content = _json(first)
    if "model" not in content and content and all(isinstance(number, int) for number in content.values()):
        raise FormatError(f"{first}: is a vocabulary without its merges; name both, as {first},MERGES, or their folder")
    settings = _settings(first)
    file_alone = not settings or _kind(first, settings)[0] in _OF_ANY_KIND
    if changed := [] if file_alone else _said_otherwise(content, settings):
        _log.warning("%s: %s is taken from the %s beside it, as transformers does", first, ", ".join(changed), _CONFIG)
    found = Tokenizer.of_json(json.dumps(content), first)
    if found.left_out:
        listed = ", ".join(f"{name} ({instead})" for name, instead in found.left_out.items())
        _log.warning("%s: has sections that have no effect here: %s", first, listed)
    return found


def read_wordpieces(vocabulary: str | Path, *, most: int | None = None) -> Tokenizer:
    """Makes a tokenizer of BERT's ``vocab.txt``, and of what a ``tokenizer_config.json`` beside it says.

    Where that does not say whether text becomes lower case, it does if no token has a capital letter.

    Raises:
        FormatError: if it is missing or damaged, lacks special tokens, or belongs to a tokenizer that cuts text
            otherwise.
    """
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    settings, vocab = _settings(vocabulary), _lines(vocabulary)
    _require_kind(vocabulary, settings, "BERT", _LIKE_BERT)
    named = settings.get("unk_token", "[UNK]")
    unknown = str(named.get("content") if isinstance(named, dict) else named)
    if unknown not in vocab:
        raise FormatError(f"{vocabulary}: is no vocab.txt of BERT, one token a line: it lacks {unknown}")
    lowercase = settings.get("do_lower_case")
    if not isinstance(lowercase, bool):
        capital = next(filter(_CAPITALS.fullmatch, vocab), None)
        lowercase = capital is None
        why = "no token has a capital letter" if lowercase else f"it has tokens with capital letters, such as {capital}"
        _log.info("%s: text %s lower case, as %s", vocabulary, "becomes" if lowercase else "does not become", why)
    accents, spaced = settings.get("strip_accents"), settings.get("tokenize_chinese_chars")
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=unknown))
    backend.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase,
        strip_accents=accents if isinstance(accents, bool) else None,
        handle_chinese_chars=spaced is not False,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens(_special(vocab))
    if more := _added(vocabulary, settings, vocab, most):
        backend.add_tokens(more)
    return Tokenizer.of_json(backend.to_str(), vocabulary)


def _added(
    vocabulary: str | Path, settings: Mapping[str, Any], vocab: Mapping[str, int], most: int | None
) -> "list[AddedToken]":
    """The tokens that the files beside a ``vocab.txt`` add right behind it; a warning if they add others."""
    from tokenizers import AddedToken

    beside, said = Path(vocabulary).with_name(_ADDED), settings.get("added_tokens_decoder")
    listed = _json(beside) if beside.is_file() else {}
    found: dict[str, Any] = {str(number): {"content": name} for name, number in listed.items()}
    found |= {str(number): one for number, one in (said if isinstance(said, dict) else {}).items()}
    contents = {number: one.get("content") if isinstance(one, dict) else None for number, one in found.items()}
    new = {number: text for number, text in contents.items() if not _is_text(text) or text not in vocab}
    if not new:
        return []
    behind, end = len(vocab), len(vocab) + len(new)
    numbers = list(map(str, range(behind, end)))
    follows = {*new} == {*numbers} and max(vocab.values()) < behind and (most is None or end <= most)
    if not follows or not all(map(_is_text, new.values())) or len({*new.values()}) < len(new):
        what = "the tokens that %s or %s adds are not read: they do not follow the vocabulary, or the model has no rows"
        _log.warning(f"%s: {what}", vocabulary, _ADDED, _CONFIG)
        return []
    options = ("single_word", "lstrip", "rstrip", "normalized", "special")

    def token(one: Mapping[str, Any]) -> AddedToken:
        return AddedToken(one["content"], **{name: one[name] for name in options if isinstance(one.get(name), bool)})

    return [token(found[number]) for number in numbers]


def _is_text(content: object) -> bool:
    """Whether a token is a text, without half of a surrogate pair."""
    return isinstance(content, str) and bool(content) and not any("\ud800" <= one <= "\udfff" for one in content)


def read_vocabulary(vocabulary: str | Path, merges: str | Path) -> Tokenizer:
    """Makes a tokenizer of a vocabulary and its merges, and of what a ``tokenizer_config.json`` beside them says.

    Args:
        vocabulary: A JSON object, token to id.
        merges: Two pieces a line, in the order in which they are joined.

    Raises:
        FormatError: if one is missing, damaged, or does not fit the other, or they are neither of bytes nor of words,
            or belong to a tokenizer that cuts text otherwise.
    """
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    settings, vocab, pairs = _settings(vocabulary), _vocab(vocabulary), _merges(merges)
    _require_kind(vocabulary, settings, "GPT", _LIKE_GPT)
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
        spaced = settings.get("add_prefix_space") is True
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
        backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(_special(vocab))
    return Tokenizer.of_json(backend.to_str(), vocabulary)


def _special(vocab: Mapping[str, int]) -> "list[AddedToken]":
    """The special tokens among those of a vocabulary, by their usual names."""
    from tokenizers import AddedToken

    found = [name for names in USUAL_SPECIALS.values() for name in names if name in vocab]
    # RoBERTa's mask takes the space before it, as other pieces of bytes do.
    return [AddedToken(name, lstrip=name == "<mask>") for name in found if not name.endswith(_WORD_END)]


def _settings(path: str | Path, name: str = _CONFIG) -> Mapping[str, Any]:
    """What the ``tokenizer_config.json`` beside a file says; nothing if there is none."""
    beside = Path(path).with_name(name)
    return _json(beside) if beside.is_file() else {}


def _kind(path: str | Path, settings: Mapping[str, Any]) -> tuple[str, str]:
    """The class of a tokenizer, such as ``Bert``, and the file beside it that names it; empty if none does."""
    named, beside = settings.get("tokenizer_class"), _CONFIG
    if not named:
        with suppress(FormatError):  # anybody's file may have this name
            named, beside = _settings(path, _MODEL).get("tokenizer_class"), _MODEL
    return str(named or "").removesuffix("Fast").removesuffix("Tokenizer"), beside


def _require_kind(vocabulary: str | Path, settings: Mapping[str, Any], usual: str, known: Sequence[str]) -> None:
    """Makes sure that text is cut in the usual way, by the class that the files beside a vocabulary name.

    Raises:
        FormatError: if it is not.
    """
    kind, beside = _kind(vocabulary, settings)
    if settings.get("do_basic_tokenize") is False:
        kind, beside = kind or known[0], _CONFIG
    elif kind in ("", *known, *_OF_ANY_KIND):
        return
    raise FormatError(
        f"{vocabulary}: is cut by {kind}Tokenizer otherwise than by {usual}'s, says the {beside} beside it; expected a "
        "tokenizer.json, which transformers writes for most"
    )


def _said_otherwise(content: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """Changes the steps of a ``tokenizer.json`` as settings say; returns what was changed."""
    changed = []
    for step in _steps([content.get("normalizer"), content.get("pre_tokenizer")]):
        for name, own in _SAID.get(str(step.get("type")), {}).items():
            value = settings.get(name)
            if own in step and isinstance(value, bool) and step[own] != value:
                step[own] = value
                changed.append(f"{name}={str(value).lower()}")
    return changed


def _steps(waiting: list[Any]) -> Iterator[dict[str, Any]]:
    """Yields the steps in steps."""
    while waiting:
        step = waiting.pop()
        if isinstance(step, dict):
            yield step
            waiting += [one for some in step.values() if isinstance(some, list) for one in some]


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
        if (pieces := _named(path, _PIECES)) is not None:
            return pieces, None
        expected = " or ".join(f"{vocabulary} with {merges}" for vocabulary, merges in _PAIRS[:2])
        raise FormatError(f"{path}: has no tokenizer; expected tokenizer.json, {_PIECES}, or {expected}")
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


def _lines(path: str | Path) -> dict[str, int]:
    """Token to id of a file with a token a line; of two equal ones the later counts, as for ``transformers``."""
    tokens = _text(path).replace("\r\n", "\n").removesuffix("\n").split("\n")
    with_ids = [token.rpartition("\t") for token in tokens]
    if all(token and number.isdecimal() and len(number) <= _MOST_DIGITS for token, _, number in with_ids):
        ids = [int(number) for _, _, number in with_ids]
        if sorted(ids) != list(range(len(ids))):
            raise FormatError(f"{path}: the ids of its tokens are not all numbers from 0 to {len(ids) - 1:,}")
        tokens = [token for _, (token, _, _) in sorted(zip(ids, with_ids, strict=True))]
    return {token: number for number, token in enumerate(tokens)}


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
