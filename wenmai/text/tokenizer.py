"""Tokenizers: text to the ids of pieces and back, trained on a corpus or read from a ``tokenizer.json``.

The work is done by Hugging Face ``tokenizers``, so that other programs read the file of a model. Added here: one small
set of kinds, ids of special tokens by role, texts that cannot inject special tokens, equal files from equal texts, and
errors that say what is wrong with a file.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import CorpusError, FormatError, SettingError, VocabError, nearest_name
from wenmai.core.folder import plain_file, writing
from wenmai.text.admission import adds_tokens, require_harmless
from wenmai.text.encodable import encodable, explaining, is_panic
from wenmai.text.joining import joined
from wenmai.text.pieces import (
    OPTIONAL_SPECIALS,
    SPECIALS,
    OptionalRole,
    TokenizerConfig,
    guard,
    special_tokens,
    trained,
)
from wenmai.text.segment import places_before_spacing, spaced_words, with_marks

if TYPE_CHECKING:
    import tokenizers

__all__ = ["USUAL_SPECIALS", "Encoding", "Tokenizer", "TokenizerConfig"]

USUAL_SPECIALS = {
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|padding|>", "<blank>"),
    "unk": ("<unk>", "[UNK]", "<|unk|>", "<|unknown|>"),
    "bos": ("<s>", "[CLS]", "<bos>", "[BOS]", "<|startoftext|>", "<|begin_of_text|>"),
    "eos": ("</s>", "[SEP]", "<eos>", "[EOS]", "<|endoftext|>", "<|end_of_text|>"),
    "cls": ("[CLS]", "<cls>"),
    "sep": ("[SEP]", "<sep>"),
    "mask": ("[MASK]", "<mask>", "<|mask|>"),
}
"""Role to the names that its token may have, the most usual first."""

_NO_EFFECT = {
    "truncation": "texts are encoded whole",
    "padding": "models pad their own batches",
    "post_processor": "models put their own special tokens around texts",
    "dropout": "equal texts have equal ids",
}  # section of a file to what is done instead
_MOST_HOLES = 1000  # ids without a token, besides as many as there are tokens
_BY_DICTIONARY = {"segment": "chinese"}  # a section that only files of ours have
_LINE_END = "\n</w>"  # the only end that GPT-1 knows
_SPACES = "▁Ġ"  # what stands for a space in pieces
_STAND_IN = "\ue000"  # a private character: no vocabulary has it, so it is a piece of its own, or several


@dataclass(frozen=True, slots=True)
class Encoding:
    """A text in pieces.

    Attributes:
        ids: The id of each piece.
        tokens: The pieces as the vocabulary writes them.
        offsets: Where each piece begins and ends in the text that was given, in characters; a piece with a space
            before it (``▁`` or ``Ġ``) begins with that space.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]


