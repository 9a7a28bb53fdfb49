"""The report: one page, complete, escaped, self-contained, and honest about what is best."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from wenmai.core import wording
from wenmai.core.errors import RunError
from wenmai.runs.comparison import (
    ComparedCorpus,
    ComparedSystem,
    Comparison,
    CurvePoint,
    LinePoint,
    MapWord,
    Measure,
)
from wenmai.runs.measuring.vectors import VECTORS
from wenmai.runs.report import report_html, write_report

PAGE = Path(__file__).resolve().parents[2] / "wenmai" / "runs" / "page"
VOID = {"meta", "link", "input", "br", "hr", "img"}
HOSTILE = "</script><script>alert('\"&amp;')"


class Page(HTMLParser):
    """Parses a page strictly: every element is closed in order; keeps the text, the cells and the attributes."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text, self.cells = [], [], [], [], []
        self.data = ""
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> repeats an attribute"
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in {"td", "th"}:
            self.cells.append((dict(attrs), []))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        opened, _ = self.open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"

    def handle_data(self, data):
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag == "script" and attributes.get("id") == "data":
            self.data += data
        elif tag not in {"script", "style"}:
            self.text.append(data)
            if self.cells:
                self.cells[-1][1].append(data)

    def comparison(self):
        return json.loads(self.data)

    def visible(self):
        return " ".join(" ".join(self.text).split())

    def cell(self, beginning):
        return next(attrs for attrs, text in self.cells if "".join(text).startswith(beginning))


def a_system(name="word2vec", **changes):
    system = ComparedSystem(
        name=name,
        label="skip-gram",
        run=f"runs/{name}",
        settings={"epochs": 3, "hierarchical": False},
        loss_kind="negative sampling",
        curve=[CurvePoint(progress=p / 10, seconds=p * 1.5, loss=4 - p / 10) for p in range(11)],
        measures=[
            Measure(name="WS-353", kind="similarity", value=0.65, low=0.60, high=0.70, covered=340, total=353),
            Measure(
                name="Google",
                kind="analogy",
                value=0.312,
                low=0.30,
                high=0.32,
                covered=17000,
                total=19544,
                parts=[Measure(name="capital-world", kind="analogy", value=0.5, covered=10, total=20)],
            ),
        ],
        words_per_second=2.6e6,
        seconds=16.2,
        peak_memory_bytes=240_000_000,
        size_bytes=57_000_000,
        vocabulary=71_290,
        parameters=14_258_000,
        neighbours={"king": [("queen", 0.8), ("国王", 0.7)]},
        map=[MapWord(word="king", x=0.5, y=-1.25, count=120, cluster=3)],
    )
    return replace(system, **changes)


def a_comparison(*systems, **changes):
    comparison = Comparison(
        systems=list(systems) or [a_system()],
        corpus=ComparedCorpus(name="en8", tokens=14_100_000, sentences=6000, types=200_000, fingerprint="9f2b"),
        command="wenmai compare --systems a,b en8.txt",
        machine={"processor": "a CPU", "cores": 2, "wenmai": "0.1.0"},
        queries=["king"],
        kinds=dict(VECTORS.kinds),
    )
    return replace(comparison, **changes)


def similarity(value, low=None, high=None, **more):
    return Measure(name="WS-353", kind="similarity", value=value, low=low, high=high, **more)


def test_json_round_trip_through_text():
    comparison = a_comparison(a_system("a"), a_system("b", words_per_second=None), title="题目")
    assert Comparison.from_json(json.loads(json.dumps(comparison.to_json()))) == comparison


