"""Words in context: an index of occurrences, their neighbours, and static vectors made of them."""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import tee
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wenmai.config.recipe import Recipe, settings_of
from wenmai.core.errors import FormatError, RunError, SettingError, nearest_name, require_list
from wenmai.core.folder import MANIFEST, file_sha256
from wenmai.core.quantities import counted
from wenmai.core.wording import say
from wenmai.data.occurrences import OccurrenceConfig, Occurrences, SentenceWords, spans_of
from wenmai.formats.format import Imported
from wenmai.formats.word2vec import write_word2vec
from wenmai.models.word2vec import Word2Vec, Word2VecConfig
from wenmai.runs.formats import adopt_run
from wenmai.runs.owner import require_room
from wenmai.text.segment import token_spans
from wenmai.text.vocab import Vocab
from wenmai.training.callback import Callback
from wenmai.training.progress import following
from wenmai.training.run import Run
from wenmai.vectors.lengths import Vector
from wenmai.vectors.occurrence_index import Found, OccurrenceIndex, require_no_folder, write_index
from wenmai.vectors.word_vectors import WordVectors

__all__ = [
    "INDEX_SETTINGS",
    "default_index",
    "distil",
    "fingerprint",
    "has_words_in_context",
    "index",
    "index_settings",
    "mean_states",
    "nearest_in_context",
    "occurrence_settings",
    "reader_for",
    "vectors_in_context",
]

_FILES = {".txt": False, ".vec": False, ".bin": True}  # whether they are binary
INDEX_SETTINGS = {"min_count": 1, "max_occurrences": 1000}
"""What :func:`index` takes unless it is told otherwise."""


def occurrence_settings(settings: dict[str, Any]) -> OccurrenceConfig:
    """Returns settings after a check.

    Raises:
        SettingError: for an unknown one, or a value that makes no sense.
    """
    sections: dict[str, type] = {"occurrences": OccurrenceConfig}
    known = [one.name for one in settings_of(sections)]
    for name in settings:
        if name not in known:
            raise SettingError(
                f"there is no setting {name!r}{nearest_name(name, known)} (settings: {', '.join(known)})"
            )
    if "layer" in settings and settings["layer"] is not None:
        settings = settings | {"layer": str(settings["layer"])}
    found: OccurrenceConfig = Recipe.build("occurrences", sections, settings).sections["occurrences"]
    return found


def has_words_in_context(run: Run) -> bool:
    """Whether the model of a run gives words vectors that depend on their sentences."""
    if {"nearest", "translate"} & set(run.task.verbs) or not hasattr(run.model, "module"):
        return False
    from wenmai.inference.contextual import has_context

    return has_context(run.model)


def reader_for(run: Run, layer: str | None) -> Any:  # noqa: ANN401  a Reader
    """Returns how the states of words in context are read from the model of a run.

    Raises:
        RunError: if each of its words has one vector in all sentences, or none.
        SettingError: if there is no such layer.
    """
    if has_words_in_context(run):
        from wenmai.inference.contextual import reader_of

        return reader_of(run.model, layer)
    raise RunError(
        f"{run.path}: is a run of {run.recipe.system}, which has no words in context; name one of bert, elmo or "
        "gpt, or an imported encoder"
    )


def fingerprint(run: Run) -> str:
    """Returns what identifies the model of a run: the SHA-256 of the checksums of its files."""
    manifest = run.model_folder / MANIFEST
    if not manifest.is_file():
        raise RunError(f"{manifest} is missing: the folder was never finished")
    return file_sha256(manifest)


