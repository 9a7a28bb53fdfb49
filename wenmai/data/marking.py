"""The makers of marks: phrases that are mined in a text, and names of entities from a file.

See :mod:`wenmai.data.token_marks`.
"""

from collections.abc import Callable
from pathlib import Path

from wenmai.core.errors import CorpusError
from wenmai.data.corpus import Corpus, Progress
from wenmai.data.encoded_corpus import encode_corpus
from wenmai.data.encoded_text import EncodedText, LinesConfig
from wenmai.data.lines import text_lines
from wenmai.data.pretraining.settings import TasksConfig
from wenmai.data.token_marks import ENTITY, PHRASE, EntityFinder, Marker
from wenmai.text.names import NameMatcher, codes_of, in_words
from wenmai.text.settings import Segmentation, TextConfig

__all__ = ["MakeMarker", "marker_of", "mined_phrases", "read_names", "require_found"]

MakeMarker = Callable[[Corpus, LinesConfig, Progress | None], Marker | None]
"""Makes what marks a text, which may have to be read for it; None: nothing does."""


def marker_of(
    config: TasksConfig,
    bits: int,
    corpus: Corpus,
    lines: LinesConfig,
    *,
    finder: EntityFinder | None = None,
    found_by: str = "",
    progress: Progress | None = None,
) -> Marker | None:
    """Returns what makes the marks that the tasks of a training need; None if they need none.

    Args:
        config: Where phrases and entities are from.
        bits: The marks that are needed.
        corpus: The text, in which phrases are mined; one that can be read repeatedly.
        lines: How it is read.
        finder: Finds entities, in place of the run that the settings name.
        found_by: All that these entities depend on.
        progress: Called with the bytes read so far.

    Raises:
        CorpusError: if the file of names cannot be read, or has no name.
        SettingError: if nothing says what the entities are, or a setting of entities or phrases has no effect.
    """
    config.require_marks(bits)
    if not bits:
        return None
    segment: Segmentation = "chinese" if config.language == "chinese" else "words"
    names = None if config.entities_list is None else read_names(Path(config.entities_list))
    phrases = (
        mined_phrases(corpus, config, lines, segment, progress) if config.mines_phrases and bits & PHRASE else None
    )
    sources = [] if names is None else [f"the names of {config.entities_list}"]
    sources += [] if finder is None else [f"the tagger {config.entities_run}"]
    sources += ["inline marks such as [[name]]"] if config.entities_inline else []
    return Marker(
        bits=bits,
        segment=segment,
        phrases=phrases,
        names=names,
        inline=config.entities_inline,
        finder=finder,
        found_by=found_by,
        source=" or ".join(sources),
    )


def require_found(text: EncodedText, marker: Marker, what: str) -> None:
    """Makes sure that a text, which the message calls ``what``, has entities if these were looked for.

    Raises:
        CorpusError: if none was found.
    """
    if marker.bits & ENTITY and text.marked is not None and not text.marked.entities:
        raise CorpusError(
            f"{what}: no entity was found in the text by {marker.source}; upper and lower case are different, and a "
            "name has to be written as in the text. Leave out the task entities if there is none"
        )


def read_names(path: Path) -> NameMatcher:
    """Reads names, one a line.

    Raises:
        CorpusError: if the file cannot be read, is no text, or has no name.
    """
    matcher = NameMatcher([line for _, line in text_lines(path)])
    if not matcher.names:
        raise CorpusError(f"{path}: has no name; expected one a line")
    return matcher


def mined_phrases(
    corpus: Corpus, config: TasksConfig, lines: LinesConfig, segment: Segmentation, progress: Progress | None = None
) -> NameMatcher:
    """Returns the phrases of several words that a text has; see :mod:`wenmai.text.phrases`.

    Raises:
        CorpusError: if the text cannot be read.
    """
    base = TextConfig(
        format=lines.format, encoding=lines.encoding, bad_lines=lines.bad_lines, lowercase=True, segment=segment
    )
    words = set(encode_corpus(corpus, base, progress=progress).words)
    with_phrases = TextConfig(
        format=lines.format,
        encoding=lines.encoding,
        bad_lines=lines.bad_lines,
        lowercase=True,
        segment=segment,
        phrases=config.phrases_passes,
        phrase_threshold=config.phrases_threshold,
        phrase_min_count=config.phrases_min_count,
    )
    found = set(encode_corpus(corpus, with_phrases, progress=progress).words) - words
    return NameMatcher(filter(None, map(_spelled, found)), fold=True)


def _spelled(phrase: str) -> str:
    """Returns a phrase as a text has it; nothing if there are punctuation marks in it."""
    words = phrase.split("_")
    if not all(word and word[0].isalnum() for word in words):
        return ""
    text = words[0]
    for word in words[1:]:
        text += " " * bool(in_words(codes_of(text[-1] + word[0])).all()) + word
    return text
