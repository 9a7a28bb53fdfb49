"""Readings of Chinese text against the pinyin of transcripts; converting pinyin by counts and networks; speed."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.harness import Bench, in_turn, require
from benchmarks.pinyin_ladder import measure_ladder, measure_session
from benchmarks.pinyin_networks import measure_networks, measure_sizes
from benchmarks.result import Result, Rows
from benchmarks.section import Section, table
from wenmai.data.transliteration import TransliterationExample, read_gold
from wenmai.text.pinyin.readings import readings_of
from wenmai.text.pinyin.syllables import without_tone

__all__ = ["SETS", "SIDES", "run"]

SETS = ("data:aishell-dev", "data:thchs-train")
SIDES = ("ours", "pypinyin")
SPEED = "characters_per_second"
QUICK_SENTENCES = 200
SHOWN = 8  # disagreements on the page

PARTS = {
    "ladder": measure_ladder,
    "session": measure_session,
    "networks": measure_networks,
    "sizes": measure_sizes,
}
REPLACED = {"networks": ("network-session", "annotation")}  # further parts of which a measurement makes rows

Reader = Callable[[str], list[str]]


def run(bench: Bench) -> None:
    """Measures the parts that ``--only`` names, or all."""
    require("pypinyin")
    only = bench.options.only  # parts that are measured again
    if unknown := sorted({*only} - {"readings", *PARTS}):
        raise SystemExit(f"--only: there is no part {', '.join(unknown)}; expected readings, {', '.join(PARTS)}")
    results = bench.results("pinyin", {"sets": SETS}, corpus=False, keep=bool(only), baselines=("pypinyin",))
    if not only or "readings" in only:
        results.remove(part="readings")
        for name in SETS:
            sentences = _different(name)[: QUICK_SENTENCES if bench.quick else None]
            gold = _disagreement(sentences)
            for repeat in range(bench.repeats(3)):
                for side in in_turn(SIDES, repeat):
                    seconds, found = _read(_reader(side), sentences)
                    shared = {"part": "readings", "set": name, "side": side, "repeat": repeat, "seconds": seconds}
                    speed = sum(len(one.characters) for one in sentences) / seconds
                    results.add({**shared, "characters_per_second": speed, **gold(found)})
    for part, measure in PARTS.items():
        if not only or part in only:
            for one in (part, *REPLACED.get(part, ())):
                results.remove(part=one)
            measure(bench, results.add)


def _different(name: str) -> list[TransliterationExample]:
    """Returns the sentences of a set, each once."""
    return list({example.characters: example for example in read_gold(name)}.values())


def _reader(side: str) -> Reader:
    if side == "ours":
        return readings_of
    from pypinyin import Style, lazy_pinyin

    def read(text: str) -> list[str]:
        options = {"neutral_tone_with_five": True, "v_to_u": False, "errors": list}
        return lazy_pinyin(text, style=Style.TONE3, **options)

    return read


def _read(reader: Reader, sentences: Sequence[TransliterationExample]) -> tuple[float, list[list[str]]]:
    reader(sentences[0].characters)  # the dictionary is read
    begin = time.perf_counter()
    found = [reader(example.characters) for example in sentences]
    return time.perf_counter() - begin, found


def _disagreement(sentences: Sequence[TransliterationExample]) -> Callable[[list[list[str]]], dict[str, Any]]:
    """Returns what compares readings with the gold pinyin, syllable by syllable."""

    def compare(readings: list[list[str]]) -> dict[str, Any]:
        toned = toneless = total = 0
        wrong: Counter[tuple[str, str, str]] = Counter()
        for example, reading in zip(sentences, readings, strict=True):
            for character, gold, found in zip(example.characters, example.syllables, reading, strict=True):
                if gold == character:
                    continue
                total += 1
                toneless += without_tone(gold) != without_tone(found)
                if gold != found:
                    toned += 1
                    wrong[character, gold, found] += 1
        most = [[*key, count] for key, count in wrong.most_common(20)]
        shares = {"toned": toned / total, "toneless": toneless / total}
        return {"sentences": len(sentences), "syllables": total, **shares, "disagreements": most}

    return compare


def tables(_: Section, result: Result) -> Iterator[str]:
    """Yields the most frequent disagreements of each set."""
    rows = Rows(row for row in result.rows if row["part"] == "readings" and row["side"] == "ours")
    if not rows:
        return
    yield "The most frequent disagreements: the character, what is gold, what was found, and how often.\n"
    cells = []
    for name, own in rows.by("set").items():
        shown = (f"{one[0]} {one[1]} {one[2]} {one[3]:,}" for one in own[0]["disagreements"][:SHOWN])
        cells.append({"transcripts": f"`{name}`", "disagreements": "; ".join(shown)})
    yield table(cells)