class Tokenizer:
    """Text to ids and back. Make one with :meth:`train` or :meth:`load`.

    What :meth:`decode` returns of :meth:`encode` where all characters are known:

    - ``bpe``, ``unigram``: the normalised text, in which white space is one space between words and none around;
    - ``byte-bpe``, ``characters``: the normalised text with all its white space;
    - ``whitespace``: the words with one space between them;
    - ``words``, ``wordpiece``, ``chinese``: the words, with spaces where ordinary writing has them: none before closing
      and after opening punctuation, around hyphens and apostrophes, and next to Chinese and Japanese characters.

    Attributes:
        pad_id: The id that fills up batches.
        unk_id: The id of unknown pieces.
        bos_id: BOS, before a sequence.
        eos_id: EOS, after a sequence.
        cls_id: The id before a sequence whose state stands for the whole, or None.
        sep_id: The id after each of two sequences, or None.
        mask_id: The id of a masked token, or None.
        takes_unknown: Whether the spelling of the unknown token in a text, such as ``<unk>``, is that token.
        left_out: What the file has that has no effect here: section to what is done instead.
        by_dictionary: Whether Chinese words are found by a dictionary first, which no other program does for its file.
        continues_words: Whether pieces continue the word before them, as ``##s`` does.
    """

    def __init__(
        self,
        backend: "tokenizers.Tokenizer",
        roles: dict[str, int],
        left_out: Mapping[str, str] | None = None,
        *,
        by_dictionary: bool = False,
    ) -> None:
        self.left_out = dict(left_out or {})
        self.by_dictionary = by_dictionary
        self._backend = backend
        self.pad_id, self.unk_id = roles["pad"], roles["unk"]
        self.bos_id, self.eos_id = roles["bos"], roles["eos"]
        self.mask_id = roles.get("mask")
        # Where there is a mask, BOS and EOS take the roles that have no token of their own, as in RoBERTa; an EOS that
        # is BOS too begins no text.
        shared = {} if self.mask_id is None else {"sep": self.eos_id}
        if shared and self.bos_id != self.eos_id:
            shared["cls"] = self.bos_id
        self.cls_id, self.sep_id = (roles.get(role, shared.get(role)) for role in ("cls", "sep"))
        added = backend.get_added_tokens_decoder()
        special = {number for number, token in added.items() if token.special} | set(roles.values())
        self.special_ids = frozenset(roles.values())
        marks = special - {self.unk_id} | {self.pad_id, self.bos_id, self.eos_id}  # one token may be all four
        self._skipped = {None: frozenset(marks), True: frozenset(special), False: frozenset[int]()}
        numbers = set(backend.get_vocab(with_added_tokens=True).values())
        self._size = 1 + max(numbers)
        self.nameless = frozenset(range(self._size)) - numbers if len(numbers) < self._size else frozenset()
        model = type(backend.model).__name__
        by_space = model == "WordLevel" and '"WhitespaceSplit"' in str(backend.pre_tokenizer.__getstate__())
        self.takes_unknown = by_space = by_space and not by_dictionary
        kept = special - {self.unk_id} if by_space else special  # there <unk> in a text is the unknown word
        guard(backend, [token for number in kept if (token := backend.id_to_token(number))])
        backend.encode_special_tokens = True  # the text "</s>" is text
        self.continues_words = model == "WordPiece"
        self._spaced = self.continues_words or (model == "WordLevel" and backend.decoder is None and not by_space)

    @classmethod
    def train(cls, texts: Iterable[str], config: TokenizerConfig, *, roles: Sequence[OptionalRole] = ()) -> "Tokenizer":
        """Trains a vocabulary on texts, read once as a stream; equal texts give equal vocabularies.

        Args:
            texts: Sentences or documents. Memory grows with the different words, not with the texts.
            config: The kind of pieces, and how many.
            roles: Those of ``cls``, ``sep`` and ``mask`` that the model needs; see :func:`special_tokens`.

        Raises:
            CorpusError: if there is no text.
            SettingError: if the vocabulary is too small.
        """
        named = special_tokens(config.kind, roles)
        specials = list(dict.fromkeys(named.values()))
        if config.vocab_size < (smallest := config.smallest_size - len(SPECIALS) + len(specials)):
            raise SettingError(
                f"vocab_size={config.vocab_size} is too small: with special tokens for {', '.join(roles)} "
                f"kind={config.kind} needs {smallest}"
            )
        backend = trained(encodable(texts), config, specials)
        numbers = {role: specials.index(token) for role, token in named.items()}
        found = cls(backend, numbers, by_dictionary=config.kind == _BY_DICTIONARY["segment"])
        if found.vocab_size == len(specials):
            raise CorpusError(
                "no vocabulary can be made of the texts: nothing in them occurs"
                f" min_count={config.smallest_count} times"
            )
        return found

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Reads a ``tokenizer.json``, of wenmai or of others.

        In files of others the roles go to special tokens with the usual names (such as ``[PAD]`` or ``<|endoftext|>``);
        where padding or BOS is missing, EOS takes the role. Where there is a mask but no ``[CLS]`` or ``[SEP]``, BOS
        and EOS take theirs, but for an EOS that is BOS too. Sections that cut texts, pad them, put special tokens
        around them or segment them at random have no effect; :attr:`left_out` names them.

        Raises:
            FormatError: if the file is missing or damaged, is no tokenizer, lacks special tokens, or has steps that
                could take time or memory without end.
        """
        try:
            text = plain_file(path).read_bytes().decode()
        except OSError as error:
            raise FormatError(f"{path}: cannot be read ({error.strerror})") from None
        except UnicodeDecodeError as error:
            raise FormatError(f"{path}: is not a tokenizer in JSON: {error}") from None
        return cls.of_json(text, path)

    @classmethod
    def of_json(cls, text: str, path: str | Path) -> "Tokenizer":
        """Makes a tokenizer of the content of a ``tokenizer.json``, which errors call ``path``; see :meth:`load`."""
        import tokenizers

        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path}: is not a tokenizer in JSON: {error}") from None
        if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
            raise FormatError(f"{path}: is not a tokenizer: it has no 'model'; expected a tokenizer.json")
        segment = {name: content.pop(name) for name in _BY_DICTIONARY if name in content}
        if segment and segment != _BY_DICTIONARY:
            raise FormatError(f"{path}: its segment={segment['segment']!r} is unknown; expected 'chinese'")
        require_harmless(content, path)
        left_out = _without_effect(content)
        try:
            backend = tokenizers.Tokenizer.from_str(json.dumps(content))  # which names nothing twice
        except BaseException as error:
            if isinstance(error, Exception) or is_panic(error):
                raise FormatError(f"{path}: is damaged, or of a later version of tokenizers: {error}") from None
            raise
        vocab = backend.get_vocab(with_added_tokens=True)
        if (highest := max(vocab.values(), default=0)) > _MOST_HOLES + 2 * len(vocab):
            raise FormatError(
                f"{path}: has {len(vocab)} tokens, but ids up to {highest}; models have a row for each id"
            )
        return cls(backend, _roles(backend, content["model"], path), left_out, by_dictionary=bool(segment))

    def save(self, path: str | Path) -> None:
        """Writes ``path`` (usually ``tokenizer.json``), whole or not at all."""
        with writing(path) as file:
            file.write(self.to_json(pretty=True).encode())

    def require_portable(self) -> None:
        """Checks that other programs segment texts as this one does, given its file.

        Raises:
            SettingError: if they do not.
        """
        if self.by_dictionary:
            raise SettingError(
                "the tokenizer finds words by a dictionary of Chinese, which no tokenizer.json can say; other programs "
                "read models of kind=characters, wordpiece or bpe"
            )

    def to_json(self, *, pretty: bool = False) -> str:
        """Returns the content of ``tokenizer.json``."""
        content = str(self._backend.to_str(pretty=pretty))
        if self.by_dictionary:
            return json.dumps(json.loads(content) | _BY_DICTIONARY, ensure_ascii=False, indent=2 if pretty else None)
        return content

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all that the ids depend on."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @property
    def vocab_size(self) -> int:
        """One more than the highest id."""
        return self._size

    def token(self, number: int) -> str:
        """Returns the piece with that id.

        Raises:
            VocabError: if there is none.
        """
        found = self._backend.id_to_token(number) if 0 <= number < self._size else None
        if found is None:
            raise VocabError(f"no token has the id {number}; the vocabulary has {self.vocab_size} tokens")
        return found

    def id(self, token: str) -> int:
        """Returns the id of a piece.

        Raises:
            VocabError: if it is not in the vocabulary; the message names the nearest piece.
        """
        found = self._backend.token_to_id(token)
        if found is None:
            vocab = self._backend.get_vocab(with_added_tokens=True)
            raise VocabError(f"{token!r} is not in the vocabulary of {len(vocab)} tokens{nearest_name(token, vocab)}")
        return found

    def normalise(self, text: str) -> str:
        """Returns the text as the pieces spell it: what :meth:`decode` returns where nothing is unknown."""
        return joined(self.words(text)) if self.continues_words else self._normalised(text)

    def words(self, text: str) -> list[str]:
        """Returns the words of a text, before they are segmented into pieces."""
        normal = self._normalised(self._spaced_words(text))
        before = self._backend.pre_tokenizer
        with explaining([text]):
            return [normal] if before is None else [word for word, _ in before.pre_tokenize_str(normal)]

    def _normalised(self, text: str) -> str:
        normalizer = self._backend.normalizer
        with explaining([text]):
            return text if normalizer is None else str(normalizer.normalize_str(text))

    def _spaced_words(self, text: str) -> str:
        return spaced_words(text, self._normalised(text)) if self.by_dictionary else text

    def _placed(self, text: str, spaced: str, offsets: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Turns places in a text with spaces between its words into places in the text, with the marks of letters."""
        if self.by_dictionary and offsets:
            normal = self._normalised(text)
            places = places_before_spacing(normal if len(normal) == len(text) else text, spaced)
            offsets = [(places[low], places[high - 1] + 1) for low, high in offsets]
        return with_marks(text, offsets)

    def pieces_of_words(self, texts: list[str]) -> list[tuple[int, ...]]:
        """Returns the ids of the pieces of each word of some texts."""
        found: list[tuple[int, ...]] = []
        with explaining(texts):
            encodings = self._backend.encode_batch(list(map(self._spaced_words, texts)), add_special_tokens=False)
        for encoding in encodings:
            ends = [place for place, (one, other) in enumerate(pairwise(encoding.word_ids), 1) if one != other]
            found += [tuple(encoding.ids[low:high]) for low, high in pairwise([0, *ends, len(encoding.ids)])]
        return found

    def encode(self, text: str) -> Encoding:
        """Segments a text into pieces, without special tokens.

        Raises:
            CorpusError: if the text has a lone surrogate, which is no character.
            FormatError: if the file of the tokenizer turns out to be damaged.
        """
        with explaining([text]):
            spaced = self._spaced_words(text)
            found = self._backend.encode(spaced, add_special_tokens=False)
        return Encoding(ids=found.ids, tokens=found.tokens, offsets=self._placed(text, spaced, found.offsets))

    def encode_masked(self, text: str) -> Encoding:
        """Segments a text in which the spelling of the mask, such as ``[MASK]``, is the mask.

        Other special tokens are text, as in :meth:`encode`. Where pieces begin with the space before them, so does the
        mask; and a piece behind it begins with a space only if there is one.

        Raises:
            VocabError: if there is no mask.
            CorpusError: as :meth:`encode` does.
            FormatError: likewise.
        """
        if self.mask_id is None:
            raise VocabError("the tokenizer has no token for the mask; a model that fills in has one")
        mask, ids, offsets = self.token(self.mask_id), list[int](), list[tuple[int, int]]()
        # Whether pieces have a space before them at the beginning of a text, and behind a space.
        always, behind = (any(one[0] in _SPACES for one in self.encode(text).tokens[:1]) for text in ("a", " a"))
        parts = text.split(mask)
        begin = 0
        for place, part in enumerate(parts):
            if place:
                ids.append(self.mask_id)
                offsets.append((begin, begin + len(mask)))
                begin += len(mask)
            kept = part.rstrip() if behind and place < len(parts) - 1 else part
            before = _STAND_IN if always and place and kept[:1].strip() else ""
            found = self.encode(before + kept)
            for number, (low, high) in zip(found.ids, found.offsets, strict=True):
                if high > len(before):
                    ids.append(number)
                    offsets.append((max(low - len(before), 0) + begin, high - len(before) + begin))
            begin += len(part)
        return Encoding(ids=ids, tokens=[self.token(number) for number in ids], offsets=offsets)

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        """Returns the ids of many texts at once, which is faster than one by one.

        Raises:
            CorpusError: if a text has a lone surrogate, which is no character.
            FormatError: if the file of the tokenizer turns out to be damaged.
        """
        with explaining(texts):
            found = self._backend.encode_batch_fast(list(map(self._spaced_words, texts)), add_special_tokens=False)
        return [encoding.ids for encoding in found]

    def encode_batch_placed(self, texts: list[str]) -> list[tuple[list[int], npt.NDArray[np.int64]]]:
        """Returns the ids of many texts, and where each piece begins and ends, (pieces, 2), as of :meth:`encode`.

        Raises:
            CorpusError: as :meth:`encode_batch` does.
            FormatError: likewise.
        """
        with explaining(texts):
            spaced = list(map(self._spaced_words, texts))
            found = self._backend.encode_batch(spaced, add_special_tokens=False)
        offsets = (self._placed(text, own, one.offsets) for text, own, one in zip(texts, spaced, found, strict=True))
        flat = chain.from_iterable
        return [
            (one.ids, np.fromiter(flat(own), np.int64).reshape(-1, 2)) for one, own in zip(found, offsets, strict=True)
        ]

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool | None = None) -> str:
        """Returns the text of some ids.

        Args:
            ids: The ids.
            skip_special_tokens: None: without special tokens, but with the unknown one, which stands for a part of the
                text as no other does. True and False are those of ``transformers``: without any, and with all.

        Raises:
            VocabError: if an id is not one of the vocabulary.
        """
        skipped = self._skipped[skip_special_tokens]
        shown = [number for number in map(int, ids) if number not in skipped]
        for number in {min(shown), max(shown)} if shown else ():
            self.token(number)
        if self._spaced:
            return joined(map(self.token, shown))
        with explaining([]):
            return str(self._backend.decode(shown, skip_special_tokens=False))