def test_numbers_that_json_does_not_know_are_stored_without_loss_of_the_rest():
    curve = [CurvePoint(progress=0.5, loss=math.nan), CurvePoint(progress=1.0, loss=np.float32(0.5))]
    stored = a_comparison(a_system(curve=curve, seconds=math.inf, size_bytes=np.int64(7))).to_json()
    again = Comparison.from_json(json.loads(json.dumps(stored, allow_nan=False))).systems[0]
    assert [point.loss for point in again.curve] == [None, 0.5]
    assert (again.seconds, again.size_bytes) == (None, 7)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ([], "the whole"),
        ({"systems": []}, "corpus"),
        ({"systems": [{"name": 3}], "corpus": {"name": "x"}}, r"systems\.0\.name"),
        ({"systems": [], "corpus": {"name": "x"}}, "at least one"),
        ({"systems": [{"name": "a"}, {"name": "a"}], "corpus": {"name": "x"}}, "'a'"),
    ],
)
def test_a_damaged_comparison_is_refused_by_the_name_of_the_field(value, named):
    with pytest.raises(RunError, match=named):
        Comparison.from_json(value)


def test_the_page_shows_every_figure_without_its_script():
    page = Page(report_html(a_comparison(a_system("a"), a_system("b", words_per_second=1.3e6))))
    text = page.visible()
    for figure in (
        "Two systems compared on en8",
        "14,100,000 tokens",
        "0.650",
        "0.600 – 0.700",
        "340 of 353 pairs",
        "31.2",
        "2.6\N{NO-BREAK SPACE}M",
        "16.2\N{NO-BREAK SPACE}s",
        "240\N{NO-BREAK SPACE}MB",
        "The fastest is a at 2.6\N{NO-BREAK SPACE}M words a second, 2.0 times as fast as b.",
        "capital-world",
        "Spearman’s rank correlation",
        "95 % of the draws",
        "Common to all: epochs=3 hierarchical=false",
        "runs/a",
        "9f2b",
        "wenmai compare --systems a,b en8.txt",
    ):
        assert " ".join(figure.split()) in text, figure


def test_one_system_is_reported_without_rivals():
    page = Page(report_html(a_comparison()))
    assert "word2vec on en8" in page.visible()
    assert "word2vec (skip-gram) was trained on 14,100,000 tokens of en8" in page.visible()
    assert {attrs.get("class") for attrs, _ in page.cells} & {"best", "noise"} == set()


def test_best_and_within_noise_are_marked_by_the_intervals():
    systems = [
        a_system("best", measures=[similarity(0.70, 0.66, 0.74)]),
        a_system("near", measures=[similarity(0.64, 0.60, 0.68)]),
        a_system("far", measures=[similarity(0.50, 0.45, 0.55)]),
        a_system("bare", measures=[similarity(0.69)]),
    ]
    page = Page(report_html(a_comparison(*systems)))
    marks = {value: page.cell(value)["class"] for value in ("0.700", "0.640", "0.500", "0.690")}
    assert marks == {"0.700": "best", "0.640": "noise", "0.500": "", "0.690": ""}
    assert "best is best, or within noise" not in page.visible()
    assert "best and near are each best, or within noise of the best, on the quality measure." in page.visible()


def test_a_measure_may_be_better_when_lower_and_of_a_kind_nobody_planned():
    def perplexity(value):
        return [Measure(name="held-out text", kind="perplexity", value=value, lower_is_better=True)]

    systems = [a_system("a", measures=perplexity(88.5)), a_system("b", measures=perplexity(120.25))]
    page = Page(report_html(a_comparison(*systems)))
    assert "Perplexity" in page.visible()
    assert page.cell("88.5")["class"] == "best"
    assert page.cell("120")["class"] == ""


def test_systems_may_lack_anything():
    bare = ComparedSystem(name="bare")
    other = a_system("other", measures=[Measure(name="MTurk", kind="similarity", value=math.nan)])
    page = Page(report_html(a_comparison(bare, a_system("whole"), other)))
    assert sum("".join(text).strip() == "–" for _, text in page.cells) >= 8
    Page(report_html(Comparison(systems=[bare], corpus=ComparedCorpus(name="x"))))


