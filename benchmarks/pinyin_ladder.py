"""Pinyin to characters by counts: the ladder from words alone to words with 5-grams, and its speed."""

import csv
import json
import random
import re
import statistics
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import Bench
from wenmai.core.compressed import reading
from wenmai.data.catalogue import get
from wenmai.data.transliteration import read_gold
from wenmai.inference.pinyin_ngram import PinyinNgramModel
from wenmai.measures.conversion import measure_conversion
from wenmai.text.pinyin.letters import typed_letters
from wenmai.text.pinyin.readings import readings_of

__all__ = [
    "FORMS",
    "RUNGS",
    "SESSION",
    "SOURCES",
    "Held",
    "bench_text",
    "measure_ladder",
    "measure_session",
    "measured",
    "session_of",
    "tested_sets",
    "training_text",
    "tuning_sentences",
    "typed",
]

SOURCES = (
    "zhwiki-sample",
    "thucnews-dev",
    "chnsenticorp-train",
    "cluener-train",
    "ocnli-train-10k",
    "c3-train",
    "c3-dev",
    "ernie-match-train",
    "ernie-match-triples",
    "cmrc2018-trial",
    "cmrc2018-dev-part1",
    "sxu-train",
    "aishell-dev",
    "thchs-train",
)
RUNGS: Mapping[str, Mapping[str, Any]] = {
    "words": {"character_weight": 0, "word_weight": 0, "list_weight": 1, "order": 1},
    "character bigram": {"longest": 1, "character_weight": 1, "list_weight": 0, "order": 2},
    "character 5-gram": {"longest": 1, "character_weight": 1, "list_weight": 0, "order": 5},
    "words and 5-gram": {},
}
TYPED = Path(__file__).with_name("pinyin_typed.csv")  # 50 everyday sentences, typed for this
FORMS = ("unspaced", "spaced", "toned spaced")
SESSION = "jin tian tian qi hen hao wo men yi qi qu gong yuan kan mei li de feng jing ba"  # 20 syllables
_HELD, _QUICK = 500, 3  # sentences of each set
_QUICK_LINES = 3000  # sentences of the training text
_CHINESE = re.compile("[\u4e00-\u9fff]")
_PLAIN = re.compile("[\u4e00-\u9fff，。！？、；：“”]{4,50}")
_SENTENCE = re.compile("(?<=[。！？；])")

Add = Callable[[Mapping[str, Any]], None]
Pairs = dict[tuple[str, str], list[tuple[str, str]]]


class Held(NamedTuple):
    """A sentence that was held out, and its reading."""

    text: str
    reading: tuple[str, ...]


def measure_ladder(bench: Bench, add: Add) -> None:
    """Trains each rung and measures it."""
    text, held = bench_text(bench)
    sets = tested_sets(held)
    for rung in RUNGS:
        model, facts = _trained(bench, text, rung)
        for (name, form), pairs in sets.items():
            add({"part": "ladder", **facts, **measured(model, name, form, pairs, threads=2)})


def measure_session(bench: Bench, add: Add) -> None:
    """Trains the best rung and types with it, key by key."""
    text, _ = bench_text(bench)
    *_, rung = RUNGS
    model, _ = _trained(bench, text, rung)
    add({"part": "session", "rung": rung, **session_of(model)})


def _trained(bench: Bench, text: Path, rung: str) -> tuple[PinyinNgramModel, dict[str, Any]]:
    """The model of a rung, trained unless it is there, with facts about it."""
    run = bench.work / rung.replace(" ", "-")
    facts = run.with_suffix(".json")
    if not facts.exists():
        flags = [f"--set={name}={value}" for name, value in RUNGS[rung].items()]
        summary, seconds = bench.wenmai("train", "pinyin-ngram", text, "--out", run, "--quiet", *flags)
        facts.write_text(json.dumps({"rung": rung, "train_seconds": seconds, "size_bytes": summary["size_bytes"]}))
    return PinyinNgramModel.load(run / "model"), json.loads(facts.read_text())


def bench_text(bench: Bench) -> tuple[Path, dict[str, list[Held]]]:
    """The training text of a workbench, written once, and what was held out of it."""
    target, kept = bench.work / "pinyin.txt", bench.work / "pinyin-held.json"
    if not kept.exists():
        held = training_text(target, *((_QUICK, _QUICK_LINES) if bench.quick else (_HELD,)))
        kept.write_text(json.dumps(held), encoding="utf-8")
    found = json.loads(kept.read_text("utf-8"))
    return target, {name: [Held(text, tuple(reading)) for text, reading in some] for name, some in found.items()}


def tested_sets(held: Mapping[str, Sequence[Held]]) -> Pairs:
    """What is typed and what is meant, by set and form; of the set of Kyubyong the first 100 sentences."""
    letters = {"kyubyong": "data:kyubyong", "typed by hand": TYPED}
    sets = {
        (name, "unspaced"): [(one.typed, one.characters) for one in read_gold(file)] for name, file in letters.items()
    }
    for name, sentences in held.items():
        for form in FORMS:
            sets[name, form] = [(typed(one, form), one.text) for one in sentences]
    return sets


