"""Evaluate word vectors: similarity, analogies and probes; their neighbours and maps."""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from wenmai.core.errors import FormatError, SettingError
from wenmai.core.showing import Table
from wenmai.data.catalogue import resolve
from wenmai.data.datasets import find_dataset
from wenmai.measures.probes import TaggingProbe, TextProbe
from wenmai.measures.words import (
    AnalogyResult,
    SimilarityResult,
    evaluate_analogies,
    evaluate_similarity,
    evaluate_text_similarity,
)
from wenmai.runs.comparison import ComparedSystem, Comparison, Kind, MapWord, Measure
from wenmai.runs.measuring.contextual import require_occurrences, words_compared
from wenmai.runs.measuring.measurer import Evaluation, Measurer, Progress, Turns, title_of, unwatched
from wenmai.runs.probes import probe_model, require_probed
from wenmai.training.run import Run
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["EMBEDDINGS", "VECTORS", "VectorsEvaluation", "check", "compare", "evaluate"]

_NEIGHBOURS = 10
_MAP_WORDS = 300
_MAP_CLUSTERS = 8
_QUERIES = 8
_RESTRICT = 30_000


@dataclass(frozen=True, kw_only=True, repr=False)
class VectorsEvaluation(Evaluation):
    """The evaluation of vectors on test sets."""

    similarity: tuple[SimilarityResult, ...] = ()
    analogy: tuple[AnalogyResult, ...] = ()
    probes: tuple[TextProbe | TaggingProbe, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns plain JSON values; ``probes`` only where there are some."""
        found = asdict(self)
        return found if self.probes else {name: value for name, value in found.items() if name != "probes"}

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.similarity, *self.analogy, *self.probes)))

    def table(self) -> Table:
        """Returns a row for each test set, of probes for each weighting."""
        pairs, questions, probes = self.similarity, self.analogy, self.probes
        return Table.of([*map(_pairs_row, pairs), *map(_questions_row, questions), *map(_probe_row, probes)])


def evaluate(
    run: Run,
    *,
    similarity: Sequence[str | Path] = (),
    analogy: Sequence[str | Path] = (),
    probe: Sequence[str] = (),
    restrict_vocab: int | None = _RESTRICT,
    progress: Progress = unwatched,
) -> VectorsEvaluation:
    """Evaluates the word vectors of a finished run.

    Args:
        run: The run.
        similarity: Files of word pairs with human scores, or names of the catalogue such as ``"data:ws353-all"``.
        analogy: Files of analogy questions, or names of the catalogue.
        probe: Data sets for linear probes, see :func:`wenmai.runs.probes.probe`.
        restrict_vocab: Analogies are asked and answered among this many of the most frequent words, as published
            metrics are; None for all words.
        progress: Watches.

    Raises:
        FormatError: if a test set is missing or has a malformed line.
        SettingError: if there is no test set, or ``restrict_vocab`` has no effect.
    """
    if not (similarity or analogy or probe):
        raise SettingError(
            "name at least one test set: --similarity FILE or --analogy FILE (`wenmai data list`), or --probe DATASET"
        )
    check(similarity=similarity, analogy=analogy, probe=probe, restrict_vocab=restrict_vocab)
    turns = Turns(progress, sets=len(similarity) + len(analogy) + len(probe))
    pairs, questions = _measured(run.vectors, similarity, analogy, restrict_vocab, turns.begin)
    probes = _probed(run, probe, turns)
    return VectorsEvaluation(run=str(run.path), similarity=tuple(pairs), analogy=tuple(questions), probes=probes)


def compare(
    runs: Sequence[Run],
    comparison: Comparison,
    *,
    similarity: Sequence[str | Path] = (),
    analogy: Sequence[str | Path] = (),
    probe: Sequence[str] = (),
    restrict_vocab: int | None = _RESTRICT,
    words: Sequence[str] = (),
    progress: Progress = unwatched,
) -> Comparison:
    """Compares vectors as :func:`evaluate` measures them; adds neighbours and maps.

    Args:
        runs: The runs.
        comparison: Describes them.
        similarity: As of :func:`evaluate`.
        analogy: As of :func:`evaluate`.
        probe: As of :func:`evaluate`.
        restrict_vocab: As of :func:`evaluate`.
        words: Words whose neighbours the report shows; by default some that all runs know.
        progress: Watches.

    Raises:
        SettingError: if no run knows one of the words.
    """
    every: list[WordVectors] = [run.read_model() for run in runs]
    common = _common_words(every)
    queries = _queries(words, every, common)
    systems = []
    turns = Turns(progress, runs=len(runs), sets=len(similarity) + len(analogy) + len(probe))
    for run, vectors, system in zip(runs, every, comparison.systems, strict=True):
        begin = partial(turns.begin, system=system.name)
        pairs, questions = _measured(vectors, similarity, analogy, restrict_vocab, begin)
        measures = [*map(_similarity, pairs), *map(_analogy, questions)]
        for dataset in probe:
            begin(dataset)
            measures.append(_probe(dataset, probe_model(vectors, dataset, run.recipe)))
        found = replace(
            system,
            measures=measures,
            vocabulary=len(vectors),
            neighbours={
                word: [*vectors.most_similar(word, topn=_NEIGHBOURS)] for word in queries if vectors.has_vector(word)
            },
            map=_map(vectors, common[:_MAP_WORDS]),
        )
        systems.append(found)
    return replace(comparison, systems=_with_coverage(systems), queries=queries, map_method="principal components")


def check(
    *,
    similarity: Sequence[str | Path] = (),
    analogy: Sequence[str | Path] = (),
    probe: Sequence[str] = (),
    restrict_vocab: int | None = _RESTRICT,
    **others: Any,  # noqa: ANN401  what names no file
) -> None:
    """Makes sure that test sets are there, and downloads them if need be.

    Raises:
        FormatError: if a file is missing.
        SettingError: if a set is unknown, no probe can be trained on it, or ``restrict_vocab`` has no effect.
    """
    if restrict_vocab != _RESTRICT and not analogy:
        raise SettingError("--restrict-vocab has no effect without --analogy; leave it out")
    for file in (*similarity, *analogy):
        _set(file, ())
    for name in probe:
        require_probed(find_dataset(name))


def evaluate_embeddings(
    run: Run,
    *,
    similarity: Sequence[str | Path] = (),
    probe: Sequence[str] = (),
    occurrences: str | Path | None = None,
    max_occurrences: int | None = None,
    progress: Progress = unwatched,
) -> VectorsEvaluation:
    """Evaluates the vectors that any model gives to texts and tokens; see :func:`evaluate`.

    Args:
        run: The run.
        similarity: Files of pairs of texts with human scores, separated by tabs, or names of the catalogue.
        probe: Data sets for linear probes.
        occurrences: A text. The pairs of ``similarity`` are words then, whose vectors are their means over sentences of
            this text, in a layer that is chosen on one half of the pairs and measured on the other; see
            :func:`wenmai.measures.contextual.evaluate_in_context`.
        max_occurrences: Sentences of a word that are read; None: 20.
        progress: Watches.

    Raises:
        FormatError: if a test set is missing or has a malformed line.
        RunError: if ``occurrences`` is given, and no word has a vector in context.
        SettingError: if there is no test set, or ``max_occurrences`` has no effect.
    """
    _require_sets(similarity, probe)
    require_occurrences([run], occurrences, max_occurrences, similarity)
    turns = Turns(progress, sets=len(similarity) + len(probe))
    if occurrences is None:
        pairs = tuple(_texts_compared(run, given, similarity, turns) for given in similarity)
    else:
        named = [_set(given, similarity) for given in similarity]
        pairs = tuple(words_compared([run], named, occurrences, max_occurrences, progress)[0])
    return VectorsEvaluation(run=str(run.path), similarity=pairs, probes=_probed(run, probe, turns))


def _require_sets(similarity: Sequence[str | Path], probe: Sequence[str]) -> None:
    if not (similarity or probe):
        raise SettingError("name at least one test set: --similarity FILE or --probe DATASET")


def _texts_compared(
    run: Run, given: str | Path, among: Sequence[str | Path], turns: Turns, system: str = ""
) -> SimilarityResult:
    turns.begin(given, system)
    name, path = _set(given, among)
    return replace(evaluate_text_similarity(run.embed, path), name=name)


def _probed(run: Run, probe: Sequence[str], turns: Turns) -> tuple[TextProbe | TaggingProbe, ...]:
    found: list[TextProbe | TaggingProbe] = []
    for dataset in probe:
        turns.begin(dataset)
        found += probe_model(run.model, dataset, run.recipe)
    return tuple(found)


def compare_embeddings(
    runs: Sequence[Run],
    comparison: Comparison,
    *,
    similarity: Sequence[str | Path] = (),
    probe: Sequence[str] = (),
    occurrences: str | Path | None = None,
    max_occurrences: int | None = None,
    progress: Progress = unwatched,
) -> Comparison:
    """Compares by pairs of texts and by probes, as :func:`evaluate_embeddings` does.

    With ``occurrences`` the words of static vectors are compared by their vectors, beside the means of encoders, and
    all on the same pairs, whose words each of them knows.
    """
    _require_sets(similarity, probe)
    require_occurrences(runs, occurrences, max_occurrences, similarity)
    systems, turns = [], Turns(progress, runs=len(runs), sets=len(similarity) + len(probe))
    in_context: Sequence[Sequence[SimilarityResult]] = [()] * len(runs)
    if occurrences is not None:
        named = [_set(given, similarity) for given in similarity]
        in_context = words_compared(runs, named, occurrences, max_occurrences, progress)
    for run, system, words in zip(runs, comparison.systems, in_context, strict=True):
        if occurrences is None:
            words = [_texts_compared(run, given, similarity, turns, system.name) for given in similarity]
        measures = [*map(_similarity, words)]
        model = run.read_model()
        for dataset in probe:
            turns.begin(dataset, system.name)
            measures.append(_probe(dataset, probe_model(model, dataset, run.recipe)))
        systems.append(replace(system, measures=measures))
    return replace(comparison, systems=_with_coverage(systems))


def _with_coverage(systems: list[ComparedSystem]) -> list[ComparedSystem]:
    """Notes how many pairs and questions have vectors where systems differ in it."""
    by_set: dict[tuple[str, str], list[Measure]] = {}
    for one in (measure for system in systems for measure in system.measures if measure.covered is not None):
        by_set.setdefault((one.kind, one.name), []).append(one)
    for measures in by_set.values():
        if len({one.covered for one in measures}) > 1:
            for one in measures:
                one.notes.append(
                    f"{one.covered:,} of {one.total:,} have vectors; other runs are measured on more or fewer of them"
                )
    return systems


def _pairs_row(found: SimilarityResult) -> dict[str, Any]:
    return {"set": found.name, "metric": "Spearman", "value": found.spearman, **_coverage(found)}


def _questions_row(found: AnalogyResult) -> dict[str, Any]:
    return {"set": found.name, "metric": "accuracy", "value": found.accuracy, **_coverage(found)}


def _coverage(found: SimilarityResult | AnalogyResult) -> dict[str, Any]:
    return {"low": found.low, "high": found.high, "covered": found.covered, "total": found.total}


def _probe_row(found: TextProbe | TaggingProbe) -> dict[str, Any]:
    measure = _probe_measure(found)
    metric = "F1" if isinstance(found, TaggingProbe) and found.f1 is not None else f"accuracy, {measure.name}"
    return {"set": found.dataset, "metric": metric, "value": measure.value, "low": measure.low, "high": measure.high}


def _measured(
    vectors: WordVectors,
    similarity: Sequence[str | Path],
    analogy: Sequence[str | Path],
    restrict_vocab: int | None,
    begin: Callable[[str | Path], None],
) -> tuple[list[SimilarityResult], list[AnalogyResult]]:
    pairs, questions = [], []
    for given in similarity:
        begin(given)
        name, path = _set(given, similarity)
        pairs.append(replace(evaluate_similarity(vectors, path), name=name))
    for given in analogy:
        begin(given)
        name, path = _set(given, analogy)
        questions.append(replace(evaluate_analogies(vectors, path, restrict_vocab=restrict_vocab), name=name))
    return pairs, questions


def _set(name: str | Path, among: Sequence[str | Path]) -> tuple[str, Path]:
    """Returns a set's title among others, see :func:`title_of`, and its file, fetched if need be.

    Raises:
        FormatError: if there is no such file.
        SettingError: if the catalogue has no such name.
    """
    path = resolve(name) if isinstance(name, str) else None
    if path is not None:
        return title_of(name, map(_plain, among)), path
    if not os.path.exists(name):
        raise FormatError(
            f"{name}: no such file; expected a test set, or a name of the catalogue such as data:ws353-all"
        )
    return title_of(_plain(name), map(_plain, among)), Path(name)


def _plain(name: str | Path) -> str:
    """Returns the name of a set without the usual end of files."""
    return str(name).removesuffix(".gz").removesuffix(".txt")


def _similarity(result: SimilarityResult) -> Measure:
    return Measure(
        name=result.name,
        kind="similarity",
        value=result.spearman,
        low=result.low,
        high=result.high,
        covered=result.covered,
        total=result.total,
    )


def _analogy(result: AnalogyResult) -> Measure:
    parts = [
        Measure(
            name=section.name,
            kind="analogy",
            value=section.correct / section.attempted if section.attempted else None,
            covered=section.attempted,
            total=section.total,
        )
        for section in result.sections
    ]
    return Measure(
        name=result.name,
        kind="analogy",
        value=result.accuracy,
        low=result.low,
        high=result.high,
        covered=result.covered,
        total=result.total,
        parts=parts,
    )


def _probe(dataset: str, results: Sequence[TextProbe | TaggingProbe]) -> Measure:
    """A probe of texts shows the unweighted average of the vectors; the other weightings are its parts."""
    found = [*map(_probe_measure, results)]
    return replace(found[0], name=dataset.removeprefix("data:"), parts=found if len(found) > 1 else [])


def _probe_measure(result: TextProbe | TaggingProbe) -> Measure:
    return Measure(
        name=result.weighting if isinstance(result, TextProbe) else "words",
        kind="probe",
        value=result.f1 if isinstance(result, TaggingProbe) and result.f1 is not None else result.accuracy,
        low=result.low,
        high=result.high,
    )


def _map(vectors: WordVectors, words: Sequence[str]) -> list[MapWord]:
    known = [word for word in words if word in vectors]
    if len(known) < 3:
        return []
    places = vectors.map2d(known)
    rows = [vectors.key_to_index[word] for word in known]
    chosen = WordVectors(known, vectors.unit_vectors(rows))
    clusters = chosen.clusters(min(_MAP_CLUSTERS, len(known)))
    counts = vectors.counts if vectors.counts is not None else [0] * len(vectors)
    return [
        MapWord(word=word, x=float(x), y=float(y), count=int(counts[row]), cluster=int(cluster))
        for word, row, (x, y), cluster in zip(known, rows, places, clusters, strict=True)
    ]


def _common_words(every: Sequence[WordVectors]) -> list[str]:
    """Words that all vectors have, most frequent (in the first) first."""
    return [
        word
        for word in every[0].index_to_key[:5000]
        if word.isalpha() and (len(word) > 2 or not word.isascii()) and all(word in other for other in every[1:])
    ]


def _queries(words: Sequence[str], every: Sequence[WordVectors], common: Sequence[str]) -> list[str]:
    """The words whose neighbours are shown: the user's, or some of medium frequency."""
    if words:
        for word in words:
            if not any(vectors.has_vector(word) for vectors in every):
                raise SettingError(f"no run has a vector for {word!r}")
        return list(words)
    middling = list(common[min(100, len(common) // 4) : 1500])
    return middling[:: max(1, len(middling) // _QUERIES)][:_QUERIES]


_KINDS = {
    "similarity": Kind(
        title="Similarity, Spearman’s ρ",
        items="pairs",
        about="compares the order in which the model ranks pairs of words or texts by cosine with the order in which "
        "people rank them: 1 is the same order, 0 no relation (Spearman’s rank correlation).",
    ),
    "analogy": Kind(
        title="Analogies, % correct",
        items="questions",
        about="is the proportion of questions “a is to b as c is to what?” whose expected answer is the word "
        "nearest to b − a + c, the three given words excluded.",
        percent=True,
    ),
    "probe": Kind(
        title="Linear probes, % correct",
        about="is the accuracy of a linear classifier on frozen vectors: of texts by the average of their words, of "
        "tags by a word and its neighbours; of named entities, the F1.",
        percent=True,
    ),
}
VECTORS = Measurer(models="word vectors", evaluate=evaluate, compare=compare, check=check, kinds=_KINDS)
EMBEDDINGS = Measurer(
    models="models with vectors of words",
    evaluate=evaluate_embeddings,
    compare=compare_embeddings,
    check=check,
    kinds=_KINDS,
)
