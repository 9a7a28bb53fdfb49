"""Measurements of encoders that learn several tasks (ERNIE 1.0 and 2.0), for ``jobs.py``."""

import re
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.neural import timed_updates

__all__ = ["fill_names", "labelled_names", "make_examples", "pretraining_facts", "split_articles"]

PROBE = 20  # one article in so many is not trained on
LEAST, MOST = 5, 10  # how often a name must stand in the text to train on; how often it is asked for at most
TAGGED = {"en": "conll2003", "zh": "cluener"}


def split_articles(text: str, target: str, language: str) -> dict[str, Any]:
    """Writes ``train.txt``, ``probe.txt`` and ``names.txt`` of a text of WikiExtractor.

    One article in twenty, by the checksum of its title, is for the cloze test. Names are the titles of all articles,
    without what stands in brackets, and the entities that the training part of a tagged set has; kept are those of
    two characters and more that stand at least five times in the text to train on, and more often than without
    capital letters.
    """
    from wenmai.core.compressed import reading
    from wenmai.data.catalogue import from_catalogue
    from wenmai.text.names import NameMatcher

    (path,), _ = from_catalogue([text])
    with reading(str(path)) as file:
        articles = list(_articles(file.read().decode("utf-8").splitlines()))
    parts: dict[str, list[list[str]]] = {"train": [], "probe": []}
    for title, lines in articles:
        parts["train" if zlib.crc32(title.encode()) % PROBE else "probe"].append(lines)
    titles = (re.sub(r"\s*[((].*", "", title) for title, _ in articles)
    names = NameMatcher(name for name in (*titles, *_tagged(language)) if len(name) > 1 and not name.isdecimal())
    small = NameMatcher(name.lower() for name in names.names if name.lower() != name)
    lines = [line for own in parts["train"] for line in own]
    counts, words = (
        Counter(line[low:high] for line in lines for low, high in one.spans(line)) for one in (names, small)
    )
    kept = sorted(name for name, count in counts.items() if count >= LEAST and count > words[name.lower()])
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)
    for name, found in parts.items():  # blank lines between articles
        whole = "\n\n".join("\n".join(lines) for lines in found) + "\n"
        (folder / f"{name}.txt").write_text(whole, encoding="utf-8")
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in kept), encoding="utf-8")
    return {"articles": len(parts["train"]), "probe": len(parts["probe"]), "names": len(kept)}


