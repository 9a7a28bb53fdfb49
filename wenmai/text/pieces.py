"""The pieces of tokenizers: their kinds, and how the vocabulary of each kind is trained.

Equal texts give equal vocabularies, whatever the order in which the threads of the trainers work.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from annotated_types import Ge
from typing_extensions import Doc

from wenmai.config.recipe import Located
from wenmai.core.errors import SettingError
from wenmai.text.normalise import tokenizer_steps
from wenmai.text.segment import spaced_words
from wenmai.text.settings import SCRIPTS, FoldWidth, Lowercase, Nfkc, Script, check_choices, normalisation_of

if TYPE_CHECKING:
    import tokenizers

__all__ = [
    "CHOICES",
    "OPTIONAL_SPECIALS",
    "SPECIALS",
    "WORDS",
    "JointTokenizerConfig",
    "OptionalRole",
    "StreamTokenizerConfig",
    "TokenizerConfig",
    "guard",
    "special_tokens",
    "suitable",
    "trained",
]

TokenizerKind = Literal["bpe", "byte-bpe", "wordpiece", "unigram", "words", "whitespace", "chinese", "characters"]

CHOICES: dict[str, tuple[str, ...]] = {"kind": get_args(TokenizerKind), "script": SCRIPTS}

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
"""Padding, unknown, BOS, EOS: the ids 0 to 3 of every tokenizer that is trained here, but for BERT's."""

