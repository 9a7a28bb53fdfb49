"""One corpus, several systems, one table and one report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from wenmai.config.recipe import changed_settings
from wenmai.core.errors import RunError, SettingError
from wenmai.core.folder import writing_json
from wenmai.core.registry import find_system
from wenmai.data.sources import in_catalogue
from wenmai.measures.probes import TaggingProbe, TextProbe
from wenmai.measures.words import AnalogyResult, SimilarityResult
from wenmai.runs.classification import evaluate_classification
from wenmai.runs.comparison import Comparison, Corpus, CurvePoint, Facts, MapWord, Measure, System
from wenmai.runs.environment import describe_environment
from wenmai.runs.evaluate import measure_vectors
from wenmai.runs.language import language_model_of
from wenmai.runs.language_comparison import describe_contexts, describe_positions, foretelling, samples
from wenmai.runs.probes import probe as run_probe
from wenmai.runs.report import write_report
from wenmai.text.pieces import TokenizerConfig
from wenmai.text.settings import TextConfig
from wenmai.training.run import Run
from wenmai.vectors.word_vectors import WordVectors

__all__ = ["compare", "compared_verb"]

COMPARISON, REPORT = "comparison.json", "report.html"
_NEIGHBOURS = 10
_MAP_WORDS = 300
_MAP_CLUSTERS = 8
_QUERIES = 8
_UNKNOWN = "unknown:"  # begins what an imported run was trained on


def compare(
    runs: Sequence[str | Path | Run],
    *,
    out: str | Path,
    similarity: Sequence[str | Path] = (),
    analogy: Sequence[str | Path] = (),
    probe: Sequence[str] = (),
    restrict_vocab: int | None = 30_000,
    words: Sequence[str] = (),
    on: Sequence[str] = (),
    command: str = "",
) -> Comparison:
    """Compares finished runs: writes ``comparison.json`` and ``report.html`` into a folder.

    Args:
        runs: Runs or their folders, at least one.
        out: The folder; made if need be.
        similarity: Similarity sets to measure on, files or names of the catalogue.
        analogy: Analogy sets.
        probe: Data sets for linear probes, see :func:`wenmai.runs.probes.probe`.
        restrict_vocab: See :func:`wenmai.runs.evaluate.evaluate`.
        words: Words whose neighbours the report shows; by default some that all runs know.
        on: Labelled texts to measure classifiers on, or texts that language models foretell.
        command: What the user typed, for the report.

    Raises:
        RunError: if a run is not finished, two runs have the same name, or ``out`` cannot be written.
    """
    opened = [run if isinstance(run, Run) else Run(run) for run in runs]
    if not opened:
        raise RunError("there is nothing to compare; name at least one run")
    names, queries = _distinct_names(opened), []
    verb = compared_verb([(run.recipe.system, run.task.verbs) for run in opened], similarity, analogy, probe, on)
    if verb == "nearest":
        common = _common_words([run.vectors for run in opened])
        queries = _queries(words, opened, common)
        systems = []
        for name, run in zip(names, opened, strict=True):
            pairs, questions = measure_vectors(run.vectors, similarity, analogy, restrict_vocab=restrict_vocab)
            measures = [_similarity(result) for result in pairs] + [_analogy(result) for result in questions]
            measures += [_probe(dataset, run_probe(run, dataset)) for dataset in probe]
            systems.append(_describe_vectors(name, run, measures, queries, common[:_MAP_WORDS]))
            run.__dict__.pop("vectors")  # what was read is told; it need not stay in memory
            run.__dict__.pop("model", None)
    elif verb == "classify":
        systems = [_describe(name, run, _classes(run, on)) for name, run in zip(names, opened, strict=True)]
    else:
        systems = [_describe_language(name, run, on) for name, run in zip(names, opened, strict=True)]
    corpus = _describe_corpus(opened, spoken=verb == "score")
    if verb == "score" and (told := _not_foretold(names, opened)):
        corpus = replace(corpus, facts=corpus.facts | {"not foretold": told})
    comparison = Comparison(
        systems=systems,
        corpus=corpus,
        command=command,
        created=f"{datetime.now():%Y-%m-%d %H:%M}",
        machine=_facts(opened[0].environment or describe_environment()),
        queries=queries,
        map_method="principal components",
    )
    folder = Path(out)
    try:
        writing_json(folder / COMPARISON, comparison.to_json())
        write_report(comparison, folder / REPORT)
    except OSError as error:
        raise RunError(f"{folder}: cannot be written ({error.strerror})") from None
    return comparison


def compared_verb(
    systems: Sequence[tuple[str, Sequence[str]]],
    similarity: Sequence[str | Path],
    analogy: Sequence[str | Path],
    probe: Sequence[str],
    on: Sequence[str],
) -> str:
    """Returns the verb that all systems have, given as (name, verbs), and that decides what is measured.

    Raises:
        RunError: if there is none.
        SettingError: if a test set is of another kind.
    """
    verb = next((verb for verb in ("nearest", "classify", "score") if all(verb in verbs for _, verbs in systems)), None)
    if verb is None:
        raise RunError(
            f"{', '.join(dict.fromkeys(name for name, _ in systems))}: comparisons are of word vectors, of "
            "classifiers, or of language models. Translators are compared by `wenmai evaluate RUN --on PAIRS --against "
            "RUN`"
        )
    if verb == "nearest":
        if on:
            raise SettingError("--on is for classifiers; word vectors have --similarity, --analogy and --probe")
        return verb
    if similarity or analogy or probe:
        others = "classifiers have --on" if verb == "classify" else "give language models --on"
        raise SettingError(f"--similarity, --analogy and --probe are for word vectors; {others}")
    if verb == "score" and not on:
        raise SettingError("name a text that the language models shall foretell: --on FILE")
    return verb


def _describe(name: str, run: Run, measures: list[Measure]) -> System:
    summary = run.summary
    return System(
        name=name,
        label=find_system(run.recipe.system).summary,
        run=str(run.path),
        settings=_facts(changed_settings(run.recipe)),
        loss_kind=str(summary.get("objective", "")),
        curve=_curve(run.records),
        measures=measures,
        words_per_second=summary.get("words_per_second"),
        seconds=summary.get("seconds"),
        peak_memory_bytes=summary.get("peak_memory_bytes"),
        size_bytes=run.model_bytes,
        vocabulary=summary.get("vocabulary"),
        parameters=summary.get("parameters"),
    )


def _describe_language(name: str, run: Run, on: Sequence[str]) -> System:
    model = language_model_of(run)
    found = replace(
        _describe(name, run, foretelling(model, on)),
        positions=describe_positions(model, on[0]),
        contexts=describe_contexts(model, on[0]),
        samples=samples(model, on[0]),
    )
    run.__dict__.pop("model", None)
    return found


def _describe_vectors(
    name: str, run: Run, measures: list[Measure], queries: Sequence[str], map_words: Sequence[str]
) -> System:
    vectors = run.vectors
    return replace(
        _describe(name, run, measures),
        vocabulary=len(vectors),
        neighbours={word: [*vectors.most_similar(word, topn=_NEIGHBOURS)] for word in queries if word in vectors},
        map=_map(vectors, map_words),
    )


def _classes(run: Run, on: Sequence[str]) -> list[Measure]:
    """The accuracy on each test set; its parts are the F1 of the labels."""
    measures = []
    for test in on:
        result = evaluate_classification(run, test).result
        parts = [Measure(name=label.label, kind="f1", value=label.f1) for label in result.labels]
        accuracy = Measure(
            name=test.removeprefix("data:") if in_catalogue(test) else Path(test).name,
            kind="classification",
            value=result.accuracy,
            low=result.accuracy_low,
            high=result.accuracy_high,
            parts=parts,
        )
        measures.append(accuracy)
    return measures


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
    """A probe of texts shows the plain average of the vectors; the other weights are its parts."""
    found = [
        Measure(
            name=result.weighting if isinstance(result, TextProbe) else "words",
            kind="probe",
            value=result.f1 if isinstance(result, TaggingProbe) and result.f1 is not None else result.accuracy,
            low=result.low,
            high=result.high,
        )
        for result in results
    ]
    return replace(found[0], name=dataset.removeprefix("data:"), parts=found if len(found) > 1 else [])


def _curve(records: Sequence[Mapping[str, Any]]) -> list[CurvePoint]:
    steps = [record for record in records if record.get("kind") == "step"]
    names = ("loss", "epoch", "seconds", "learning_rate", "words_per_second")
    return [CurvePoint(progress=record["progress"], **{name: record.get(name) for name in names}) for record in steps]


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
    """Words that all vectors have and that read as words, most frequent (in the first) first."""
    return [
        word
        for word in every[0].index_to_key[:5000]
        if word.isalpha() and (len(word) > 2 or not word.isascii()) and all(word in other for other in every[1:])
    ]


def _queries(words: Sequence[str], runs: Sequence[Run], common: Sequence[str]) -> list[str]:
    """The words whose neighbours are shown: the user's, or some of middling frequency, evenly spread."""
    if words:
        for word in words:
            if all(word not in run.vectors for run in runs):
                raise SettingError(f"no run has a vector for {word!r}")
        return list(words)
    middling = list(common[min(100, len(common) // 4) : 1500])
    return middling[:: max(1, len(middling) // _QUERIES)][:_QUERIES]


def _distinct_names(runs: Sequence[Run]) -> list[str]:
    systems = [run.recipe.system for run in runs]
    if len(set(systems)) == len(systems):
        return systems
    names = [run.path.name or str(run.path) for run in runs]
    if len(set(names)) == len(names):
        return names
    return [str(run.path) for run in runs]


def _describe_corpus(runs: Sequence[Run], *, spoken: bool) -> Corpus:
    """What the runs were trained on; ``spoken``: each cuts the text in its own way, so files alone tell it."""
    found = next((run.corpus for run in runs if run.corpus), {})
    stats = {} if spoken else found.get("stats", {})
    texts = {_text(run, spoken=spoken) for run in runs}
    sources = [name if in_catalogue(name) else Path(name).name for name in runs[0].recipe.corpus]
    name = ", ".join(sources[:3]) + (f" and {len(sources) - 3} more" if len(sources) > 3 else "")
    skipped = {k: v for k, v in stats.items() if (k.startswith(("skipped", "pruned")) or k == "documents") and v}
    if len(texts) > 1:
        known = not any(text.startswith(_UNKNOWN) for text in texts)
        name = f"{len(texts)} different corpora" if known else "different or unknown corpora"
        return Corpus(name=name, facts={"note": "the runs were not trained on the same text"})
    return Corpus(
        name=name or "text from memory",
        tokens=stats.get("tokens"),
        sentences=stats.get("sentences"),
        types=stats.get("types"),
        segment="" if spoken else str(found.get("text", {}).get("segment", "")),
        fingerprint=str(found.get("fingerprint", "")),
        facts=_facts(skipped),
    )


def _not_foretold(names: Sequence[str], runs: Sequence[Run]) -> str:
    """Names the language models that need not foretell all of the text; empty if that is the same for all."""
    found = [
        [
            f"{name}={json.dumps(value) if isinstance(value, bool) else value}"
            for settings in run.recipe.sections.values()
            if isinstance(settings, TextConfig | TokenizerConfig)
            for name, value in settings.lossy.items()
        ]
        for run in runs
    ]
    if all(settings == found[0] for settings in found):
        return ""
    named = ", ".join(f"{name} ({' '.join(own)})" for name, own in zip(names, found, strict=True) if own)
    return (
        f"{named}: case, width or white space that these settings take away costs nothing, so that bits per character "
        "flatter models that have them"
    )


def _text(run: Run, *, spoken: bool) -> str:
    """What tells a text from others: fingerprints also tell what systems made of it, such as counts."""
    corpus = run.corpus
    if not corpus.get("fingerprint"):
        return f"{_UNKNOWN} {run.path}"
    files = [source["sha256"] for source in corpus.get("sources", ()) if "sha256" in source]
    return json.dumps([files, None if spoken else corpus.get("text")]) if files else str(corpus["fingerprint"])


def _facts(values: Mapping[str, Any]) -> Facts:
    return {
        name: value if isinstance(value, str | int | float | bool | None) else json.dumps(value)
        for name, value in values.items()
    }