def _articles(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yields title and paragraphs of each article; the title is not among them."""
    title, own = "", list[str]()
    for line in lines:
        if found := re.match(r'<doc .*title="(.*)">', line):
            title, own = found[1], []
        elif line.startswith("</doc>"):
            if len(own) > 1:
                yield title, own[1:]
        elif line.strip():
            own.append(line.strip())


def labelled_names(language: str, target: str) -> dict[str, Any]:
    """Writes the entities that the training part of a tagged set has, one a line."""
    names = sorted({*_tagged(language)})
    Path(target).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return {"names": len(names)}


def _tagged(language: str) -> Iterator[str]:
    from wenmai.data.datasets import find_dataset

    between = "" if language == "zh" else " "
    for sentence in find_dataset(TAGGED[language]).read("train"):
        own = list[str]()
        for token, tag in zip([*sentence.tokens, ""], [*sentence.tags, "O"], strict=True):
            if own and not tag.startswith("I-"):
                yield between.join(own)
                own = []
            if tag != "O":
                own.append(token)


def fill_names(run: str, on: str, names: str, order: Any) -> dict[str, Any]:
    """Masks names in the lines of a text, where they stand once, and counts those that a model recovers exactly.

    A name is asked for ten times at most, so that the most frequent ones do not decide.
    """
    import wenmai
    from wenmai.inference.cloze import clozes_of, probe_cloze
    from wenmai.text.names import NameMatcher

    matcher = NameMatcher(Path(names).read_text(encoding="utf-8").splitlines())
    texts = [line for line in Path(on).read_text(encoding="utf-8").splitlines() if line.strip()]
    asked, kept = Counter[str](), []
    for cloze in clozes_of(texts, matcher):
        name = cloze.text[cloze.start : cloze.end]
        asked[name] += 1
        if asked[name] <= MOST:
            kept.append(cloze)
    model: Any = wenmai.load(run)
    return probe_cloze(model, kept, order=order).as_dict() | {"names": len(asked)}


def pretraining_facts(run: str, language: str) -> dict[str, Any]:
    """Returns which tasks a run of ``ernie`` or ``ernie-2`` learned, and what it knew of each after each stage.

    ``by_stage`` has the metrics of the last evaluation within each stage, or nothing if there was none; ``missing``
    are tasks that ``ernie-2`` learns by default and this run did not; instead of its first task, a run may learn any
    other one that only masks.
    """
    from wenmai.core.registry import find_system
    from wenmai.data.pretraining import find_task
    from wenmai.training.records import read_records
    from wenmai.training.run import Run

    opened = Run(run)
    stages = opened.recipe.sections.get("stages")
    if stages is None:
        raise SystemExit(f"{opened.recipe.system} learns no tasks; expected runs of ernie or ernie-2")
    task: Any = find_system("ernie-2").load()
    usual = task.implied({"language": {"en": "english", "zh": "chinese"}[language]}, None)["stages.tasks"]
    masks = any(find_task(name).level == "none" for name in stages.tasks)
    missing = [name for name in usual[1:] if name not in stages.tasks]
    table = opened.summary["stages"]
    loop = opened.recipe.sections["train"]
    evaluations = [one for one in read_records(opened.path / "metrics.jsonl") if one["kind"] == "evaluation"]
    end, by_stage = 0, []
    for counts in zip(*table.values(), strict=True):
        begin, end = end, end + sum(counts)
        inside = [one for one in evaluations if begin < one["position"] * loop.accumulation <= end]
        by_stage.append(inside[-1]["figures"] if inside else {})
    return {
        "tasks": list(stages.tasks),
        "stages": stages.stages,
        "missing": missing if masks else ["knowledge masking", *missing],
        "table": table,
        "by_stage": by_stage,
        "run_seed": loop.seed,
        "in_minutes": loop.minutes is not None,
    }


def make_examples(corpus: str, settings: Mapping[str, Any], warm_up: int, folder: str) -> dict[str, Any]:
    """Times the batches of one task, after the first ``warm_up``: made alone, and in the training that reads them.

    Of planning a pass over the text, which is done before its first batch, the batches bear their share.
    """
    import numpy as np

    from wenmai.core.registry import find_system
    from wenmai.runs.planning import plan

    recipe, opened = plan("ernie-2", corpus, **settings)
    task: Any = find_system("ernie-2").load()
    data = task.source.read(recipe, opened.source, lambda *_: None, None)
    job: Any = task.begin(recipe, data)
    stream, _ = data.sentences(separator=data.tokenizer.sep_id)
    begin = time.perf_counter()
    drawn = job.tasks[0].examples(stream, np.random.default_rng(1))
    planning = time.perf_counter() - begin
    batches = job.plan(0)
    for batch in batches[:warm_up]:
        job.counts(batch)
    begin = time.perf_counter()
    for batch in batches[warm_up:]:
        job.counts(batch)
    making = time.perf_counter() - begin
    rows: list[int] = []

    def count(module: Any, given: Any) -> None:
        if module.training:
            rows.append(len(given[0].tokens))

    job.module.register_forward_pre_hook(count)
    found = timed_updates(job, warm_up, folder)
    counted = sum(rows[warm_up : len(batches)])
    making += planning * counted / len(drawn.lengths)
    return {
        "examples": counted,
        "made_per_second": counted / making,
        "examples_per_second": counted / found["seconds"],
        "planned": len(drawn.lengths),
        "planning_seconds": planning,
        "tokens_per_second": found["tokens_per_second"],
    }