def index(
    run: str | Path | Run,
    corpus: Any,  # noqa: ANN401  whatever holds text
    *,
    out: str | Path | None = None,
    device: str | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
    **settings: Any,  # noqa: ANN401  of OccurrenceConfig
) -> OccurrenceIndex:
    """Makes an index of the occurrences of words in a text, as ``wenmai index`` does.

    Args:
        run: A run of an encoder, or its folder.
        corpus: The text, named as for training.
        out: The folder to make; None: :func:`default_index`.
        device: Where the encoder computes; see :class:`~wenmai.training.run.Run`.
        callback: Follows it; by default progress is printed on standard error.
        quiet: Print no progress.
        **settings: The fields of :class:`~wenmai.data.occurrences.OccurrenceConfig`; here all words are taken by
            default, of each at most 1000 occurrences.

    Raises:
        RunError: if the run has no words in context, or ``out`` exists.
        SettingError: for a wrong setting.
        CorpusError: if the text cannot be read.
    """
    config = occurrence_settings(INDEX_SETTINGS | settings)
    opened = Run.of(run, device)
    target = require_no_folder(default_index(run) if out is None else out)
    reader = reader_for(opened, config.layer)
    with (
        following(callback, quiet=quiet) as follower,
        Occurrences(corpus, config, progress=follower.encoding_corpus) as found,
    ):
        _note_skipped(found, follower)
        rows = (
            (one.text, [word[1:] for word in one.words], states.mean(0))
            for one, states in _read(reader, found, follower.evaluating)
        )
        facts = {
            "corpus": found.name,
            "model": fingerprint(opened),
            "run": str(opened.path),
            "settings": asdict(found.config) | {"layer": reader.layer},
        }
        write_index(target, rows, reader.encoder.vector_size, facts)
    return OccurrenceIndex(target)


def default_index(run: str | Path | Run) -> Path:
    """Where the index of a run is unless another place is named: beside it."""
    path = run.path if isinstance(run, Run) else Path(run)
    if path.name in ("", ".."):  # of the folder where one stands, or above
        path = Path(os.path.abspath(path))
    return path.with_name(f"{path.name}-index")


def index_settings(index: OccurrenceIndex) -> OccurrenceConfig:
    """Returns how an index was made.

    Raises:
        FormatError: if it does not say so.
    """
    settings, found = index.facts.get("settings"), None
    if isinstance(settings, dict) and isinstance(settings.get("layer"), str):
        with suppress(SettingError):
            found = occurrence_settings(settings)
    if found is None:
        raise FormatError(f"{index.path}: is damaged: it does not say how it was made; make the index again")
    return found


def vectors_in_context(
    run: str | Path | Run,
    texts: Sequence[str],
    word: str,
    *,
    index: str | Path | OccurrenceIndex,
    occurrence: int | Sequence[int] | None = None,
    layer: str | int | None = None,
    device: str | None = None,
) -> Vector:
    """Returns the vectors (N, d) of a word in N sentences, from the layer that an index was made of.

    Args:
        run: The run that the index was made with.
        texts: The sentences.
        word: A word of each.
        index: The index.
        occurrence: Which, from 1, where the word occurs several times in a sentence; one for all, or one for each.
        layer: As the index was made with; None: that.
        device: Where the encoder computes.

    Raises:
        SettingError: for a single sentence, a word that is not in one, or there several times, or another layer.
        RunError: if the run has no words in context, or the index was made with another.
        FormatError: if the index is damaged.
    """
    require_list(texts, "vectors_in_context")
    opened = Run.of(run, device)
    reader = reader_for(opened, None if layer is None else str(layer))
    found = index if isinstance(index, OccurrenceIndex) else OccurrenceIndex(index)
    if found.facts.get("model") != fingerprint(opened):
        raise RunError(
            f"{found.path}: was made with another model ({found.facts.get('run')}), whose vectors cannot be compared "
            f"with those of {opened.path}; make an index with this one"
        )
    stored = index_settings(found)
    if layer is not None and reader.layer != stored.layer:
        raise SettingError(
            f"layer={reader.layer}: the index {found.path} is of layer {stored.layer}; leave the layer out, or make an "
            "index of that one"
        )
    from wenmai.inference.contextual import states_of_spans

    reader = reader_for(opened, stored.layer)
    segment = stored.segment or "words"
    given = list(occurrence) if isinstance(occurrence, Sequence) else [occurrence]
    chosen = given * len(texts) if len(given) == 1 else given
    if len(chosen) != len(texts):
        count = len(chosen)
        raise SettingError(f"{len(texts)} sentences have {count} occurrences; choose one for all, or one for each")
    spans = [[_the_span(text, word, segment, number)] for text, number in zip(texts, chosen, strict=True)]
    states = states_of_spans(reader.encoder, zip(texts, spans, strict=True), reader.numbers)
    vectors = np.array([one.mean(0)[0] for one in states], np.float32).reshape(len(texts), reader.encoder.vector_size)
    for text, vector in zip(texts, vectors, strict=True):
        if not vector.any():
            raise SettingError(f"the encoder has no token for {word!r} in {text[:60]!r}")
    return vectors


