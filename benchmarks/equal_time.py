"""Every kind of language model trained on one text for the same minutes: bits per character, minimal pairs.

Trainings run side by side, as many as there are cores, with one thread each. A row that is there already is skipped;
``--only`` chooses languages and systems, ``--minutes`` how long each is trained. Finished runs of ``--runs`` are
measured on the same texts, longer trainings for instance.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.finetuned import summarised
from benchmarks.harness import Bench, Results
from benchmarks.minimal_pairs import found_pairs
from benchmarks.result import Result, Rows
from benchmarks.section import Section, table
from benchmarks.variants import difference
from wenmai.training.passes import available_cores

__all__ = ["LANGUAGES", "SYSTEMS", "run"]

MINUTES = 8
SYSTEMS = ("ngram", "nnlm", "rnnlm", "transformer-xl", "gpt", "elmo", "bert", "bert-efficient", "gpt-bert")
REPEATED = ("bert", "bert-efficient", "gpt-bert")  # with several seeds: which of them is better is a question
COUNTED = ("ngram",)  # not trained for minutes
ENGLISH, CHINESE = "en", "zh"
ENGLISH_LINES, CHINESE_LINES = 200, 300


@dataclass(frozen=True)
class Language:
    """What the models of a language read, and what they are measured on.

    Attributes:
        title: Its name.
        corpus: The text, by names of the catalogue.
        lines: How many that are not blank are measured: the first of ``measured``, or the last of the text, which are
            left out of the training.
        measured: Another text.
        pairs: Minimal pairs, if there are any.
        segment: Its tokens, if they are not those that each system has by default.
    """

    title: str
    corpus: tuple[str, ...]
    lines: int
    measured: str | None = None
    pairs: str | None = None
    segment: str | None = None


LANGUAGES = {
    ENGLISH: Language(
        "English",
        ("data:enwiki-sample", "data:wikitext-2-train"),
        ENGLISH_LINES,
        measured="data:wikitext-2-valid",
        pairs="blimp",
    ),
    CHINESE: Language("Chinese", ("data:zhwiki-sample",), CHINESE_LINES, segment="characters"),
}
QUICK_TEXT = "the cat sat on the mat with the dog .\n" * 40
_QUICK_SIZES = ("hidden_size=8", "num_layers=1", "num_heads=2", "max_length=16", "steps=2", "min_count=1")
QUICK_SETTINGS = {"ngram": ("order=2",), "gpt": _QUICK_SIZES, "bert": _QUICK_SIZES}


@dataclass(frozen=True)
class Training:
    """One that is to be made: a system, the seed, the settings, the folder."""

    system: str
    seed: int
    settings: tuple[str, ...]
    out: Path


def run(bench: Bench) -> None:
    """Trains and measures what is not there yet; the finished runs of ``--runs`` come first."""
    results = bench.results("equal_time", {}, corpus=False, keep=not bench.quick, baselines=("torch",))
    names = [name for name in bench.options.only if name in LANGUAGES] or [*LANGUAGES]
    if bench.quick:
        names = names[:1]
    for name in names:
        language = _tiny(bench) if bench.quick else LANGUAGES[name]
        lines, rest = bench.work / f"{name}-lines.txt", bench.work / f"{name}-text.txt"
        if language.measured is None:
            bench.job("hold_out", text=language.corpus[0], lines=language.lines, target=lines, rest=rest)
        else:
            bench.job("first_lines", text=language.measured, lines=language.lines, target=lines)
        given = {path: bench.job("run_facts", run=path.absolute()) for path in bench.options.runs}
        for path, facts in given.items():
            if facts["corpus"] == ",".join(language.corpus):
                _measure(bench, results, name, language, path, facts, lines)
        if not given:
            corpus = language.corpus if language.measured else (str(rest),)
            _train_all(bench, results, name, replace(language, corpus=corpus), lines)


def _train_all(bench: Bench, results: Results, name: str, language: Language, lines: Path) -> None:
    minutes = bench.options.minutes or MINUTES
    there = {(row["language"], row["system"], row["seed"]) for row in results.rows if row["minutes"] in (minutes, None)}
    todo = [one for one in _trainings(bench, language, minutes) if (name, one.system, one.seed) not in there]
    cores = available_cores()
    for source in (one for one in language.corpus if one.startswith("data:")):
        bench.wenmai("data", "get", source.removeprefix("data:"))  # once, not by each of those side by side
    for some in (todo[first : first + cores] for first in range(0, len(todo), cores)):
        with ThreadPoolExecutor(len(some)) as side_by_side:
            list(side_by_side.map(lambda one: _train(bench, language, one), some))
        for one in some:
            facts = bench.job("run_facts", run=one.out)
            _measure(bench, results, name, language, one.out, facts, lines)
            bench.clear(one.out)


def _trainings(bench: Bench, language: Language, minutes: float) -> Iterator[Training]:
    """Yields all trainings of a language: every system once, then the repeated ones with more seeds."""
    known = tuple(QUICK_SETTINGS) if bench.quick else SYSTEMS
    chosen = [system for system in known if system in bench.options.only] or known
    first, *more = bench.seeds(1, 2, 3)
    for seed, systems in ((first, chosen), *((seed, REPEATED) for seed in more)):
        for system in (one for one in systems if one in chosen):
            settings = list(QUICK_SETTINGS[system]) if bench.quick else []
            if language.segment is not None:
                settings.append(f"{'segment' if system in COUNTED else 'kind'}={language.segment}")
            if system not in COUNTED:
                settings += [f"minutes={minutes:g}", f"seed={seed}", "threads=1"]
            yield Training(system, seed, tuple(settings), bench.work / f"{system}-{seed}")


def _train(bench: Bench, language: Language, one: Training) -> None:
    chosen = [f"--set={setting}" for setting in one.settings]
    bench.wenmai("train", one.system, *language.corpus, "--out", one.out, "--quiet", *chosen)


def _measure(
    bench: Bench,
    results: Results,
    name: str,
    language: Language,
    path: Path,
    facts: Mapping[str, Any],
    lines: Path,
) -> None:
    """Adds the row of a finished run, unless it is there."""
    if facts["model_sha256"] in {row["model_sha256"] for row in results.rows}:
        print(f"  {facts['run']}: is there already")
        return
    found, seconds = bench.wenmai("evaluate", path.absolute(), "--on", lines)
    row = {
        "language": name,
        **facts,
        "seed": facts["changed"].get("seed", 1),
        "minutes": facts["changed"].get("minutes"),
        "bits": float(found["spelled_bits_per_character"]),
        "pseudo": bool(found.get("pseudo")),
        "characters": found["characters"],
        "bits_seconds": seconds,
    }
    if language.pairs is not None:
        pairs, seconds = bench.wenmai("evaluate", path.absolute(), "--pairs", language.pairs)
        row |= {**found_pairs(pairs), "pairs_seconds": seconds}
    results.add(row)


def _tiny(bench: Bench) -> Language:
    text, pairs = bench.work / "text.txt", bench.work / "pairs.tsv"
    text.write_text(QUICK_TEXT, encoding="utf-8")
    pairs.write_text("The cat sat.\tThe sat cat.\tone\tfirst\n", encoding="utf-8")
    return Language("English", (str(text),), 2, measured=str(text), pairs=str(pairs), segment="whitespace")


# --- the page -------------------------------------------------------------------------------------------------------


def tables(_: Section, result: Result) -> Iterator[str]:
    for name, rows in result.rows.by("language").items():
        title = LANGUAGES[name].title
        ordered = Rows(sorted(rows, key=lambda row: SYSTEMS.index(row["system"])))
        groups = ordered.by("system minutes").values()
        yield table([{title: own[0]["system"], **_cells(own)} for own in groups])
        differences = [
            {
                f"{title}, seed by seed": f"{one} minus {other}, {minutes:g} minutes",
                "masked tokens right": difference(_better(own, one, other, "masked_accuracy")),
                "BLiMP": difference(_better(own, one, other, "accuracy")),
            }
            for minutes, own in rows.by("minutes").items()
            for other, one in pairwise(REPEATED)
            if minutes is not None and _better(own, one, other, "masked_accuracy")
        ]
        if differences:
            yield table(differences)


def _cells(rows: Rows) -> dict[str, str]:
    """The cells of a system: means over its seeds, with half of their interval."""
    first = rows[0]
    mark = " (pseudo)" if first["pseudo"] else ""
    return {
        "minutes": "-" if first["minutes"] is None else f"{first['minutes']:g}",
        "threads": "-" if first.get("threads") is None else str(first["threads"]),
        "seeds": str(len(rows)),
        "parameters": f"{rows.parameters:,}",
        "tokens read": f"{rows.training_tokens:,.0f}",
        "bits per character": summarised([row["bits"] for row in rows]) + mark,
        "masked tokens right": summarised(_values(rows, "masked_accuracy")),
        "BLiMP": summarised(_values(rows, "accuracy")),
    }


def _values(rows: Rows, name: str) -> list[float]:
    return [row[name] for row in rows if name in row]


def _better(rows: Rows, one: str, other: str, name: str) -> list[float]:
    """By how much a system is better than another, seed by seed."""
    ours, theirs = (
        {row["seed"]: row[name] for row in rows.where(system=system) if name in row} for system in (one, other)
    )
    return [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
