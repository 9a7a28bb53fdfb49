"""Occurrences of words in the sentences of a corpus, of each word at most so many, spread evenly over the text.

The text is read once, sentence by sentence, into a temporary file, while words are counted; then the sentences are read
again with the occurrences that were chosen. Memory grows with the number of different words only. The choice depends on
the text and the settings alone: of a word that occurs n times, k are the ones at which ``i·k/n`` reaches the next whole
number.
"""

import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple, Self

from annotated_types import Ge
from typing_extensions import Doc

from wenmai.core.errors import CorpusError, RunError
from wenmai.core.folder import cache_folder, make_folder
from wenmai.data.corpus import Corpus
from wenmai.data.documents import CorpusStats
from wenmai.data.sources import open_texts
from wenmai.text.segment import token_spans
from wenmai.text.sentences import sentences
from wenmai.text.settings import BadLines, Lowercase, Segmentation, TextConfig
from wenmai.text.unspaced import find_unspaced

__all__ = [
    "LONGEST",
    "Occurrence",
    "OccurrenceConfig",
    "Occurrences",
    "SentenceWords",
    "spans_of",
    "suited",
]

LONGEST = 1000
"""Characters of the longest sentence; a longer one is cut at white space, so that memory does not grow with it."""

Progress = Callable[[int, int | None], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class OccurrenceConfig:
    """Which occurrences of words are taken, and which states of an encoder."""

    layer: Annotated[
        str | None,
        Doc("whose states are taken: last, last4, or numbers such as -1 or 3,4; 0: the input; none: last, ELMo: mix"),
    ] = None
    segment: Annotated[
        Segmentation | None,
        Doc("how sentences become words, as for training; none: words, or what suits text without spaces"),
    ] = None
    lowercase: Annotated[Lowercase, Doc("Bank and bank are one word; the encoder reads the text as it is")] = True
    min_count: Annotated[int, Ge(1), Doc("words that occur fewer times than this are left out")] = 5
    max_occurrences: Annotated[
        int | None, Ge(1), Doc("occurrences of a word that are read, spread evenly over the text; none: all")
    ] = 100
    encoding: Annotated[str, Doc("character encoding of the files")] = "utf-8"
    bad_lines: Annotated[BadLines, Doc("a line that cannot be decoded: error, or skip it")] = "error"


class Occurrence(NamedTuple):
    """A word in a sentence.

    Attributes:
        word: As words are counted.
        start: Where it begins in the sentence, in characters.
        end: Where it ends.
    """

    word: str
    start: int
    end: int


class SentenceWords(NamedTuple):
    """A sentence, and the occurrences in it that were chosen, in order; at least one."""

    text: str
    words: list[Occurrence]


def spans_of(text: str, word: str, segment: Segmentation) -> list[tuple[int, int]]:
    """Returns where a word, or several with spaces between them, stands in a text; in any case if not as written."""
    tokens = token_spans(text, segment)
    starts, ends = {low for low, _ in tokens}, {high for _, high in tokens}

    def places(text: str, word: str) -> Iterator[tuple[int, int]]:
        low = text.find(word)
        while low >= 0:
            if low in starts and low + len(word) in ends:
                yield low, low + len(word)
            low = text.find(word, low + 1)

    if not word:
        return []
    return [*places(text, word)] or [*places(_folded(text), _folded(word))]


def _folded(text: str) -> str:
    """Returns a text in lower case, of the same length: İ would become two characters."""
    return "".join(lower if len(lower := one.lower()) == 1 else one for one in text)


def suited(config: OccurrenceConfig, sample: str) -> OccurrenceConfig:
    """Returns the settings with a segmentation: the one chosen, or the one that fits a text."""
    if config.segment is not None:
        return config
    unspaced = find_unspaced(sample)
    return replace(config, segment="words" if unspaced is None else unspaced.segment)


class Occurrences:
    """The occurrences of words of a corpus that were chosen; a context, at whose end the temporary file goes.

    Args:
        corpus: Whatever names or holds text.
        config: Which occurrences.
        words: Only these words count, spelled as they are counted; None: all that occur often enough.
        progress: Called with the bytes of text that were read, and of how many.

    Attributes:
        config: The settings, with the segmentation that was chosen.
        counts: How often each word that is taken occurs, most frequent first.
        taken: How many occurrences are read.
        skipped_lines: How many lines were left out because of ``bad_lines=skip``.
        name: What the text is called.

    Raises:
        CorpusError: if the text cannot be read, or no word of it is taken.
        RunError: if the temporary file, which is in the cache, cannot be written.
    """

    def __init__(
        self,
        corpus: Any,  # noqa: ANN401  whatever holds text
        config: OccurrenceConfig,
        *,
        words: Collection[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        opened, hints, names = open_texts(corpus)
        suggested = {name.partition(".")[2]: value for name, value in hints.items()}
        text = TextConfig(**suggested | {"encoding": config.encoding, "bad_lines": config.bad_lines})
        self.name = ", ".join(names) or "text from memory"
        self.config = suited(config, opened.sample(text.encoding))
        self._wanted = None if words is None else frozenset(words)
        self._spool = _temporary_file()
        stats = CorpusStats()
        try:
            every = self._read(opened, text, stats, progress)
        except BaseException:
            self._spool.close()
            raise
        self.skipped_lines = stats.skipped_lines
        often = [(word, count) for word, count in every.items() if count >= self.config.min_count]
        self.counts = dict(sorted(often, key=lambda one: (-one[1], one[0])))
        most = self.config.max_occurrences
        self.taken = sum(count if most is None else min(count, most) for count in self.counts.values())
        if not self.counts and words is None:
            self._spool.close()
            if self.skipped_lines and not every:
                raise CorpusError(
                    f"{self.name}: has no words; {self.skipped_lines:,} lines cannot be read: name the right encoding"
                )
            if not every:
                raise CorpusError(f"{self.name}: has no words; a word has a letter or a digit")
            raise CorpusError(
                f"{self.name}: no word occurs {self.config.min_count} times (min_count); name a larger text, or a "
                "smaller min_count"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._spool.close()

    def _read(self, corpus: Corpus, text: TextConfig, stats: CorpusStats, progress: Progress | None) -> Counter[str]:
        counts: Counter[str] = Counter()
        with _named_faults(cache_folder()):
            for sentence in _sentences(corpus, text, stats, progress):
                self._spool.write(sentence.encode() + b"\n")
                counts.update(one.word for one in self._words(sentence))
            self._spool.flush()
        return counts

    def _words(self, sentence: str) -> Iterator[Occurrence]:
        """Yields the tokens that are words: those with a letter or a digit."""
        segment, lower, wanted = self.config.segment or "words", self.config.lowercase, self._wanted
        for low, high in token_spans(sentence, segment):
            token = sentence[low:high]
            word = token.lower() if lower else token
            if any(map(str.isalnum, token)) and (wanted is None or word in wanted):
                yield Occurrence(word, low, high)

    def __iter__(self) -> Iterator[SentenceWords]:
        seen: Counter[str] = Counter()
        most = self.config.max_occurrences
        self._spool.seek(0)
        for line in self._spool:
            text, chosen = line[:-1].decode(), []
            for one in self._words(text):
                count = self.counts.get(one.word)
                if count is None:
                    continue
                number = seen[one.word] = seen[one.word] + 1
                if most is None or count <= most or number * most // count > (number - 1) * most // count:
                    chosen.append(one)
            if chosen:
                yield SentenceWords(text, chosen)


@contextmanager
def _named_faults(folder: Path) -> Iterator[None]:
    """Says where a disk is full."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"{folder}: cannot be written ({error.strerror}); set WENMAI_CACHE to a folder with space"
        ) from None


def _temporary_file() -> IO[bytes]:
    folder = cache_folder()
    with _named_faults(folder):
        make_folder(folder)
        return tempfile.TemporaryFile(dir=folder)


def _sentences(corpus: Corpus, text: TextConfig, stats: CorpusStats, progress: Progress | None) -> Iterator[str]:
    """Yields the sentences of a corpus, none longer than :data:`LONGEST`."""
    for line in corpus.lines(text, stats=stats, progress=progress):
        for sentence in sentences(line.text.replace("\r", " ")):
            rest = sentence
            while len(rest) > LONGEST:
                cut = rest.rfind(" ", 1, LONGEST)
                cut = cut if cut > 0 else LONGEST
                yield rest[:cut].strip()
                rest = rest[cut:].strip()
            if rest:
                yield rest