def _without_effect(content: dict[str, Any]) -> dict[str, str]:
    """Takes away what has no effect here; returns its names, and what is done instead."""
    found = [name for name in ("truncation", "padding") if content.get(name) is not None]
    if adds_tokens(content.get("post_processor")):
        found.append("post_processor")
    content.update(dict.fromkeys(found))
    if content["model"].get("dropout"):
        content["model"]["dropout"] = None
        found.append("dropout")
    return {name: _NO_EFFECT[name] for name in found}


def _roles(backend: "tokenizers.Tokenizer", model: dict[str, Any], path: str | Path) -> dict[str, int]:
    """Finds the ids of the roles among the tokens of a file."""
    vocab = backend.get_vocab(with_added_tokens=True)
    special = {token.content for token in backend.get_added_tokens_decoder().values() if token.special}
    known = {  # in a file that does not call it special, [MASK] is an ordinary word
        role: [vocab[name] for name in names if name in (special if role in OPTIONAL_SPECIALS else vocab)]
        for role, names in USUAL_SPECIALS.items()
    }
    found: dict[str, int] = {role: numbers[0] for role, numbers in known.items() if numbers}
    if "eos" not in found and _LINE_END in vocab:
        found["eos"] = vocab[_LINE_END]
    unknown = model.get("unk_token")
    if isinstance(model.get("unk_id"), int):
        found["unk"] = model["unk_id"]
    elif unknown in vocab:
        found["unk"] = vocab[unknown]
    if "eos" not in found:
        raise FormatError(
            f"{path}: has no token for the end of a sequence; expected one of {', '.join(USUAL_SPECIALS['eos'])}"
        )
    knows_bytes = model.get("byte_fallback") is True or '"ByteLevel"' in backend.to_str()
    if "unk" not in found and not knows_bytes:
        raise FormatError(
            f"{path}: has no token for what is unknown; expected one of {', '.join(USUAL_SPECIALS['unk'])}"
        )
    if unknown is not None and unknown not in backend.get_vocab(with_added_tokens=False) and not knows_bytes:
        raise FormatError(f"{path}: its token for what is unknown, {unknown!r}, is not in its vocabulary")
    if model.get("type") == "Unigram" and model.get("unk_id") is None and not knows_bytes:
        raise FormatError(f"{path}: has no token for what is unknown: its unk_id is missing")
    return dict.fromkeys(("pad", "unk", "bos"), found["eos"]) | found