OptionalRole = Literal["cls", "sep", "mask"]
OPTIONAL_SPECIALS: dict[OptionalRole, str] = {"cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
"""Role to the token that it has in a tokenizer that is trained for a model that needs it, as in BERT."""

_ROLES = ("pad", "unk", "bos", "eos")
_BERT_ROLES: dict[str, OptionalRole] = {"bos": "cls", "eos": "sep"}
_UNKNOWN = SPECIALS[1]

# Within a word (▁ stands for the space before it) letters, Chinese characters, single digits and everything else are
# kept apart, as SentencePiece does: no piece is half word, half punctuation.
_RUNS = r"▁?\p{Han}+|▁?[\p{L}\p{M}]+|▁?\p{N}|▁?[^\p{L}\p{M}\p{N}▁]+|▁"
# The words of segment=words: apostrophes inside words, points and commas inside numbers.
_WORD = r"[\w\u00ad\u200c\u200d]"
WORDS = rf"\d+(?:[.,]\d+)+|{_WORD}+(?:['’]{_WORD}+)*|[^\w\s]"
_LONGEST_WORD = 100  # characters; WordPiece takes longer ones for unknown
_PRIVATE = 0xF0000  # the first of 131,072 characters that no text should have


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerConfig:
    """How text is segmented into pieces, and which pieces make the vocabulary."""

    kind: Annotated[
        TokenizerKind,
        Doc(
            "bpe, unigram: pieces of words, as in SentencePiece; byte-bpe: pieces of bytes, any text survives; "
            "wordpiece: pieces of words, Chinese characters and punctuation, as in BERT; words: words and punctuation; "
            "whitespace: what white space separates; chinese: words by jieba's dictionary; "
            "characters: single characters"
        ),
    ] = "bpe"
    vocab_size: Annotated[int, Ge(5), Doc("most pieces, special ones included")] = 8000
    min_count: Annotated[
        int | None,
        Ge(1),
        Doc("words, characters and joined pieces seen fewer times are left out; none: 2; not for unigram"),
    ] = None
    nfc: Annotated[
        bool | None,
        Doc("Unicode normalisation form C: one spelling for letters with accents; none: true, but not for wordpiece"),
    ] = None
    nfkc: Nfkc = False
    fold_width: FoldWidth = False
    lowercase: Lowercase = False
    strip_accents: Annotated[
        bool | None, Doc("wordpiece: letters lose their accents; none: as lowercase says, as in BERT")
    ] = None
    script: Script = "keep"

    def __post_init__(self) -> None:
        check_choices(self, CHOICES)
        if self.kind == "unigram" and self.min_count is not None:
            raise SettingError("min_count has no effect with kind=unigram, whose vocabulary follows from vocab_size")
        if self.kind != "wordpiece" and self.strip_accents is not None:
            raise SettingError(f"strip_accents has no effect with kind={self.kind}, only with kind=wordpiece")
        if self.vocab_size < self.smallest_size:
            raise SettingError(
                f"vocab_size={self.vocab_size} is too small: kind={self.kind} needs {self.smallest_size}"
            )

    @property
    def smallest_size(self) -> int:
        """The least size of a vocabulary of this kind."""
        return len(SPECIALS) + (256 if self.kind == "byte-bpe" else 1)

    @property
    def smallest_count(self) -> int:
        """The least count that is asked for."""
        return 2 if self.min_count is None else self.min_count

    @property
    def form_c(self) -> bool:
        """Whether texts are brought to normalisation form C."""
        return self.kind != "wordpiece" if self.nfc is None else self.nfc

    @property
    def lossy(self) -> dict[str, bool | str]:
        """The settings by which different texts have the same pieces."""
        accents = {"strip_accents": True} if self.strip_accents else {}
        joins = self.kind in ("words", "wordpiece", "chinese")
        return normalisation_of(self) | accents | ({"kind": self.kind} if joins else {})


@dataclass(frozen=True, kw_only=True, slots=True)
class JointTokenizerConfig(TokenizerConfig):
    """The same for pairs of texts."""

    joint: Annotated[bool, Doc("one vocabulary for source and target")] = True


def absolute_source(source: str) -> str:
    """Returns the name of a tokenizer as :func:`wenmai.text.vocabulary_files.read_tokenizer` finds it from anywhere."""
    parts = [source] if Path(source).expanduser().exists() else source.split(",")
    return ",".join(str(Path(part.strip()).expanduser().absolute()) for part in parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamTokenizerConfig(TokenizerConfig):
    """The same for running text, which may use an existing tokenizer."""

    file: Annotated[
        str | None,
        Doc(
            "an existing tokenizer: tokenizer.json, vocab.txt of BERT, VOCABULARY,MERGES of GPT-1, GPT-2 or RoBERTa, "
            "or a folder with one of them; none: one is trained on the text"
        ),
        Located(absolute_source),
    ] = None

    def __post_init__(self) -> None:
        TokenizerConfig.__post_init__(self)
        for setting in fields(TokenizerConfig) if self.file is not None else ():
            value = getattr(self, setting.name)
            if value != setting.default and (setting.name, value) != ("nfc", True):  # as older recipes have it
                raise SettingError(
                    f"{setting.name}={value} has no effect with file={self.file}, an existing tokenizer; "
                    "leave out one of them"
                )


def suitable(known: Mapping[str, Any]) -> dict[str, Any]:
    """Turns settings of :class:`TextConfig` into settings of a tokenizer.

    Normalisation has the same names; the segmentations into words, characters and by white space are kinds of pieces.
    That into Chinese words is one too, but only for those who ask: most networks read pieces or characters.
    """
    same = {field.name for field in fields(TokenizerConfig)}
    kind = {"kind": known["segment"]} if known.get("segment") in ("words", "whitespace", "characters") else {}
    return kind | {name: value for name, value in known.items() if name in same}


def special_tokens(kind: TokenizerKind, roles: Sequence[OptionalRole]) -> dict[str, str]:
    """Returns role to token for a tokenizer that is trained for a model with some roles, in the order of the ids.

    WordPiece has the five tokens of BERT then, ``[CLS]`` being BOS and ``[SEP]`` EOS; all others have those of
    :data:`SPECIALS` before their own.
    """
    found = dict(zip(_ROLES, SPECIALS, strict=True))
    if kind == "wordpiece" and roles:
        found |= {"pad": "[PAD]", "unk": "[UNK]"}
        found |= {role: OPTIONAL_SPECIALS[own] for role, own in _BERT_ROLES.items() if own in roles}
    return found | {role: OPTIONAL_SPECIALS[role] for role in roles}


def trained(
    texts: Iterable[str], config: TokenizerConfig, specials: Sequence[str] = SPECIALS
) -> "tokenizers.Tokenizer":
    """Returns a tokenizer with the vocabulary of some texts.

    Args:
        texts: Read once.
        config: The kind of pieces, and how many.
        specials: The tokens with the first ids, as :func:`special_tokens` has them; the unknown token is the second.

    Raises:
        SettingError: if a unigram vocabulary is smaller than the number of characters in the texts.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    backend, unknown = Tokenizer(models.BPE()), specials[1]
    if (normalizer := _normalizer(config)) is not None:
        backend.normalizer = normalizer
    if config.kind != "characters":
        backend.pre_tokenizer = _pre_tokenizer(config)
        guard(backend, set(specials) - ({unknown} if config.kind == "whitespace" else set()))
    common: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "special_tokens": list(specials),
        "show_progress": False,
    }
    counted = common | {"min_frequency": config.smallest_count}
    # Otherwise rare characters displace all pieces where a script has thousands of them.
    alphabet: dict[str, Any] = {"limit_alphabet": int(0.75 * (config.vocab_size - len(specials))) or 1}
    if config.kind == "characters":
        backend.model = _characters(texts, backend, config, specials)
        backend.decoder = decoders.Fuse()
    elif config.kind in ("words", "whitespace", "chinese"):
        backend.model = models.WordLevel(unk_token=unknown)
        if config.kind == "whitespace":  # there <unk> in a text is the unknown word
            texts = (" ".join(word for word in text.split() if word != unknown) for text in texts)
        elif config.kind == "chinese":
            normalizer = _normalizer(config)  # that of the backend cannot be asked during its training
            texts = (spaced_words(text, normalizer.normalize_str(text) if normalizer else text) for text in texts)
        backend.train_from_iterator(texts, trainers.WordLevelTrainer(**counted))
    elif config.kind == "byte-bpe":
        every_byte = pre_tokenizers.ByteLevel.alphabet()
        backend.train_from_iterator(texts, trainers.BpeTrainer(**counted, initial_alphabet=every_byte))
        backend.decoder = decoders.ByteLevel()
    elif config.kind == "wordpiece":
        backend.model = _wordpieces(texts, backend, trainers.BpeTrainer(**counted, **alphabet), unknown)
        backend.decoder = decoders.WordPiece()
    elif config.kind == "bpe":
        backend.model = models.BPE(unk_token=unknown)
        backend.train_from_iterator(texts, trainers.BpeTrainer(**counted, **alphabet))
        backend.decoder = decoders.Metaspace()
    else:
        backend.model = models.Unigram()
        try:
            backend.train_from_iterator(texts, trainers.UnigramTrainer(**common, unk_token=unknown))
        except Exception as error:
            if "not large enough" not in str(error):
                raise
            fault = f"vocab_size={config.vocab_size} is too small: the texts have more different characters"
            raise SettingError(f"{fault}; use a larger one, or kind=bpe, which leaves out the rarest") from None
        backend.model = _canonical(backend, specials)
        backend.decoder = decoders.Metaspace()
    # As in RoBERTa: pieces of bytes begin with the space before them, so the mask of one takes it too.
    takes_space = {OPTIONAL_SPECIALS["mask"]} if config.kind == "byte-bpe" else set()
    backend.add_special_tokens([AddedToken(token, lstrip=token in takes_space) for token in specials])
    return backend


def _normalizer(config: TokenizerConfig) -> Any:  # noqa: ANN401  a normalizer, or None
    from tokenizers import Regex, normalizers

    steps = tokenizer_steps(config)
    if config.kind == "wordpiece":
        basic = normalizers.BertNormalizer(lowercase=config.lowercase, strip_accents=config.strip_accents)
        return normalizers.Sequence([*steps, basic]) if steps else basic
    if config.kind in ("bpe", "unigram"):  # ▁ stands for a space in their pieces
        steps += [normalizers.Replace(Regex(r"[\s▁]+"), " "), normalizers.Strip()]
    return normalizers.Sequence(steps) if steps else None


def _pre_tokenizer(config: TokenizerConfig) -> Any:  # noqa: ANN401  a pre-tokenizer
    from tokenizers import Regex, pre_tokenizers
    from tokenizers.pre_tokenizers import Split

    if config.kind == "words":
        return Split(Regex(WORDS), "removed", invert=True)
    if config.kind in ("whitespace", "chinese"):
        return pre_tokenizers.WhitespaceSplit()
    if config.kind == "byte-bpe":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if config.kind == "wordpiece":
        return pre_tokenizers.BertPreTokenizer()
    return pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), Split(Regex(_RUNS), "isolated")])


def guard(backend: "tokenizers.Tokenizer", special: Iterable[str]) -> None:
    """Splits the spelling of special tokens in a text after its first character, so that no model finds the whole.

    Without this a unigram model takes ``</s>`` in a text for the token of that name, and BPE could learn it.
    """
    from tokenizers import Regex, pre_tokenizers

    by_first: dict[str, list[str]] = {}
    for token in sorted(token for token in special if len(token) > 1):
        by_first.setdefault(token[0], []).append(re.escape(token[1:]))
    pattern = "|".join(f"{re.escape(first)}(?={'|'.join(rest)})" for first, rest in sorted(by_first.items()))
    before = backend.pre_tokenizer
    existing = None if before is None else json.loads(before.__getstate__())
    steps = [] if before is None else [before]
    inner = (existing or {}).get("pretokenizers", [])
    if pattern and not (inner and inner[-1].get("pattern") == {"Regex": pattern}):
        backend.pre_tokenizer = pre_tokenizers.Sequence([*steps, pre_tokenizers.Split(Regex(pattern), "isolated")])


def _characters(
    texts: Iterable[str], backend: "tokenizers.Tokenizer", config: TokenizerConfig, specials: Sequence[str]
) -> "tokenizers.models.BPE":
    """Returns BPE without merges: its pieces are the characters, and nothing is faster."""
    from tokenizers import models

    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_normalised(backend, text))
    ordered = sorted(counts, key=lambda character: (-counts[character], character))
    kept = [character for character in ordered if counts[character] >= config.smallest_count]
    vocab = {token: number for number, token in enumerate([*specials, *kept][: config.vocab_size])}
    return models.BPE(vocab, [], unk_token=specials[1])


class _Marks(dict[int, int]):
    """Maps each character inside a word to a private one."""

    def __missing__(self, code: int) -> int:
        self[code] = found = _PRIVATE + len(self)
        return found


def _wordpieces(
    texts: Iterable[str],
    backend: "tokenizers.Tokenizer",
    trainer: Any,  # noqa: ANN401  of the library
    unknown: str,
) -> Any:  # noqa: ANN401  a model
    """Finds the pieces of words by BPE; the first piece of a word differs from the same piece inside one.

    The library's own trainer breaks ties by a hash that differs from process to process.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers

    marks = _Marks()
    private = re.compile(f"[{chr(_PRIVATE)}-\U0010ffff]")

    def marked() -> Iterator[str]:
        for text in texts:
            words = backend.pre_tokenizer.pre_tokenize_str(private.sub(" ", _normalised(backend, text)))
            yield " ".join(word[0] + word[1:].translate(marks) for word, _ in words if len(word) <= _LONGEST_WORD)

    cutter = Tokenizer(models.BPE())
    cutter.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    cutter.train_from_iterator(marked(), trainer)
    plain = {mark: chr(code) for code, mark in marks.items()}
    vocab = {
        ("##" if ord(token[0]) in plain else "") + token.translate(plain): number
        for token, number in cutter.get_vocab().items()
    }
    return models.WordPiece(vocab, unk_token=unknown, max_input_chars_per_word=_LONGEST_WORD)


def _normalised(backend: "tokenizers.Tokenizer", text: str) -> str:
    return text if backend.normalizer is None else str(backend.normalizer.normalize_str(text))


def _canonical(backend: "tokenizers.Tokenizer", specials: Sequence[str]) -> Any:  # noqa: ANN401  a model
    """Frees the scores of a unigram vocabulary from the order in which the trainer's threads added them.

    It finds the same pieces each time, but their scores differ in the last digits; and the characters that it adds at
    the end to know them all get the lowest score and ever one ten-thousandth more, in any order: here all the lowest.
    """
    from tokenizers import models

    scores = dict(json.loads(backend.to_str())["model"]["vocab"][len(specials) :])
    lowest = min(scores.values())
    for piece, score in scores.items():
        steps = 1e4 * (score - lowest)
        scores[piece] = round(lowest if len(piece) == 1 and abs(steps - round(steps)) < 1e-5 else score, 6)
    ordered = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return models.Unigram([(token, 0.0) for token in specials] + ordered, unk_id=1, byte_fallback=False)
