"""Fine-tuning: what is refused, and what is said of the data."""

import json
import re
import shutil
from dataclasses import replace

import pytest

import wenmai
from tests.contract.examples import TEXTS
from tests.tasks.finetuning.trained import PLAIN
from wenmai.core.errors import CorpusError, SettingError
from wenmai.data.datasets import Dataset
from wenmai.data.typed import TaggedSentence
from wenmai.inference.finetuned_tokens import scheme_of
from wenmai.text.segment import treebank_spans

# --- what is refused ------------------------------------------------------------------------------------------------


def test_what_is_refused(begin, base, data, tmp_path):
    with pytest.raises(CorpusError, match="label 'early'"):
        begin("classification", "bert", "text\tlabel\na b\tearly\nc\tearly\n", valid_share=0)
    text = tmp_path / "text.txt"
    text.write_text(TEXTS["text.txt"]["enough"])
    ngram = wenmai.train("ngram", text, out=tmp_path / "ngram", quiet=True, order=2)
    with pytest.raises(SettingError, match="a run of ngram has no encoder that can be fine-tuned"):
        wenmai.finetune(ngram, data("classification"), task="classification", out=tmp_path / "no")
    assert not (tmp_path / "no").exists()
    with pytest.raises(SettingError, match="no task is called 'tagged'; did you mean 'tagging'"):
        wenmai.finetune(base("bert"), data("tagging"), task="tagged")
    with pytest.raises(SettingError, match="name what the encoder is to learn"):
        wenmai.finetune(base("bert"), data("tagging"))


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        (["O", "B-X", "I-X"], "bio"),
        (["O", "B-X", "E-X", "S-Y"], "bioes"),
        (["O", "I-X"], "io"),
        (["NN", "VB"], "none"),
        (["O"], "none"),
        (["O", "B-X", "NN"], "none"),
        (["[PAD]", "O", "B-X", "I-X", "S-X"], "bioes"),
        (["X", "O", "B-X", "I-X"], "bio"),
        (["NN", "X", "<pad>"], "none"),
    ],
)
def test_the_scheme_of_tags_is_seen(labels, scheme):
    assert scheme_of(labels) == scheme


def test_settings_of_other_tasks_are_refused(begin):
    reading = begin("classification", "bert").recipe.sections["reading"]
    for name, value in {"stride": 3, "answer_length": 2, "both_orders": True}.items():
        assert getattr(replace(reading, **{name: value}), name) == value
        with pytest.raises(SettingError, match=f"{name}={value} has no effect on finetuned-classification"):
            begin("classification", "bert", **{name: value})


@pytest.mark.parametrize(
    ("task", "start", "settings", "message"),
    [
        (
            "classification",
            "bert",
            {"lm_weight": 0.1},
            "lm_weight=0.1 has no effect on an encoder that does not predict",
        ),
        ("classification", "gpt", {"lm_weight": 0, "mode": "frozen"}, "lm_weight=0 has no effect with mode=frozen"),
        ("pair", "elmo", {"both_orders": True}, "both_orders has no effect on an encoder that reads two texts one by"),
        ("classification", "bert", {"mode": "lora", "lora_targets": ""}, "lora_targets names no projection; name some"),
    ],
)
def test_settings_that_the_encoder_does_not_heed_are_refused(begin, task, start, settings, message):
    with pytest.raises(SettingError, match=message):
        begin(task, start, **settings)


# --- what is said of the data ---------------------------------------------------------------------------------------


def test_what_is_left_out_of_the_validation_data_is_said(begin, tmp_path):
    valid = tmp_path / "dev.tsv"
    valid.write_text("text\tlabel\na b\tx\n\ty\nc d\ty\n")
    job = begin("classification", "bert", "text\tlabel\na b\tx\nb c\ty\n", valid=str(valid))
    _, notes = job.changes(None)
    assert "to validate on: 1 example was left out because a text is empty" in notes