def test_coverage_stands_in_the_cells_only_where_systems_differ():
    same = [a_system(name, measures=[similarity(0.5, covered=300, total=353)]) for name in "ab"]
    assert Page(report_html(a_comparison(*same))).visible().count("300 of 353") == 1
    unlike = [*same, a_system("c", measures=[similarity(0.5, covered=120, total=353)])]
    text = Page(report_html(a_comparison(*unlike))).visible()
    assert "353 pairs" in text
    assert text.count("300 of 353 covered") == 2
    assert text.count("120 of 353 covered") == 1


def test_no_word_or_name_becomes_markup():
    hostile = ComparedSystem(
        name=HOSTILE,
        label=HOSTILE,
        run=HOSTILE,
        settings={HOSTILE: HOSTILE},
        loss_kind=HOSTILE,
        measures=[Measure(name=HOSTILE, kind=HOSTILE, value=0.5, parts=[Measure(name=HOSTILE, kind="x", value=1.0)])],
        neighbours={HOSTILE: [(HOSTILE, 0.5)]},
        map=[MapWord(word=HOSTILE, x=0.0, y=0.0, count=1)],
    )
    corpus = ComparedCorpus(name=HOSTILE, segment=HOSTILE, fingerprint=HOSTILE, facts={HOSTILE: HOSTILE})
    comparison = a_comparison(
        hostile,
        replace(hostile, name="$other ${title}"),
        corpus=corpus,
        title=HOSTILE,
        command=HOSTILE,
        created=HOSTILE,
        machine={HOSTILE: HOSTILE},
        queries=[HOSTILE],
        map_method=HOSTILE,
    )
    page = Page(report_html(comparison))
    assert page.tags.count("script") == 2
    assert page.comparison() == comparison.to_json()
    assert page.visible().count(HOSTILE) > 15
    assert "$other ${title}" in page.visible()


def test_the_page_needs_nothing_from_outside():
    source = report_html(a_comparison(a_system("a"), a_system("b")))
    page = Page(source)
    assert set(re.findall(r"https?://[^\s\"'<>]*", source)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|innerHTML", source)
    addresses = {value for _, name, value in page.attributes if name in {"src", "href", "srcset", "action", "data"}}
    assert addresses <= {"data:,"}
    policy = next(value for _, name, value in page.attributes if name == "content" and "default-src" in value)
    assert policy.startswith("default-src 'none'")


def test_the_numbers_of_the_page_are_finite():
    strange = a_system(
        "strange",
        curve=[CurvePoint(progress=0.1, loss=math.nan), CurvePoint(progress=1.0, loss=math.inf)],
        measures=[similarity(math.nan), Measure(name="B", kind="similarity", value=0.5, low=math.nan, high=math.inf)],
        words_per_second=math.nan,
        seconds=math.inf,
        settings={"alpha": math.nan},
        neighbours={"king": [("queen", math.nan)]},
    )
    page = Page(report_html(a_comparison(strange, a_system("b"), machine={"load": math.nan})))
    assert not re.search(r"\bnan\b|\binf\b|infinity", page.visible(), re.IGNORECASE)
    assert "NaN" not in page.data
    assert "Infinity" not in page.data


def test_every_id_and_every_element_the_script_asks_for_is_in_the_page():
    source = report_html(a_comparison())
    ids = [value for _, name, value in Page(source).attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"(?:byId|getElementById)\(\"([^\"]+)\"\)", source)) <= set(ids)


def test_ten_systems_of_five_hundred_words_stay_small(tmp_path):
    random = np.random.default_rng(1)
    words = [f"word{number}" for number in range(500)]
    systems = [
        a_system(
            f"system-{number}",
            curve=[CurvePoint(progress=p / 5000, seconds=p * 0.1, loss=random.random()) for p in range(5001)],
            map=[
                MapWord(word=word, x=float(x), y=float(y), count=1000, cluster=1)
                for word, (x, y) in zip(words, random.normal(size=(500, 2)), strict=True)
            ],
            neighbours={query: [(word, random.random()) for word in words[:10]] for query in words[:40]},
        )
        for number in range(10)
    ]
    path = tmp_path / "report.html"
    write_report(a_comparison(*systems), path)
    assert path.stat().st_size < 2_000_000
    curve = Page(path.read_text("utf-8")).comparison()["systems"][3]["curve"]
    assert len(curve) <= 300
    assert (curve[0]["progress"], curve[-1]["progress"]) == (0, 1)


