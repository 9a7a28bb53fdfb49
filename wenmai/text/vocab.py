"""The vocabulary: tokens, their ids and counts, and the special tokens by role."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from operator import eq
from pathlib import Path
from typing import Any, BinaryIO, overload

import numpy as np
import numpy.typing as npt

from wenmai.core.errors import FormatError, VocabError, nearest_name
from wenmai.core.folder import plain_file, writing

__all__ = ["Vocab", "WordTable"]

_BLOCK = 1 << 14  # words that are processed at once
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")
_UTF8 = ("utf-8", "surrogatepass")  # half a surrogate pair is no text, but may be part of a string


class WordTable(Sequence[str]):
    """Strings in one run of bytes, immutable: a million words take 12 MB instead of 70, and are decoded when asked for.

    Equal to any list or tuple of the same strings.
    """

    __slots__ = ("_bounds", "_text")

    def __init__(self, words: Iterable[str]) -> None:
        encoded = [word.encode(*_UTF8) for word in words]
        bounds = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(word) + 1 for word in encoded], out=bounds[1:])
        self._text = b"".join([word + b"\n" for word in encoded])
        self._bounds = _narrow(bounds)  # string i is text[bounds[i] : bounds[i + 1] - 1]

    @classmethod
    def of_lines(cls, text: bytes) -> "WordTable":
        """Takes the lines of a UTF-8 text, each of which ends in a line feed, without copying them."""
        ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
        return cls._of(text[: int(ends[-1]) + 1 if ends.size else 0], _narrow(np.concatenate([[0], ends + 1])))

    def lines(self) -> tuple[bytes, npt.NDArray[np.unsignedinteger]]:
        """Returns the strings in UTF-8, with a line feed after each, and where each begins; last, the end."""
        return self._text, self._bounds

    @classmethod
    def _of(cls, text: bytes, bounds: npt.NDArray[np.unsignedinteger]) -> "WordTable":
        table = cls.__new__(cls)
        table._text, table._bounds = text, bounds
        return table

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> "WordTable": ...
    def __getitem__(self, place: int | slice) -> "str | WordTable":
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if (start, stop, step) == (0, len(self), 1):
                return self  # the same bytes: this is how a corpus and its vocabulary share them
            return WordTable(self[number] for number in range(start, stop, step))
        number = range(len(self))[place]
        return self._text[int(self._bounds[number]) : int(self._bounds[number + 1]) - 1].decode(*_UTF8)

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BLOCK):
            bounds = self._bounds[start : start + _BLOCK + 1].tolist()
            for begin, end in pairwise(bounds):
                yield self._text[begin : end - 1].decode(*_UTF8)

    def __len__(self) -> int:
        return self._bounds.size - 1

    def __eq__(self, other: object) -> bool:
        if isinstance(other, WordTable):
            return self._text == other._text and np.array_equal(self._bounds, other._bounds)
        if isinstance(other, list | tuple):
            return len(self) == len(other) and all(map(eq, self, other))
        return NotImplemented

    def __repr__(self) -> str:
        return f"WordTable({list(self[:10])}{', ...' if len(self) > 10 else ''}, {len(self)} words)"


def _narrow(bounds: npt.NDArray[np.int64]) -> npt.NDArray[np.unsignedinteger]:
    return bounds.astype(np.min_scalar_type(int(bounds[-1])))


class Vocab:
    """Tokens and their ids, immutable. Special tokens come first; a token's id is its place in ``tokens``.

    Args:
        tokens: Distinct strings, of which one may be empty, as in models from elsewhere; the first ones are the special
            tokens, in the order of ``specials``. They are kept as bytes (:class:`WordTable`), and a table of bytes is
            shared.
        counts: How often each token was seen, not negative. A read-only array of int64 is shared.
        specials: Role (such as ``unknown``, ``pad``, ``begin``, ``end``) to token.

    Raises:
        VocabError: if the three do not fit together.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        counts: Sequence[int] | npt.NDArray[np.int64],
        specials: Mapping[str, str] | None = None,
    ) -> None:
        self.tokens: WordTable = tokens if isinstance(tokens, WordTable) else WordTable(tokens)
        given = np.asarray(counts, dtype=np.int64)
        self.counts: npt.NDArray[np.int64] = given.copy() if given.flags.writeable or given.base is not None else given
        self.counts.flags.writeable = False
        self.specials: dict[str, str] = dict(specials or {})
        if self.counts.shape != (len(self.tokens),):
            raise VocabError(f"{len(self.tokens)} tokens have {self.counts.size} counts; expected one for each")
        distinct = set(self.tokens)
        if len(distinct) != len(self.tokens):
            raise VocabError(f"the token {_duplicate(self.tokens)!r} occurs twice in the vocabulary")
        if "" in self.specials.values():
            raise VocabError("a special token of the vocabulary is empty")
        if self.counts.size and self.counts.min() < 0:
            worst = int(self.counts.argmin())
            raise VocabError(f"the token {self.tokens[worst]!r} has the count {self.counts[worst]}")
        first = list(dict.fromkeys(self.specials.values()))  # one token may have two roles
        if self.tokens[: len(first)] != first:
            raise VocabError(
                f"special tokens come first and in order: expected {first}, found {list(self.tokens[: len(first)])}"
            )

    @classmethod
    def from_counts(
        cls,
        tokens: Sequence[str],
        counts: Sequence[int] | npt.NDArray[np.int64],
        *,
        min_count: int,
        max_size: int | None = None,
        specials: Mapping[str, str] | None = None,
    ) -> "Vocab":
        """Keeps the frequent types of a corpus, most frequent first; equal counts stay in the order given.

        Args:
            tokens: Distinct types.
            counts: Their counts; fastest when descending, as an encoded corpus has them.
            min_count: Types seen fewer times are left out; special tokens never are.
            max_size: The most tokens the vocabulary may have, special ones included.
            specials: Role to token. One that also is a type of the corpus keeps its count.

        Raises:
            VocabError: if no type is left.
        """
        seen = np.asarray(counts, dtype=np.int64)
        if seen.shape != (len(tokens),):
            raise VocabError(f"{len(tokens)} tokens have {seen.size} counts; expected one for each")
        if np.any(seen[1:] > seen[:-1]):
            order = np.argsort(-seen, kind="stable")
            seen, tokens = seen[order], [tokens[place] for place in order.tolist()]
        frequent = int(np.searchsorted(-seen, -min_count, side="right"))
        if frequent == 0:
            raise VocabError(_nothing_left(seen, min_count))
        special = dict.fromkeys((specials or {}).values(), 0)
        most = frequent if max_size is None else min(frequent, max(0, max_size - len(special)))
        if not special:
            kept, kept_counts = tokens[:most], seen[:most] if most < seen.size else seen
        else:
            special |= {t: int(count) for t, count in zip(tokens, seen, strict=True) if t in special}
            words = [place for place, token in enumerate(tokens[:frequent]) if token not in special][:most]
            kept = [*special, *(tokens[place] for place in words)]
            kept_counts = np.concatenate([list(special.values()), seen[words]])
        if len(kept) <= len(special):
            raise VocabError(f"max_size={max_size} leaves no words beside {len(special)} special tokens")
        return cls(kept, kept_counts, specials)

    def grow(
        self, tokens: Sequence[str], counts: Sequence[int] | npt.NDArray[np.int64], *, min_count: int = 1
    ) -> "Vocab":
        """Returns the vocabulary after more text: ids never move, new tokens follow in the order given.

        Args:
            tokens: Types of the new text, known and new.
            counts: How often the new text has each; added to the counts of known tokens.
            min_count: New tokens seen fewer times are left out.
        """
        if len(tokens) != len(counts):
            raise VocabError(f"{len(tokens)} tokens have {len(counts)} counts; expected one for each")
        total = self.counts.tolist()
        added: list[str] = []
        for token, count in zip(tokens, map(int, counts), strict=True):
            known = self._ids.get(token)
            if known is not None:
                total[known] += count
            elif count >= min_count:
                added.append(token)
                total.append(count)
        return Vocab([*self.tokens, *added], total, self.specials)

    @cached_property
    def _ids(self) -> dict[str, int]:
        """Made by the first look-up: it takes more memory than all the rest, and training does not need it."""
        return {token: number for number, token in enumerate(self.tokens)}

    def index(self, token: str) -> int:
        """Returns the id of ``token``.

        Raises:
            VocabError: if the vocabulary lacks it; the message names the nearest token.
        """
        number = self._ids.get(token)
        if number is None:
            # Only frequent words are offered, as comparing with a million would take seconds.
            near = nearest_name(token, self.tokens[:50_000]) if len(token) <= 100 else ""
            raise VocabError(f"{token!r} is not in the vocabulary of {len(self)} tokens{near}")
        return number

    @overload
    def get(self, token: str) -> int | None: ...
    @overload
    def get(self, token: str, default: int) -> int: ...
    def get(self, token: str, default: int | None = None) -> int | None:
        """Returns the id of ``token``, or ``default`` if the vocabulary lacks it."""
        return self._ids.get(token, default)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocab):
            return NotImplemented
        return (
            self.tokens == other.tokens
            and self.specials == other.specials
            and bool(np.array_equal(self.counts, other.counts))
        )

    def __repr__(self) -> str:
        return f"Vocab({len(self)} tokens, {len(self.specials)} of them special)"

    def save(self, path: str | Path) -> None:
        """Writes ``path`` (usually ``vocab.json``), whole or not at all."""
        counts = self.counts
        try:
            with writing(path) as file:
                file.write(b'{"version":1,"specials":' + _json(self.specials) + b',"tokens":[')
                _write_items(file, (list(self.tokens[start : start + _BLOCK]) for start in range(0, len(self), _BLOCK)))
                file.write(b'],"counts":[')
                _write_items(file, (counts[start : start + _BLOCK].tolist() for start in range(0, len(self), _BLOCK)))
                file.write(b"]}")
        except UnicodeEncodeError as error:
            raise VocabError(f"{path}: a token cannot be written as UTF-8 ({error.object[error.start]!r})") from None

    @classmethod
    def load(cls, path: str | Path) -> "Vocab":
        """Reads what :meth:`save` wrote.

        Raises:
            FormatError: if the file is missing, or is not a whole and consistent vocabulary.
        """
        try:
            content = json.loads(plain_file(path).read_bytes())
        except OSError as error:
            raise FormatError(f"{path}: cannot be read ({error.strerror})") from None
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{path}: is not a vocabulary in JSON: {error}") from None
        tokens, counts, specials = _fields(content, path)
        try:
            return cls(tokens, counts, specials)
        except VocabError as error:
            raise FormatError(f"{path}: {error}") from None
        except OverflowError:
            raise FormatError(f"{path}: a count needs more than 64 bits") from None


