"""Words and their vectors in rows: looked up, added and changed, with attributes such as counts beside them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import TypeIs

from wenmai.core.errors import SettingError, VocabError
from wenmai.vectors.errors import UnknownAttributeError, UnknownWordError
from wenmai.vectors.lengths import Vector, inverse, lengths_of, unit

__all__ = ["Key", "VectorTable", "is_key"]

Key = str | int | np.integer

COUNT = "count"  # the attribute that holds how often a word occurred


class VectorTable:
    """Words, one row of numbers for each, and attributes.

    Wherever a word is asked for, the number of its row does too. ``vectors`` is read-only: it may be a view of the
    array that was given. What is added or changed goes into a copy that belongs to the table.

    Attributes:
        index_to_key: the words, in row order.
        key_to_index: the row number of each word.
        norms: (V,) float32, the length of each vector.
        expandos: attributes of words by name, each an array (V, ...), as :meth:`set_vecattr` makes them.
    """

    index_to_key: list[str]
    key_to_index: dict[str, int]

    def __init__(self, keys: Iterable[str], vectors: ArrayLike, counts: ArrayLike | None = None) -> None:
        self.index_to_key = list(keys)
        self.key_to_index = _numbered(self.index_to_key)
        self.expandos: dict[str, NDArray[np.generic]] = {}
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        if counts is not None:
            numbers = np.array(counts, dtype=np.int64)
            if numbers.shape != (len(self),):
                raise VocabError(f"counts of shape {numbers.shape} do not fit {len(self)} words; one each is expected")
            self.expandos[COUNT] = numbers

    # --- looking up ---------------------------------------------------------------------------------------------

    @property
    def vectors(self) -> Vector:
        """The numbers (V, d), read-only; another array of V rows can be set."""
        return self._vectors

    @vectors.setter
    def vectors(self, rows: ArrayLike) -> None:
        given = np.ascontiguousarray(rows, dtype=np.float32)
        if given.ndim != 2 or len(given) != len(self) or given.shape[1] == 0:
            raise VocabError(
                f"vectors of shape {given.shape} do not fit {len(self)} words; expected (words, dimensions)"
            )
        self.norms: Vector = _finite_lengths(given, self.index_to_key)
        self._inverse_norms = inverse(self.norms)
        self._buffer: Vector | None = None  # rows that belong to the table, and room for more
        self._show(given)

    @property
    def vector_size(self) -> int:
        """The number of dimensions d."""
        return int(self._vectors.shape[1])

    @property
    def counts(self) -> NDArray[np.int64] | None:
        """(V,) how often each word occurred in the training text, or None if that is unknown."""
        found = self.expandos.get(COUNT)
        return None if found is None else found.astype(np.int64, copy=False)

    def __len__(self) -> int:
        return len(self.index_to_key)

    def __contains__(self, key: object) -> bool:
        return key in self.key_to_index if isinstance(key, str) else is_key(key) and 0 <= int(key) < len(self)

    def __iter__(self) -> Iterator[str]:
        return iter(self.index_to_key)

    @overload
    def __getitem__(self, words: Key) -> Vector: ...
    @overload
    def __getitem__(self, words: Sequence[Key]) -> Vector: ...
    def __getitem__(self, words: Key | Sequence[Key]) -> Vector:
        """Returns the vector (d,) of a word, or the vectors (n, d) of a list of words."""
        if is_key(words) or not isinstance(words, Iterable):
            return self.get_vector(words)
        return self.get_vectors(words)

    def get_index(self, key: Key, default: int | None = None) -> int:
        """Returns the row number of a word.

        Args:
            key: a word, or a row number, which is returned as it is.
            default: what to return for an unknown one instead of raising.

        Raises:
            UnknownWordError: if it has no row.
        """
        if key in self:
            return self.key_to_index[key] if isinstance(key, str) else int(key)
        if default is None:
            raise UnknownWordError(key, self.key_to_index)
        return default

    def has_index_for(self, key: Key) -> bool:
        """Whether a word has a row of its own; an unseen word can have a vector without one."""
        return key in self

    def has_vector(self, word: Key) -> bool:
        """Whether :meth:`get_vector` has something to return."""
        return word in self

    def get_vector(self, word: Key, norm: bool = False) -> Vector:
        """Returns the vector (d,) of a word, scaled to length 1 if ``norm``.

        Raises:
            UnknownWordError: if it has none.
        """
        index = self.get_index(word)
        return self.unit_vectors(index) if norm else self._vectors[index]

    def get_vectors(self, words: Iterable[Key], norm: bool = False) -> Vector:
        """Returns the vectors (n, d) of words, scaled to length 1 if ``norm``."""
        rows = [self.get_index(word) for word in words]
        return self.unit_vectors(rows) if norm else self._vectors[rows]

    def unit_vectors(self, rows: int | slice | NDArray[np.int64] | Sequence[int]) -> Vector:
        """Returns a copy of the given rows, each scaled to length 1 (zero vectors stay zero)."""
        return self._vectors[rows] * self._inverse_norms[rows, ..., None]

    def get_normed_vectors(self) -> Vector:
        """Returns a copy (V, d) of all vectors, each scaled to length 1 (zero vectors stay zero)."""
        return self.unit_vectors(slice(None))

    def get_mean_vector(
        self,
        keys: Sequence[Key | NDArray[np.floating]],
        weights: ArrayLike | None = None,
        pre_normalize: bool = True,
        post_normalize: bool = False,
        ignore_missing: bool = True,
    ) -> Vector:
        """Returns the weighted mean (d,) of words and vectors; weights count by their absolute value.

        Args:
            keys: words, or vectors (d,), which are taken as they are.
            weights: one number per key; all 1 if not given.
            pre_normalize: scale the vectors of words to length 1 first.
            post_normalize: scale the mean to length 1.
            ignore_missing: leave words without a vector out instead of raising.

        Raises:
            SettingError: if there are no keys, not as many weights, or one that is not finite.
            UnknownWordError: for a missing word, unless those are ignored.
        """
        if len(keys) == 0:
            raise SettingError("a mean needs at least one word or vector, got none")
        factors = np.ones(len(keys)) if weights is None else np.asarray(weights, dtype=np.float64)
        if factors.shape != (len(keys),):
            raise SettingError(f"{len(keys)} words or vectors need as many weights, got shape {factors.shape}")
        if not np.isfinite(factors).all():
            raise SettingError(f"weights must be finite numbers, got {factors[~np.isfinite(factors)][0]}")
        mean = np.zeros(self.vector_size)
        total = 0.0
        for key, factor in zip(keys, factors.tolist(), strict=True):
            if is_key(key) and ignore_missing and not self.has_vector(key):
                continue
            mean += factor * (self.get_vector(key, pre_normalize) if is_key(key) else self._vector(key))
            total += abs(factor)
        if total > 0:
            mean /= total
        return unit(mean) if post_normalize else mean.astype(np.float32)

    def _vector(self, vector: object) -> NDArray[np.float64]:
        """A vector that a caller gave, checked."""
        try:
            row = np.asarray(vector, dtype=np.float64)
        except (TypeError, ValueError):
            raise SettingError(f"expected a word or a vector, got {vector!r:.80}") from None
        if row.shape != (self.vector_size,) or not np.isfinite(row).all():
            raise SettingError(f"expected a finite vector of shape ({self.vector_size},), got {row.shape}")
        return row

    # --- adding and changing ------------------------------------------------------------------------------------

    def add_vector(self, key: str, vector: ArrayLike) -> int:
        """Adds a word and its vector (d,), unless the word is there; returns its row number."""
        self.add_vectors([key], np.asarray(vector, dtype=np.float32)[None])
        return self.key_to_index[key]

    def add_vectors(
        self,
        keys: Key | Sequence[Key],
        weights: ArrayLike,
        extras: Mapping[str, ArrayLike] | None = None,
        replace: bool = False,
    ) -> None:
        """Adds words and their vectors.

        Args:
            keys: a word, or n of them.
            weights: their vectors, (d,) or (n, d).
            extras: attributes of the words, arrays (n, ...) by name.
            replace: change the vectors and attributes of words that are there; otherwise they stay as they are.

        Raises:
            VocabError: if shapes do not fit, a value is not finite, or a new word is not text. Nothing is added then.
            SettingError: if the type of an attribute differs from what it has.
        """
        words: Sequence[Key] = [keys] if is_key(keys) else list(keys)
        if not words:
            return
        rows = np.asarray(weights, dtype=np.float32)
        rows = rows.reshape(1, -1) if is_key(keys) else rows
        if rows.shape != (expected := (len(words), self.vector_size)):
            raise VocabError(f"vectors of shape {rows.shape} for {len(words)} words; expected {expected}")
        lengths = _finite_lengths(rows, words)
        more = {name: np.asarray(values) for name, values in (extras or {}).items()}
        for name, values in more.items():
            if values.shape[:1] != (len(words),):
                given = values.size if values.ndim < 2 else len(values)
                raise VocabError(f"the attribute {name!r} has {given} values for {len(words)} words")
            found = self.expandos.get(name)
            if found is not None and found.shape[1:] != values.shape[1:]:
                raise VocabError(
                    f"the attribute {name!r} has values of shape {found.shape[1:]}, which {values.shape[1:]} is not"
                )
        places: dict[str, int] = {}  # the place in `words` of each new one
        known: dict[int, int] = {}  # the place in `words` of each row that is there
        for place, word in enumerate(words):
            if word in self:
                known[self.get_index(word)] = place
            elif isinstance(word, str):
                places[word] = place if replace or word not in places else places[word]
            else:
                raise VocabError(f"a new word must be text, got {word!r}; a number stands for a row that is there")
        unset = [name for name in more if name not in self.expandos]
        self.allocate_vecattrs(list(more), [values.dtype for values in more.values()])
        for name in unset:
            self.expandos[name] = np.zeros((len(self), *more[name].shape[1:]), self.expandos[name].dtype)
        new, first = list(places.values()), len(self)
        for word in places:
            self.key_to_index[word] = len(self.index_to_key)
            self.index_to_key.append(word)
        self._append(rows[new], lengths[new])
        self.allocate_vecattrs()
        for name, values in more.items():
            self.expandos[name][first:] = values[new]
        if replace and known:
            changed, sources = list(known), list(known.values())
            self._owned()[changed] = rows[sources]
            self.norms[changed] = lengths[sources]
            self._inverse_norms[changed] = inverse(lengths[sources])
            for name, values in more.items():
                self.expandos[name][changed] = values[sources]

    def __setitem__(self, keys: Key | Sequence[Key], weights: ArrayLike) -> None:
        """Adds words and vectors, or changes the vectors of words that are there."""
        self.add_vectors(keys, weights, replace=True)

    def unit_normalize_all(self) -> None:
        """Scales all vectors to length 1 (zero vectors stay zero)."""
        self.vectors = self.get_normed_vectors()

    def fill_norms(self, force: bool = False) -> None:
        """Computes the lengths anew if ``force``, which only an array that changed under the table needs."""
        if force:
            self.vectors = self._vectors

    def resize_vectors(self, seed: int = 0) -> None:
        """Draws a vector, uniformly from ±1/d, for each word that was appended to ``index_to_key`` without one."""
        rows = np.random.default_rng(seed).random((len(self), self.vector_size), np.float32)
        rows = (rows * np.float32(2) - np.float32(1)) / np.float32(self.vector_size)
        kept = min(len(rows), len(self._vectors))
        rows[:kept] = self._vectors[:kept]
        self.vectors = rows
        self.allocate_vecattrs()

    def sort_by_descending_frequency(self) -> None:
        """Puts the words in order of their counts; of equal counts the last comes first, as gensim has it.

        Raises:
            UnknownAttributeError: if there are no counts.
        """
        counts = self._attribute(COUNT)
        order = np.lexsort((-np.arange(len(self)), -counts.astype(np.int64)))
        self.index_to_key = [self.index_to_key[row] for row in order.tolist()]
        self.key_to_index = _numbered(self.index_to_key)
        self.expandos = {name: values[order] for name, values in self.expandos.items()}
        self.vectors = self._vectors[order]

    def _owned(self) -> Vector:
        """The rows, in memory of the table's own."""
        if self._buffer is None:
            self._buffer = self._vectors.copy()
            self._show(self._buffer)
        return self._buffer[: len(self._vectors)]

    def _append(self, rows: Vector, lengths: Vector) -> None:
        """Adds rows; adding one at a time copies the table now and then, not each time."""
        size, wanted = len(self._vectors), len(self._vectors) + len(rows)
        if not len(rows):
            return
        if self._buffer is None or wanted > len(self._buffer):
            room = wanted if self._buffer is None else max(wanted, size + size // 2)
            self._buffer = np.empty((room, self.vector_size), np.float32)
            self._buffer[:size] = self._vectors
        self._buffer[size:wanted] = rows
        self._show(self._buffer[:wanted])
        self.norms = np.concatenate([self.norms, lengths])
        self._inverse_norms = np.concatenate([self._inverse_norms, inverse(lengths)])

    def _show(self, rows: Vector) -> None:
        self._vectors: Vector = rows.view()
        self._vectors.setflags(write=False)

    # --- attributes ---------------------------------------------------------------------------------------------

    def set_vecattr(self, key: Key, attr: str, val: float | str | np.generic) -> None:
        """Sets an attribute of a word; other words have zero, or nothing for text, until it is set.

        Raises:
            UnknownWordError: if the word has no row.
            SettingError: if the attribute has values of another type.
        """
        row = self.get_index(key)
        self.allocate_vecattrs([attr], [type(val)])
        self.expandos[attr][row] = val

    def get_vecattr(self, key: Key, attr: str) -> object:
        """Returns an attribute of a word, such as its ``count``.

        Raises:
            UnknownWordError: if the word has no row.
            UnknownAttributeError: if no word has the attribute.
        """
        row = self.get_index(key)
        value: object = self._attribute(attr)[row]
        return value

    def allocate_vecattrs(
        self, attrs: Sequence[str] | None = None, types: Sequence[type | np.dtype[np.generic]] | None = None
    ) -> None:
        """Gives attributes an array with a value for each word.

        Args:
            attrs: their names; if None, those that are there become as long as the table.
            types: their types, such as int, float or str.

        Raises:
            SettingError: if an attribute is there with another type.
        """
        names = list(self.expandos) if attrs is None else attrs
        kinds = [self.expandos[name].dtype for name in names] if attrs is None or types is None else types
        for name, kind in zip(names, kinds, strict=True):
            wanted = np.dtype(object if kind is str else kind)
            if wanted.kind in "USOV":
                wanted = np.dtype(object)  # numpy's own text takes the length of the longest for each
            found = self.expandos.get(name)
            if found is None:
                self.expandos[name] = np.zeros(len(self), wanted)
                continue
            if not np.can_cast(wanted, found.dtype):
                raise SettingError(f"the attribute {name!r} has values of type {found.dtype}, which {wanted} is not")
            if len(found) != len(self):
                longer = np.zeros((len(self), *found.shape[1:]), found.dtype)
                longer[: len(found)] = found[: len(self)]
                self.expandos[name] = longer

    def _attribute(self, name: str) -> NDArray[np.generic]:
        if name not in self.expandos:
            known = ", ".join(self.expandos) or "none"
            raise UnknownAttributeError(f"the words have no attribute {name!r} (they have: {known})")
        return self.expandos[name]


def is_key(value: object) -> TypeIs[Key]:
    """Whether something is a word or a row number."""
    return isinstance(value, str | int | np.integer)


def _numbered(words: Sequence[str]) -> dict[str, int]:
    """The row number of each word; all must be text and different."""
    others = {kind.__name__ for kind in set(map(type, words)) if not issubclass(kind, str)}
    if others:
        raise VocabError(f"words must be text, got words of type {', '.join(sorted(others))}")
    numbers = dict(zip(words, range(len(words)), strict=True))
    if len(numbers) != len(words):
        first = next(row for row, word in enumerate(words) if numbers[word] != row)
        raise VocabError(f"the word {words[first]!r} occurs twice, in rows {first} and {numbers[words[first]]}")
    return numbers


def _finite_lengths(rows: Vector, words: Sequence[Key]) -> Vector:
    lengths = lengths_of(rows)
    if not np.isfinite(lengths).all():
        first = int(np.argmin(np.isfinite(lengths)))
        raise VocabError(
            f"the vector of {words[first]!r} (row {first}) has no finite length: its largest value is "
            f"{np.abs(rows[first]).max()}; was it trained with too high a learning rate?"
        )
    return lengths
