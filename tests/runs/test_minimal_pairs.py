"""Language models on minimal pairs: sentences by themselves, unknown words, spellings, the shell and comparisons."""

import json
import random

import pytest

import wenmai
from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.minimal_pairs import SPELLINGS, MinimalPair
from wenmai.measures.language import SentenceScore
from wenmai.runs.compare import compare
from wenmai.runs.measuring.minimal_pairs import find_spelling, measured

WORDS = {"cat": "cats", "dog": "dogs", "bird": "birds", "horse": "horses"}
SMALL = {
    "ngram": {"order": 3},
    "rnnlm": {"hidden_size": 24, "num_layers": 1, "dropout": 0, "learning_rate": 0.02, "epochs": 3},
    "gpt": {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_length": 8, "epochs": 1, "kind": "words"},
    "nnlm": {"hidden_size": 16, "embedding_size": 8, "order": 3, "epochs": 1},
    "transformer-xl": {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "epochs": 1},
}
NEURAL = {"threads": 1, "batch_tokens": 128, "segment_length": 8, "min_count": 1}


class Stub:
    """A language model that knows some words, and finds a sentence less likely with each word and unknown word."""

    def __init__(self, known):
        self.known, self.asked = known, []

    def score(self, texts, *, context=None):
        assert context == "fresh"
        for text in texts:
            self.asked.append(text)
            words = text.split()
            unknown = sum(word not in self.known for word in words)
            yield SentenceScore(text=text, log_prob=-2.0 * len(words) - unknown, tokens=len(words) + 1, oov=unknown)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A text in which numbers agree, with spaces before full stops, and pairs of two paradigms."""
    path, draw = tmp_path_factory.mktemp("pairs"), random.Random(1)
    lines = []
    for _ in range(400):
        one, many = draw.choice(list(WORDS.items()))
        lines.append(draw.choice([f"A {one} sings .\n", f"Two {many} sing .\n", f"This {one} sings .\n"]))
    (path / "text.txt").write_text("".join(lines))
    records = [
        ("A {} sings.", "A {} sing.", "verb_one", "verb"),
        ("Two {}s sing.", "Two {}s sings.", "verb_many", "verb"),
        ("This {} sings.", "This {}s sings.", "noun_one", "noun"),
    ]
    with (path / "pairs.jsonl").open("w") as file:
        for good, bad, uid, term in records:
            for word in [*WORDS, "zebra"]:
                record = {"sentence_good": good.format(word), "sentence_bad": bad.format(word)}
                file.write(json.dumps(record | {"UID": uid, "linguistics_term": term}) + "\n")
    return path


@pytest.fixture(scope="module")
def runs(folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WENMAI_CACHE", str(tmp_path_factory.mktemp("cache")))
        return {
            system: wenmai.train(
                system, folder / "text.txt", out=folder / system, quiet=True, **settings,
                **({} if system == "ngram" else NEURAL),
            )
            for system, settings in SMALL.items()
        }  # fmt: skip


@pytest.mark.parametrize("system", SMALL)
def test_a_pair_is_right_if_its_good_sentence_is_likelier_by_itself(runs, folder, system):
    found = wenmai.evaluate(runs[system], pairs=folder / "pairs.jsonl", quiet=True)
    spell, model = SPELLINGS[found.spelling], wenmai.load(runs[system].path)
    by_paradigm = {}
    for line in (folder / "pairs.jsonl").read_text().splitlines():
        record = json.loads(line)
        good, bad = model.more_likely(*(spell(record[f"sentence_{name}"]) for name in ("good", "bad")))
        right = good.log_prob > bad.log_prob and abs(good.log_prob - bad.log_prob) > 1e-5
        by_paradigm.setdefault(record["UID"], []).append(right)
    assert {one.name: one.accuracy for one in found.result.paradigms} == {
        name: sum(own) / len(own) for name, own in by_paradigm.items()
    }
    assert found.as_dict()["accuracy"] == pytest.approx(sum(sum(own) / 5 for own in by_paradigm.values()) / 3)
    if system in ("ngram", "rnnlm"):  # the others learn for a moment only
        assert found.result.total.accuracy >= 0.8


def test_the_words_of_a_model_decide_how_pairs_are_spelled(runs, folder):
    found = wenmai.evaluate(runs["ngram"], pairs=str(folder / "pairs.jsonl"), quiet=True)
    assert found.spelling == "wikitext"  # with a space before the full stop, as in the text
    assert (found.result.unknown, found.result.uneven, found.result.unknown_ties) == (3, 0, 1)
    assert found.result.total.ties == 1  # "This zebra sings", "This zebras sings"
    assert any("wikitext" in note for note in found.notes)
    assert any("in 1 pair (6.7%)" in note for note in found.notes)
    written = wenmai.evaluate(runs["ngram"], pairs=folder / "pairs.jsonl", spelling="written", quiet=True)
    assert written.result.total.ties > found.result.total.ties  # "sings." and "sing." are unknown
    asked = wenmai.evaluate(runs["ngram"], pairs=folder / "pairs.jsonl", spelling="wikitext", quiet=True)
    assert asked.as_dict() == found.as_dict()
    assert not any("spelled" in note for note in asked.notes)  # the model did not choose


@pytest.mark.parametrize(
    ("known", "spelling"),
    [
        ("He does n't sing .", "penn"),
        ("he doesn 't sing .", "wikitext-lower"),
        ("He doesn't sing.", "written"),
        ("he doesn t sing", "letters"),
        ("zebra", "written"),  # no spelling helps
    ],
)
def test_the_spelling_with_the_fewest_unknown_words_is_taken(known, spelling):
    pairs = [MinimalPair("He doesn't sing.", "He doesn't sings.", "p", "p")] * 3
    assert find_spelling(Stub(known.split()), pairs) == spelling


def test_other_letters_than_english_are_left_as_they_are():
    pairs = [MinimalPair("她说，好。", "她好，说。", "p", "p")]
    model = Stub(())
    assert find_spelling(model, pairs) == "written"
    assert measured(model, pairs)[0].total.ties == 1
    assert set(model.asked) == {"她说，好。", "她好，说。"}


def test_sentences_are_scored_in_order_of_length_and_told_in_order():
    pairs = [MinimalPair("a b c d", "a b c", "p", "p"), MinimalPair("a", "a b", "q", "q")]
    model, told = Stub("abcd"), []
    result, _ = measured(model, pairs, "written", lambda done, total: told.append((done, total)))
    assert model.asked == ["a", "a b", "a b c", "a b c d"]
    assert result.outcomes.tolist() == [False, True]
    assert told == [(4, 4)]


def test_the_shell_shows_phenomena_or_paradigms(runs, folder, shell):
    arguments = ("evaluate", runs["ngram"].path, "--pairs", folder / "pairs.jsonl")
    lines = shell(*arguments).out.splitlines()
    assert lines[0].startswith("pairs.jsonl: accuracy 0.")
    assert "the mean of 3 paradigms" in lines[0]
    assert "of 15 pairs; 1 ties count as wrong" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["phenomenon", "verb", "noun"]
    lines = shell(*arguments, "--by", "paradigm").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["paradigm", "verb_one", "verb_many", "noun_one"]
    finished = shell(*arguments, "--limit", 2, "--json")
    (shell.folder / "mine.tsv").write_text("A cat sings.\tA cat sing.\n")
    assert shell("evaluate", runs["ngram"].path, "--pairs", "mine.tsv").out == (
        "mine.tsv: accuracy 1.0000 [0.2065, 1.0000], 1 pair\n"
    )
    found = json.loads(finished.out)
    assert (found["pairs"], found["spelling"], len(found["paradigms"])) == (6, "wikitext", 3)
    assert "note: the pairs are spelled" in finished.err
    expected = wenmai.evaluate(runs["ngram"], pairs=folder / "pairs.jsonl", limit=2, quiet=True)
    assert found | {"run": ""} == json.loads(json.dumps(expected.as_dict())) | {"run": ""}
    assert len(expected.table().rows) == 3


def test_comparisons_have_a_column_with_phenomena(runs, folder, shell, tmp_path):
    text, pairs = str(folder / "text.txt"), str(folder / "pairs.jsonl")
    found = compare([runs["ngram"], runs["gpt"]], out=tmp_path / "both", on=[text], pairs=[pairs], quiet=True)
    measures = [next(one for one in system.measures if one.kind == "minimal-pairs") for system in found.systems]
    assert [one.name for one in measures] == ["pairs.jsonl"] * 2
    assert measures[0].value == wenmai.evaluate(runs["ngram"], pairs=pairs, quiet=True).result.total.accuracy
    assert (measures[0].covered, measures[0].total) == (14, 15)
    assert [part.name for part in measures[0].parts] == ["verb", "noun"]
    assert measures[0].difference is None
    assert measures[1].difference.value == pytest.approx(measures[1].value - measures[0].value)
    report = (tmp_path / "both" / "report.html").read_text()
    assert "Minimal pairs, % right" in report
    assert "pairs.jsonl by section" in report
    alone = shell("compare", *(run.path for run in runs.values()), "--pairs", pairs, "--json", "--out", "alone")
    systems = json.loads(alone.out)["systems"]
    assert [[one["kind"] for one in system["measures"]] for system in systems] == [["minimal-pairs"]] * len(runs)
    assert "Effect of context" not in (shell.folder / "alone" / "report.html").read_text()


def test_mistakes_are_told(runs, folder, shell):
    run, pairs = runs["ngram"], folder / "pairs.jsonl"
    for options, said in (
        (
            {"pairs": pairs, "by": "paradigms"},
            "--by paradigms: expected phenomenon or paradigm; did you mean 'paradigm'",
        ),
        ({"pairs": pairs, "spelling": "wiki"}, "--spelling wiki: expected written, wikitext"),
        ({"pairs": pairs, "limit": 0}, "a limit of 0 pairs of a paradigm: expected 1 or more"),
        ({"pairs": pairs, "on": pairs}, "--pairs is evaluated by itself"),
        ({"pairs": pairs, "context": "fresh"}, "--pairs is evaluated by itself"),
        ({"pairs": pairs, "few_shot": 1}, "--pairs is evaluated by itself"),
        ({"pairs": [("a", "b")]}, "pairs is the name of a file, not list"),
        ({"on": pairs, "by": "paradigm"}, "--by and --spelling go with --pairs FILE"),
        ({}, "name at least one test set: --on FILE or --pairs FILE, for language models"),
    ):
        with pytest.raises(SettingError, match=said):
            wenmai.evaluate(run, quiet=True, **options)
    with pytest.raises(CorpusError, match=r"missing\.tsv: no such file; expected minimal pairs"):
        wenmai.evaluate(run, pairs="missing.tsv", quiet=True)
    with pytest.raises(SettingError, match="name at least one test set: --on FILE or --pairs FILE"):
        compare([run], out=folder / "nothing", quiet=True)
    refused = shell("compare", "--systems", "ngram", folder / "text.txt", "--pairs", "missing.tsv", code=3)
    assert "missing.tsv: no such file" in refused.err
    assert not list(shell.folder.glob("runs/*/ngram"))