def _fields(content: Any, path: str | Path) -> tuple[list[str], list[int], dict[str, str]]:  # noqa: ANN401  JSON
    """Returns the parts of a vocabulary file after checking their types."""
    if not isinstance(content, dict) or content.get("version") != 1:
        raise FormatError(f"{path}: is not a vocabulary of version 1")
    tokens, counts, specials = content.get("tokens"), content.get("counts"), content.get("specials")
    if not isinstance(tokens, list) or not all(type(token) is str for token in tokens):
        raise FormatError(f"{path}: 'tokens' is not a list of strings")
    if not isinstance(counts, list) or not all(type(count) is int for count in counts):
        raise FormatError(f"{path}: 'counts' is not a list of whole numbers")
    if not isinstance(specials, dict) or not all(type(token) is str for token in specials.values()):
        raise FormatError(f"{path}: 'specials' does not map roles to tokens")
    return tokens, counts, specials


def _json(value: object) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:  # words of foreign models may have bytes that are not UTF-8, kept by "surrogateescape"
        return _ESCAPED_BYTE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()


def _write_items(file: BinaryIO, blocks: Iterable[list[Any]]) -> None:
    """Writes the items of lists as those of one JSON array, without its brackets."""
    for number, block in enumerate(blocks):
        file.write((b"," if number else b"") + _json(block)[1:-1])


def _duplicate(tokens: Iterable[str]) -> str:
    return Counter(tokens).most_common(1)[0][0]


def _nothing_left(seen: npt.NDArray[np.int64], min_count: int) -> str:
    if not seen.size:
        return "there are no words to make a vocabulary of: the corpus is empty"
    highest = int(seen[0])
    return (
        f"none of {seen.size} different words occurs min_count={min_count} times: the most frequent occurs "
        f"{highest} {'time' if highest == 1 else 'times'}. Use more text, or min_count={highest} or less; if "
        "the words are not what was meant, choose the segmentation (segment=words, characters or chinese)"
    )