def test_restless_curves_have_means_over_an_epoch_or_a_tenth_beside_what_was_recorded():
    teeth = [CurvePoint(progress=p / 60, epoch=-(-p // 10), loss=5 - p // 10 / 2 + p % 10) for p in range(1, 61)]
    teeth[30] = CurvePoint(progress=31 / 60, epoch=4, loss=None)
    few = [CurvePoint(progress=p / 40, epoch=-(-p // 20), loss=p % 2) for p in range(1, 41)]
    smooth = [CurvePoint(progress=p / 60, epoch=-(-p // 10), loss=60 - p) for p in range(1, 61)]
    curves = {"many": teeth, "few": few, "smooth": smooth, "short": few[:19]}
    page = Page(report_html(a_comparison(*(a_system(name, curve=curve) for name, curve in curves.items()))))
    shown = {system["name"]: system["curve"] for system in page.comparison()["systems"]}
    for name, curve in curves.items():
        assert [point["loss"] for point in shown[name]] == [point.loss for point in curve]  # what was recorded
        assert any("mean" in point for point in shown[name]) == (name in ("many", "few"))
    means = [point["mean"] for point in shown["many"][5:55] if point["loss"] is not None]
    assert max(means) - min(means) < 4 < 9
    assert "mean" not in shown["many"][30]
    assert shown["many"][10]["mean"] == pytest.approx(sum(one.loss for one in teeth[6:16]) / 10)  # an epoch
    assert shown["few"][20]["mean"] == pytest.approx(sum(one.loss for one in few[19:23]) / 4)  # a tenth


def test_twenty_systems_have_a_row_and_a_line_each():
    page = Page(report_html(a_comparison(*(a_system(f"system-{number}") for number in range(20)))))
    lines = [value for tag, name, value in page.attributes if tag == "line" and name in {"stroke", "stroke-dasharray"}]
    looks = list(zip(lines[::2], lines[1::2], strict=True))
    assert len(set(looks)) == 20
    assert "20 systems were trained on the same 14,100,000 tokens" in page.visible()


def line(*values):
    return [LinePoint(x=10.0 * place, y=value) for place, value in enumerate(values, 1)]


def keys(source):
    """The names in the key of each system, with their colours and dashes."""
    item = re.compile(r'<li>.*?stroke="([^"]*)" stroke-dasharray="([^"]*)".*?<span>(.*?)</span></li>')
    figures = re.findall(r'<figure data-system="(\d+)">(.*?)</figure>', source)
    return {int(number): {name: (colour, dash) for colour, dash, name in item.findall(key)} for number, key in figures}


def test_tasks_have_a_key_for_each_system_with_a_colour_for_each_name():
    many = {f"task {number}": line(2.0, 1.0) for number in range(6)}
    first = a_system("first", by_task={"loss": many, "accuracy": {"task 1": line(0.1, 0.5), "masked": line(0.2, 0.3)}})
    plain = a_system("plain")
    other = a_system("other", by_task={"loss": {"pair": line(0.7, 0.6), "task 1": line(3.0, 2.0)}}, stages=[15])
    source = report_html(a_comparison(first, plain, other))
    found = keys(source)
    assert {number: list(names) for number, names in found.items()} == {
        0: [*many, "masked"],
        2: ["pair", "task 1"],
    }
    assert found[2]["task 1"] == found[0]["task 1"] == ("var(--s1)", "")
    assert len({look for names in found.values() for look in names.values()}) == 8
    assert found[0]["masked"] == ("var(--s0)", "6 3")
    shown = Page(source).comparison()["systems"]
    assert shown[2]["by_task"]["loss"]["pair"] == [{"x": 10, "y": 0.7, "note": ""}, {"x": 20, "y": 0.6, "note": ""}]
    assert shown[2]["stages"] == [15]


def test_tasks_without_a_curve_are_not_drawn_and_long_ones_are_thinned():
    none = a_system("none", by_task={"loss": {"a": line(1.0), "b": line(math.nan, 2.0, math.inf), "c": []}})
    assert keys(report_html(a_comparison(none))) == {}
    hostile = a_system("long", by_task={"accuracy": {HOSTILE: line(*range(2000)), "b": line(1.0)}})
    source = report_html(a_comparison(none, hostile))
    assert len(keys(source)[1]) == 1
    assert HOSTILE in Page(source).visible()
    points = Page(source).comparison()["systems"][1]["by_task"]["accuracy"][HOSTILE]
    assert (len(points), points[0]["x"], points[-1]["x"]) == (300, 10, 20_000)


def test_chinese_is_written_as_it_is_and_broken_text_does_not_stop_the_report(tmp_path):
    path = tmp_path / "report.html"
    broken = a_system(neighbours={"\udc80": [("\x00\x1b", 0.5)]})
    write_report(a_comparison(broken, corpus=ComparedCorpus(name="中文维基")), path)
    assert "中文维基" in path.read_text("utf-8")
    assert Page(path.read_text("utf-8")).comparison()["systems"][0]["neighbours"]["?"] == [["\x00\x1b", 0.5]]


def test_a_report_that_fails_leaves_the_old_one(tmp_path):
    path = tmp_path / "report.html"
    write_report(a_comparison(), path)
    before = path.read_bytes()
    with pytest.raises(RunError, match="title"):
        write_report(a_comparison(title=3), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_what_pages_are_made_of_can_be_read():
    files = [path for path in PAGE.iterdir() if path.suffix in {".js", ".css", ".html"}]
    long = [path.name for path in files for line in path.read_text("utf-8").splitlines() if len(line) > 120]
    assert len(files) > 7
    assert not long


def test_what_both_pages_need_is_written_once():
    common, page, alignment = (
        set(re.findall(r"^const .*", (PAGE / name).read_text("utf-8"), re.M))
        for name in ("common.js", "page.js", "alignment.js")
    )
    assert len(common) > 10
    assert not common & (page | alignment)
    assert not page & alignment


@pytest.mark.parametrize("name", ["page.js", "alignment.js"])
def test_no_name_is_declared_twice_in_a_joined_script(name):
    """Browsers refuse a whole script for that, and nothing of the page is drawn."""
    script = "".join((PAGE / one).read_text("utf-8") for one in ("common.js", name))
    names = []
    for kind, rest in re.findall(r"^(const|let|var|function|class)\b\s*(.*)", script, re.M):
        if kind in ("function", "class"):
            names += re.findall(r"\w+", rest)[:1]
            continue
        plain = rest
        while plain != (plain := re.sub(r"\([^()]*\)|\[[^\[\]]*\]|(?<==\s)\{[^{}]*\}", "", plain)):
            pass
        names += re.findall(r"(?:^|,\s*)(\w+)\s*(?==(?![=>])|,|;|$)", plain)
    assert len(names) > 20
    assert sorted(names) == sorted({*names})


def test_the_method_of_the_maps_is_in_the_language_of_the_reader():
    comparison = a_comparison(map_method="principal components")
    assert "Laid out by principal components." in report_html(comparison)
    wording.speak("zh")
    try:
        assert "布局方法：主成分分析。" in report_html(comparison)
    finally:
        wording.speak(None)


@pytest.mark.parametrize(("language", "colon"), [("en", ":"), ("zh", "：")])
def test_a_note_stands_behind_a_colon(language, colon):
    measure = replace(similarity(0.5), notes=["something"])
    comparison = a_comparison(a_system("a", measures=[measure]))
    wording.speak(language)
    try:
        assert f"<li><b>a, {measure.name}{colon}</b>" in report_html(comparison)
    finally:
        wording.speak(None)