def nearest_in_context(
    run: str | Path | Run,
    text: str,
    word: str,
    *,
    index: str | Path | OccurrenceIndex | None = None,
    topn: int = 10,
    **options: Any,  # noqa: ANN401  of vectors_in_context
) -> list[Found]:
    """Finds the occurrences of an index that are nearest to a word in a sentence, by the cosine, best first.

    Args:
        run: The run that the index was made with.
        text: The sentence.
        word: A word of it.
        index: The index; None: :func:`default_index`.
        topn: How many.
        **options: ``occurrence``, ``layer`` and ``device`` of :func:`vectors_in_context`, which raises the same.
    """
    found = index if isinstance(index, OccurrenceIndex) else OccurrenceIndex(index or default_index(run))
    (vector,) = vectors_in_context(run, [text], word, index=found, **options)
    return found.nearest(vector, topn)


def _the_span(text: str, word: str, segment: Any, occurrence: int | None) -> tuple[int, int]:  # noqa: ANN401
    """Returns where a word is in a sentence.

    Raises:
        SettingError: if it is not there, or which is meant cannot be known.
    """
    spans = spans_of(text, word, segment)
    if not spans:
        words = ", ".join(text[low:high] for low, high in token_spans(text, segment)[:30])
        if not words:
            raise SettingError(f"the sentence {text[:60]!r} has no words; give one that has the word {word!r}")
        raise SettingError(f"the word {word!r} is not in the sentence; its words are {words}")
    if occurrence is None and len(spans) > 1:
        places = ", ".join(
            say("{number} at character {place}", number=number, place=low + 1)
            for number, (low, _) in enumerate(spans, 1)
        )
        raise SettingError(
            f"{word!r} occurs {len(spans)} times in {text[:60]!r} ({places}); choose one by --occurrence"
        )
    number = 1 if occurrence is None else occurrence
    if not 1 <= number <= len(spans):
        raise SettingError(f"occurrence={number}: {word!r} occurs {len(spans)} times in {text[:60]!r}")
    return spans[number - 1]


def distil(
    run: str | Path | Run,
    corpus: Any,  # noqa: ANN401  whatever holds text
    *,
    out: str | Path,
    device: str | None = None,
    callback: Callback | None = None,
    quiet: bool = False,
    **settings: Any,  # noqa: ANN401  of OccurrenceConfig
) -> WordVectors:
    """Makes static vectors of a contextual encoder, as ``wenmai distil`` does.

    The vector of a word is the mean of its states over occurrences in a text (Bommasani, Davis, Cardie, "Interpreting
    Pretrained Contextualized Representations via Reductions to Static Equivalents", ACL 2020, section 3, with means
    both over the pieces of a word and over its contexts).

    Args:
        run: A run of an encoder, or its folder.
        corpus: The text, named as for training.
        out: A file of word2vec's format, text (``.txt``, ``.vec``) or binary (``.bin``); or a run folder to make.
        device: Where the encoder computes; see :class:`~wenmai.training.run.Run`.
        callback: Follows it; by default progress is printed on standard error.
        quiet: Print no progress.
        **settings: The fields of :class:`~wenmai.data.occurrences.OccurrenceConfig`.

    Returns:
        The vectors, most frequent words first, with the counts of the text.

    Raises:
        RunError: if the run has no words in context, or ``out`` exists or cannot be written.
        SettingError: for a wrong setting, or a file of another suffix.
        CorpusError: if the text cannot be read.
    """
    target, config = Path(out), occurrence_settings(settings)
    binary = _FILES.get(target.suffix)
    if binary is None and re.fullmatch(r"\.[A-Za-z]\w*", target.suffix):
        raise SettingError(
            f"{target}: expected a file .txt, .vec or .bin, or a run folder, whose name does not end in {target.suffix}"
        )
    if binary is None:
        require_room(target)
    else:
        require_no_folder(target)
    opened = Run.of(run, device)
    reader = reader_for(opened, config.layer)
    with (
        following(callback, quiet=quiet) as follower,
        Occurrences(corpus, config, progress=follower.encoding_corpus) as found,
    ):
        _note_skipped(found, follower)
        rows = {word: row for row, word in enumerate(found.counts)}
        sums = np.zeros((len(rows), reader.encoder.vector_size))
        read = np.zeros(len(rows), np.int64)
        for one, states in _read(reader, found, follower.evaluating):
            places = np.array([rows[word.word] for word in one.words])
            merged = states.mean(0)
            real = merged.any(axis=1)
            np.add.at(sums, places[real], merged[real])
            np.add.at(read, places[real], 1)
        if lost := int((read == 0).sum()):
            follower.note(f"words that the encoder has no token for: {lost:,}; they are left out")
    kept = np.flatnonzero(read)
    words = [word for word, row in rows.items() if read[row]]
    counts = np.array([found.counts[word] for word in words], np.int64)
    vectors = WordVectors(words, (sums[kept] / read[kept, None]).astype(np.float32), counts)
    try:
        if binary is None:
            _write_run(target, opened, vectors, found, reader.layer)
        else:
            write_word2vec(target, vectors, binary=binary)
    except OSError as error:
        raise RunError(f"{target}: cannot be written ({error.strerror})") from None
    return vectors


