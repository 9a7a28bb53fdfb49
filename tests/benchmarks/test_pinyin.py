"""The section on pinyin: finished networks beside the ladder, sizes of the text, parts measured alone."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from benchmarks import pinyin, pinyin_ladder, pinyin_networks
from benchmarks.harness import ROOT, Results
from benchmarks.page import page_text
from benchmarks.pinyin_ladder import Held, measured, session_of, tuning_sentences, typed
from benchmarks.pinyin_networks import SHARES, in_share
from benchmarks.pinyin_page import ladder
from benchmarks.readme import PINYIN
from benchmarks.result import Result, read_results

HEAD: dict[str, Any] = {
    "theme": "pinyin", "quick": False, "commands": ["python -m benchmarks pinyin --only networks"], "peer": {},
    "finished": "2026-01-01T00:00:00+00:00", "corpus": None, "settings": {},
    "machine": {"processor": "A", "cores": 2, "memory_bytes": 8e9, "platform": "Linux"},
}  # fmt: skip
FOUND = {"set": "aishell", "form": "spaced", "cer": 0.0512, "sentence_accuracy": 0.625, "sentences_per_second": 1234.0}


class Spelt(NamedTuple):
    text: str


class Echo:
    """A converter whose candidates are known."""

    def __init__(self, known: dict[str, str]) -> None:
        self.known = known

    def convert(self, texts: list[str]) -> list[list[Spelt]]:
        return [[Spelt(self.known[text])] if text in self.known else [] for text in texts]

    def session(self) -> Any:
        return SimpleNamespace(type=lambda letter: [letter])


def test_the_page_has_networks_sizes_and_sessions(tmp_path: Path) -> None:
    results = Results(tmp_path / "pinyin.json", HEAD)
    facts = {"train_seconds": 4500.0, "size_bytes": 30e6, "train_memory_bytes": 1.2e9}
    results.add({"part": "networks", "rung": "with the encoder", "weight": 0.5, **FOUND, **facts})
    results.add({"part": "sizes", "system": "pinyin-ngram", "share": 0.01, **FOUND})
    results.add(
        {"part": "network-session", "rung": "encoder", "median_ms": 7.25, "processor_ms": 7.0, "most_processor_ms": 9}
    )
    shares = {"accuracy": 0.995, "low": 0.99, "high": 0.999}
    others = {"pypinyin": 0.9944, "pypinyin_low": 0.99, "pypinyin_high": 0.998}
    results.add({"part": "annotation", "rung": "encoder", "set": "aishell", "syllables": 7145, **shares, **others})
    text = page_text(read_results(tmp_path))
    assert "| encoder | aishell | 7,145 | 99.50% [99.00%, 99.90%] | 99.44% [99.00%, 99.80%] |" in text
    assert "| with the encoder | 4,500 | 30 | 1,200 |" in text
    assert "| with the encoder | aishell | spaced | 0.0512 | 62.5% | 1,234 |" in text
    assert "| `pinyin-ngram` | 1% | aishell | spaced | 0.0512 | 62.5% |" in text
    assert "| encoder | 7.2 | 7.0 | 9.0 |" in text


def test_the_pages_have_the_ladder_and_say_where_a_rung_is_worse() -> None:
    def row(part: str, rung: str, name: str, cer: float, **others: Any) -> dict[str, Any]:
        row = {"part": part, "rung": rung, "set": name, "form": "unspaced", "sentences": 500}
        return {**row, "cer": cer, "cer_low": cer - 0.01, "cer_high": cer + 0.01, **others}

    rows = [
        row("ladder", "words", "aishell", 0.12),
        row("ladder", "words", "zhwiki", 0.12),
        row("ladder", "words", "aishell", 0.99, form="spaced"),
        row("ladder", "character bigram", "aishell", 0.13),
        row("ladder", "character bigram", "zhwiki", 0.11),
        row("networks", "encoder", "aishell", 0.05, sentences=343),
        {"part": "readings", "set": "aishell"},
    ]
    result = Result({**HEAD, "rows": rows})
    assert ladder(result, chinese=False).splitlines() == [
        "| model | aishell, 500 sentences | zhwiki, 500 sentences |",
        "| --- | --: | --: |",
        "| words | 0.1200 [0.1100, 0.1300] | 0.1200 [0.1100, 0.1300] |",
        "| character bigram | 0.1300 [0.1200, 0.1400] ↑ | 0.1100 [0.1000, 0.1200] |",
        "| encoder | 0.0500 [0.0400, 0.0600] (343) | - |",
        "",
        "CER with 95 % intervals. ↑: more errors than the row above. The character bigram has more errors than words "
        "alone on 1 of 2 sets: a word list already has the frequencies of whole words, and a bigram knows one "
        "character before.",
    ]
    chinese = ladder(result, chinese=True)
    assert "| 字的二元语法 | 0.1300 [0.1200, 0.1400] ↑ |" in chinese
    assert "aishell，500 句" in chinese
    assert "alone on" not in ladder(Result({**HEAD, "rows": rows[:2]}), chinese=False)
    assert ladder(Result({**HEAD, "rows": rows[-1:]}), chinese=False) == "Not measured yet.\n"
    assert [(ROOT / name).read_text("utf-8").count("<!-- measured -->") for name in PINYIN] == [1, 1]


def test_a_converter_is_measured_on_what_is_typed() -> None:
    sentence = Held("女儿好", ("nv3", "er2", "hao3"))
    assert [typed(sentence, form) for form in pinyin_ladder.FORMS] == ["nverhao", "nv er hao", "nv3 er2 hao3"]
    pairs = [("ni hao", "你好"), ("wo", "我"), ("?", "他")]
    found = measured(Echo({"ni hao": "你号", "wo": "我"}), "a set", "spaced", pairs)
    assert found["cer"] == 0.5  # one character is wrong, one is missing
    assert found["sentence_accuracy"] == pytest.approx(1 / 3)
    assert found["set"] == "a set"
    keys = session_of(Echo({}))
    assert keys["keys"] == len(pinyin_ladder.SESSION.replace(" ", ""))


def test_the_weight_is_found_on_sentences_that_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pypinyin")
    reviews = ["房间很干净。", "服务非常好。", "早餐太差了！", "short", "位置不方便。"]
    monkeypatch.setattr(pinyin_ladder, "_sentences", lambda source: iter(reviews))
    held = {"chnsenticorp": [Held("服务非常好。", ())]}
    found = [one.text for one in tuning_sentences(held, 3)]
    assert sorted(found) == sorted(["房间很干净。", "早餐太差了！", "位置不方便。"])


def test_smaller_parts_of_a_text_are_in_larger_ones() -> None:
    lines = [f"{number}\n" for number in range(5000)]
    parts = [list(in_share(lines, share)) for share in SHARES]
    assert parts[-1] == lines
    assert {*parts[0]} < {*parts[1]}
    for part, share in zip(parts, SHARES, strict=True):
        assert len(part) == pytest.approx(share * len(lines), rel=0.3)


def test_parts_are_measured_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinyin, "require", lambda name: None)
    monkeypatch.setattr(
        pinyin, "PARTS", {part: lambda bench, add, part=part: add({"part": part, **FOUND}) for part in pinyin.PARTS}
    )
    results = Results(tmp_path / "pinyin.json", HEAD)
    for part in ("ladder", "networks", "network-session", "annotation", "sizes"):
        results.add({"part": part, "old": True})

    def bench(*only: str) -> Any:
        return SimpleNamespace(options=SimpleNamespace(only=only), results=lambda *some, **others: results)

    pinyin.run(bench("networks"))
    assert [(row["part"], "old" in row) for row in results.rows] == [
        ("ladder", True),
        ("sizes", True),
        ("networks", False),
    ]
    with pytest.raises(SystemExit, match="there is no part nothing"):
        pinyin.run(bench("nothing"))


def test_runs_that_do_not_convert_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinyin_networks, "bench_text", lambda bench: (tmp_path, {}))
    monkeypatch.setattr(pinyin_networks, "tested_sets", lambda held: {})
    monkeypatch.setattr(pinyin_networks, "Run", lambda path: SimpleNamespace(recipe=SimpleNamespace(system="gpt")))
    bench: Any = SimpleNamespace(options=SimpleNamespace(runs=(Path("a"),)), quick=False)
    with pytest.raises(SystemExit, match="gpt does not convert pinyin"):
        pinyin_networks.measure_networks(bench, lambda row: None)