def measured(
    model: Any,
    name: str,
    form: str,
    pairs: Sequence[tuple[str, str]],
    **options: Any,
) -> dict[str, Any]:
    """Returns the errors and the speed of a converter on sentences."""
    inputs, references = [one for one, _ in pairs], [one for _, one in pairs]
    model.convert(inputs[:2])
    begin = time.perf_counter()
    found = [one[0].text if one else "" for one in model.convert(inputs, **options)]
    speed = len(pairs) / (time.perf_counter() - begin)
    metrics = measure_conversion(references, found).as_dict()
    kept = ("cer", "cer_low", "cer_high", "sentence_accuracy", "sentences", "character_accuracy")
    return {"set": name, "form": form, "sentences_per_second": speed, **{key: metrics[key] for key in kept}}


def tuning_sentences(held: Mapping[str, Sequence[Held]], most: int) -> list[Held]:
    """Reviews that are neither in the training text nor among those that are measured."""
    seen = {one.text for one in held["chnsenticorp"]}
    reviews = sorted({one for one in _sentences("chnsenticorp-dev") if _PLAIN.fullmatch(one)} - seen)
    return [Held(one, (*readings_of(one),)) for one in random.Random(1).sample(reviews, most)]


def session_of(model: Any) -> dict[str, float]:
    """Types 20 syllables without spaces; milliseconds of the keys, by the clock of the processor too."""
    wall, busy = [], []
    for _ in range(3):
        session = model.session()
        for letter in SESSION.replace(" ", ""):
            begin, worked = time.perf_counter(), time.thread_time()
            session.type(letter)
            wall.append(1e3 * (time.perf_counter() - begin))
            busy.append(1e3 * (time.thread_time() - worked))
    keys = len(wall) // 3  # the first time compiles
    figures = {"median_ms": statistics.median(wall[keys:]), "processor_ms": statistics.median(busy[keys:])}
    last = {"last_processor_ms": busy[-1], "last_ms": wall[-1], "most_ms": max(wall[keys:])}
    return {**figures, "most_processor_ms": max(busy[keys:]), **last, "keys": keys}


def typed(sentence: Held, form: str) -> str:
    """What is typed for a sentence in one of ``FORMS``."""
    toned = form.startswith("toned")
    parts = typed_letters(sentence.reading, toned=toned, erhua=())
    return ("" if form == "unspaced" else " ").join(parts)


def training_text(target: Path, most: int, lines: int | None = None) -> dict[str, list[Held]]:
    """Writes up to so many sentences of ``SOURCES``, each once; returns up to ``most`` held-out ones of each set."""
    gold = {example.characters: example for example in read_gold("data:aishell-dev")}
    held: dict[str, list[Held]] = {"aishell": [], "zhwiki": [], "chnsenticorp": []}
    draw = random.Random(0)
    for sentence in draw.sample(sorted(gold), most):
        held["aishell"].append(Held(sentence, gold[sentence].syllables))
    reviews = {*_sentences("chnsenticorp-dev")}
    for sentence in draw.sample(sorted(filter(_PLAIN.fullmatch, reviews)), most):
        held["chnsenticorp"].append(Held(sentence, (*readings_of(sentence),)))
    seen = {one.text for one in held["aishell"]} | reviews
    text = ((source, sentence) for source in SOURCES for sentence in _sentences(source))
    with open(target, "w", encoding="utf-8") as file:
        for source, sentence in islice(text, lines):
            if sentence in seen:
                continue
            seen.add(sentence)
            if source == "zhwiki-sample" and _is_held(sentence) and len(held["zhwiki"]) < most:
                held["zhwiki"].append(Held(sentence, (*readings_of(sentence),)))
            else:
                file.write(sentence + "\n")
    if lines is None and (few := [f"{name} has {len(own)}" for name, own in held.items() if len(own) < most]):
        raise SystemExit(f"{most} sentences are to be held out of each set; {', '.join(few)}")
    return held


def _is_held(sentence: str) -> bool:
    return _PLAIN.fullmatch(sentence) is not None and zlib.crc32(sentence.encode()) % 50 == 0


def _sentences(source: str) -> Iterator[str]:
    """The sentences of a set of the catalogue, whatever its form: tables, JSON, or lines."""
    path = get(source)
    with reading(path) as file:
        content = file.read().decode("utf-8-sig")
    for part in _parts(content, path.name):
        for sentence in _SENTENCE.split("".join(part.split())):
            if _CHINESE.search(sentence):
                yield sentence


def _parts(content: str, name: str) -> Iterator[str]:
    if ".json" in name:
        try:
            yield from _strings(json.loads(content))
        except json.JSONDecodeError:
            for line in content.splitlines():
                yield from _strings(json.loads(line))
    elif ".csv" in name:
        for row in csv.reader(content.splitlines()):
            yield from row
    else:
        for line in content.splitlines():
            if not line.startswith("<"):
                yield from line.split("\t")


def _strings(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)