def test_labels_that_only_what_was_set_aside_has_are_named(begin):
    texts = [" ".join("abcdefgh"[place] for place in (number % 8, number // 8, number % 3)) for number in range(60)]
    lines = [f"{text}\t{'xy'[number % 2]}" for number, text in enumerate(dict.fromkeys(texts))]
    plain = begin("classification", "bert", "text\tlabel\n" + "\n".join(lines) + "\n")
    aside = plain._data.valid[0].text
    rare = [line.partition("\t")[0] + "\tz" if line.startswith(aside + "\t") else line for line in lines]
    job = begin("classification", "bert", "text\tlabel\n" + "\n".join(rare) + "\n")
    assert job._data.untrained == ("z",)
    _, notes = job.changes(None)
    assert any(
        note.startswith("no example that was trained on has the labels z: those that have them were set")
        for note in notes
    )
    assert not plain._data.untrained


def test_types_that_only_what_was_set_aside_has_are_named(begin):
    lines = [" ".join("abcdefgh"[place] for place in (n % 8, n // 8, n % 3)) for n in range(60)]

    def content(rare=None):
        tags = {True: ("B-Z", "O", "O"), False: ("B-X", "O", "B-Y")}
        rows = ["\n".join(map(" ".join, zip(line.split(), tags[line == rare], strict=True))) for line in lines]
        return "\n\n".join(rows) + "\n"

    plain = begin("tagging", "bert", content())
    assert not plain._data.untrained
    job = begin("tagging", "bert", content(" ".join(plain._data.valid[0].tokens)))
    assert job._data.untrained == ("Z",)
    assert any(note.startswith("no example that was trained on has the labels Z") for note in job.changes(None)[1])


def test_questions_that_are_cut_are_counted(begin, caplog):
    model = begin("span", "bert").fine_tuned
    model.items([("a", "a b c"), ("a " * 70, "a b c")])
    (message,) = caplog.messages
    assert message.startswith("1 question longer than the ")
    caplog.clear()
    model.items([("a", "a b c")])
    assert not caplog.messages


@pytest.mark.parametrize(
    ("words", "cut"),
    [
        ("我 爱 NBA 2019 ， 去", ["我", "爱", "N.B.A", "，", "去", "北", "京", "2020"]),
        ("我 爱 去", ["我", "爱", "N", ".", "B", ".", "A", "，", "去", "北", "京", "2", "0", "2", "0"]),
        ("a cat", None),
        ("我们 喜欢 北京 NBA", None),
    ],
)
def test_sentences_are_cut_as_those_that_were_trained_on(begin, words, cut):
    model = begin("tagging", "bert").fine_tuned
    model.learn([TaggedSentence(words.split(), ["O"] * len(words.split()))])
    text = "我爱N.B.A，去北京2020"
    found = [text[low:high] for low, high in model.words(text)]
    assert found == (cut or [text[low:high] for low, high in treebank_spans(text)])


def test_words_are_cut_at_the_marks_that_divide_those_that_were_trained_on(begin):
    model = begin("tagging", "bert").fine_tuned

    def learned(*sentences):
        model.learn([TaggedSentence(words.split(), ["O"] * len(words.split())) for words in sentences])
        text = "X-induced 2.5 c-d."
        return [text[low:high] for low, high in model.words(text)]

    cut = ["X", "-", "induced", "2", ".", "5", "c", "-", "d", "."]
    assert learned(*3 * ["drug - induced pain", "a 3 . 5 b"]) == cut
    plain = ["X-induced", "2.5", "c-d", "."]
    assert learned(*2 * ["drug - induced pain"]) == plain  # which may be chance
    assert learned(*9 * ["one . The other ."], "a Mr. b") == plain
    assert learned(*9 * ["a - b"], *3 * ["-a"]) == plain
    assert learned("a - b", "Paris-based c .") == ["X-induced", "2.5", "c-d", "."]


def test_splits_that_are_in_one_file_are_told_apart(base, tmp_path, monkeypatch):
    labels, words = ("entailment", "neutral", "contradiction"), "abcdefgh"
    rows = [
        {"sentence1": f"{one} {words[number % 8]}", "sentence2": words[number % 5], "label": labels[number % 3]}
        for number, one in enumerate(words * 30)
    ]
    (tmp_path / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(Dataset, "path", lambda *_: tmp_path / "rows.json")
    run = wenmai.finetune(base("bert"), "data:ocnli", task="pair", out=tmp_path / "run", quiet=True, **PLAIN)
    assert any("was chosen by these" in note for note in wenmai.evaluate(run, on="data:ocnli").notes)
    assert any("was trained on these" in note for note in wenmai.evaluate(run, on="data:ocnli/train").notes)
    settings = {"task": "pair", "quiet": True, "valid": "data:ocnli/dev", **PLAIN}
    run = wenmai.finetune(base("bert"), "data:ocnli/dev", out=tmp_path / "dev", **settings)
    assert any("was trained on these" in note for note in wenmai.evaluate(run, on="data:ocnli/dev").notes)
    assert not wenmai.evaluate(run, on="data:ocnli/train").notes


def test_what_was_learned_from_or_chosen_by_is_noted(base, data, tmp_path):
    path = data("classification")
    valid = tmp_path / "valid.tsv"
    shutil.copy(path, valid)
    run = wenmai.finetune(
        base("bert"), path, task="classification", out=tmp_path / "run", quiet=True, valid=str(valid), **PLAIN
    )
    assert any("was trained on these examples" in note for note in wenmai.evaluate(run, on=path).notes)
    assert any("was chosen by these examples" in note for note in wenmai.evaluate(run, on=valid).notes)
    other = tmp_path / "other.tsv"
    shutil.copy(path, other)
    assert any("was trained on these examples" in note for note in wenmai.evaluate(run, on=other).notes)
    corpus = run.path / "corpus.json"
    facts = json.loads(corpus.read_text())
    corpus.write_text(json.dumps({**facts, "sources": [{"path": "gone"}, {"sha256": "", "bytes": 1}]}))
    assert not wenmai.evaluate(run.path, on=other).notes
    corpus.write_text(json.dumps(facts))
    with other.open("a") as file:
        file.write(other.read_text().splitlines()[-1] + "\n")
    (note,) = wenmai.evaluate(run, on=other).notes
    assert re.search(r"(\d+) of \1 examples are among those that the model was trained on", note)
    some = [("never seen", "early"), *[(row.split("\t")[0], "late") for row in path.read_text().splitlines()[1:2]]]
    assert "1 of 2 examples are among those" in wenmai.evaluate(run, on=some).notes[0]
    path.write_text("text\tlabel\nnever seen\tearly\n")
    assert not wenmai.evaluate(run, on=path).notes  # another text, where the training's was
    shutil.copy(valid, path)
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("train", "dev"):
        shutil.copy(path, folder / f"{name}.tsv")
    run = wenmai.finetune(base("bert"), folder, task="classification", out=tmp_path / "two", quiet=True, **PLAIN)
    assert any("was chosen by these examples" in note for note in wenmai.evaluate(run, on=folder).notes)


@pytest.mark.parametrize("scale", ["e-200", "e308"])
def test_numbers_that_cannot_be_computed_with_are_refused(begin, scale):
    rows = "".join(f"a b {'c ' * place}\t{sign}1.{place}{scale}\n" for place in range(5) for sign in ("", "-"))
    with pytest.raises(CorpusError, match="too far or too near; scale them"):
        begin("regression", "bert", "text\tscore\n" + rows, valid_share=0)