def mean_states(
    run: Run,
    corpus: Any,  # noqa: ANN401  whatever holds text
    words: Collection[str],
    *,
    max_occurrences: int,
    progress: Callable[[str, int, int], None],
) -> dict[str, Vector]:
    """Returns the means of the states of words over a text, (L + 1, M) of all layers.

    Args:
        run: The run of an encoder.
        corpus: The text.
        words: In lower case; those that the text lacks are missing in what is returned.
        max_occurrences: How many occurrences of each are read.
        progress: Called with what is done, how many of the occurrences, and of how many.

    Raises:
        RunError: if the run has no words in context.
        CorpusError: if the text cannot be read.
    """
    reader = reader_for(run, "last")
    reader = reader._replace(numbers=list(range(reader.encoder.num_layers + 1)))
    config = OccurrenceConfig(min_count=1, max_occurrences=max_occurrences)
    sums: dict[str, NDArray[np.float64]] = {}
    read: Counter[str] = Counter()
    with Occurrences(corpus, config, words=words) as found:
        for one, states in _read(reader, found, progress):
            for word, state in zip(one.words, states.swapaxes(0, 1), strict=True):
                if state.any():
                    sums[word.word] = sums.get(word.word, 0.0) + state.astype(np.float64)
                    read[word.word] += 1
    return {word: (total / read[word]).astype(np.float32) for word, total in sums.items()}


def _note_skipped(found: Occurrences, follower: Callback) -> None:
    for note in counted(
        (
            found.skipped_lines,
            "1 line that cannot be read was left out (bad_lines=skip)",
            "{count} lines that cannot be read were left out (bad_lines=skip)",
        )
    ):
        follower.note(note)


def _write_run(target: Path, run: Run, vectors: WordVectors, found: Occurrences, layer: str) -> None:
    assert vectors.counts is not None
    config = Word2VecConfig(vector_size=vectors.vector_size)
    model = Word2Vec(config, Vocab(vectors.index_to_key, vectors.counts))
    model.input[:, : config.vector_size] = vectors.vectors
    chosen = found.config
    settings = {
        "vector_size": config.vector_size,
        "text.segment": chosen.segment,
        "text.lowercase": chosen.lowercase,
        "min_count": chosen.min_count,
    }
    made = Imported(system="word2vec", model=model, vocabulary=len(vectors), settings=settings)
    distilled = {"corpus": found.name, "model": fingerprint(run), **asdict(chosen), "layer": layer}
    adopt_run(made, target, {"imported": str(run.path.absolute()), "distilled": distilled})


def _read(
    reader: Any,  # noqa: ANN401  a Reader
    found: Occurrences,
    progress: Callable[[str, int, int], None],
) -> Iterator[tuple[SentenceWords, NDArray[np.float32]]]:
    """Yields sentences with the states (K, S, d) of their chosen words in the layers of the reader."""
    from wenmai.inference.contextual import states_of_spans

    ours, theirs = tee(found)
    done = 0
    items = ((one.text, [word[1:] for word in one.words]) for one in theirs)
    for one, states in zip(ours, states_of_spans(reader.encoder, items, reader.numbers), strict=True):
        done += len(one.words)
        progress("reading occurrences", done, found.taken)
        yield one, states
