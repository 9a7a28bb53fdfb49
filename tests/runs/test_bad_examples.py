"""What cannot be fine-tuned: each mistake in the examples is one clear message, and no run is left."""

import json

import pytest

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.core.errors import CorpusError, RunError, SettingError, WenmaiError
from wenmai.runs.train import train_recipe
from wenmai.training.callback import Callback

PLAIN = {"threads": 1, "epochs": 1, "learning_rate": 0.01, "valid_share": 0, "device": "cpu"}
TABLE = "text\tlabel\n" + "a b\tx\nc d\ty\n" * 4


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder, example = tmp_path_factory.mktemp("base"), EXAMPLES["bert"]
    (folder / example.data).write_text(TEXTS[example.data]["enough"])
    settings = {**example.settings, "epochs": 1}
    return wenmai.train("bert", folder / example.data, out=folder / "run", quiet=True, **settings).path


def asked(*answers, context="a b c", **more):
    question = {"id": "q", "question": "a", "answers": list(answers), **more}
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": [question]}]}]})


NOWHERE = {"text": "z", "answer_start": 0}


@pytest.mark.parametrize(
    ("task", "files", "settings", "message"),
    [
        (
            "classification",
            {"train.tsv": TABLE, "dev.tsv": "text\tlabel\na\tx\nb\tz\n"},
            {"valid": "dev.tsv"},
            r"dev\.tsv: line 3: the label 'z' is none of what is trained on \(x, y\)",
        ),
        (
            "tagging",
            {"train.txt": "a B-X\nb O\n", "dev.txt": "a B-Y\nb O\n"},
            {"valid": "dev.txt"},
            r"dev\.txt: line 1: the label 'B-Y' is none of what is trained on",
        ),
        ("classification", {"train.tsv": TABLE}, {"text_column": "txt"}, "no column is called 'txt'; did you mean"),
        ("pair", {"train.tsv": TABLE}, {}, "no column has a usual name for the first text"),
        ("classification", {"train.csv": "text,label\na,x\nb\n"}, {}, "line 3 has 1 column"),
        (
            "classification",
            {"train.jsonl": '{"text": "a", "label": "x"}\n{"text": "b"}\n'},
            {},
            "line 2: has no 'label'",
        ),
        ("tagging", {"train.jsonl": '{"tokens": ["a", "b"], "tags": ["O"]}\n'}, {}, "line 1: has 2 tokens and 1 tags"),
        ("tagging", {"train.txt": "a O\nb\nc O\n"}, {}, r"line 2 \('b'\) has 1 column, others 2"),
        ("tagging", {"train.txt": "token tag\na B-X\nb O\n"}, {}, "line 1: the tag 'tag' is of no entity, unlike B-X"),
        (
            "tagging",
            {"train.txt": "".join(f"a I-X\n{word} O\n\n" for word in "bcdefghi") + "b O\nb 0\n"},
            {"valid_share": 0.5, "limit": 2},
            "line 25: the tag '0' is of no entity, unlike I-X",
        ),
        ("span", {"train.json": asked(NOWHERE)}, {}, "the answer 'z' of question q is not at character 0 .* nowhere"),
        ("span", {"train.json": asked(NOWHERE)}, {"bad_answers": "repair"}, "no examples; .* none of its answers"),
        ("span", {"train.json": asked(is_impossible=True)}, {}, "none of the 1 questions has an answer"),
        (
            "tagging",
            {"train.txt": "a O\nb I-X\n\na B-X\nb O\n"},
            {"bad_tags": "error"},
            "I-X after O: no entity .* is open",
        ),
        ("classification", {"train.tsv": "text\tlabel\na\tx\nb\tx\n"}, {}, "all 2 examples have the label 'x'"),
        ("regression", {"train.tsv": "text\tscore\na\t1\nb\t1\n"}, {}, "all 2 examples have the number 1"),
        ("regression", {"train.tsv": "text\tscore\na\tnice\n"}, {}, "score is 'nice'; expected a number"),
        ("tagging", {"train.txt": "a O\nb O\n"}, {}, "all words of 1 sentences have the tag 'O'"),
        ("classification", {"train.tsv": TABLE}, {"valid_share": 0.1}, "not set aside .* have the label 'x'"),
        ("classification", {"train.tsv": TABLE}, {"limit": 1}, "limit=1: there are 2 labels"),
        (
            "classification",
            {"train.tsv": "text\tlabel\n\tx\n \ty\n"},
            {},
            "no examples; 2 examples were left out because a text is empty",
        ),
        (
            "classification",
            {"train.tsv": TABLE, "dev.tsv": "text\tlabel\n \tx\n"},
            {"valid": "dev.tsv"},
            "dev.tsv: no ex",
        ),
        ("classification", {"train.tsv": ""}, {}, "is empty; expected examples for classification"),
        ("classification", {"train.tsv": TABLE}, {"max_length": 99}, "max_length=99 is more than the 12 tokens"),
        ("classification", {"train.tsv": TABLE}, {"max_length": 4}, "max_length=4: expected"),
        ("span", {"train.tsv": TABLE}, {}, "is not JSON .* expected questions as SQuAD has them"),
        ("classification", {"train.json": asked(NOWHERE)}, {}, "no column has a usual name for the text"),
        (
            "classification",
            {"train.tsv": "text\tlabel\n你 好\tx\n世 界\ty\n"},
            {},
            "the vocabulary of the encoder lacks 100% of the pieces of the 2 examples",
        ),
        (
            "classification",
            {"train.tsv": "text\tlabel\na 好\tx\nb 界\ty\n"},
            {},
            "the vocabulary of the encoder lacks 50% of the pieces of the 2 examples; fine-tune one",
        ),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(task, files, settings, message, base, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(WenmaiError, match=message) as raised:
        wenmai.finetune(base, next(iter(files)), task=task, out="run", quiet=True, **PLAIN | settings)
    assert isinstance(raised.value, CorpusError | SettingError)
    assert "\n" not in str(raised.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)


def test_tags_may_be_taken_as_they_are(base, tmp_path):
    rows = [(["a", "b", "c"], ["B-X", "I-X", "x"])]
    run = wenmai.finetune(base, rows, task="tagging", out=tmp_path / "run", tag_scheme="none", quiet=True, **PLAIN)
    assert set(run.model.labels) == {"B-X", "I-X", "x"}


def test_texts_that_are_half_unknown_or_too_long_are_noted(base, tmp_path, capsys):
    rows = [("a 好 " + "b " * 20, "x"), ("c 界", "y"), ("d 人", "x")]
    wenmai.finetune(base, rows, task="classification", out=tmp_path / "run", quiet=True, **PLAIN)
    notes = capsys.readouterr().err
    assert "note: 1 of 3 examples are longer than the 12 tokens that the model reads, and were cut" in notes
    assert "note: the vocabulary of the encoder lacks 21% of the pieces of the examples" in notes


def test_unknown_pieces_are_noted_before_the_training(base, tmp_path):
    told = []

    class Told(Callback):
        def note(self, text):
            told.append(text.partition(" lacks")[0])

        def record(self, record):
            told.append("record")

    rows = [("a 好", "x"), ("c d", "y")]
    wenmai.finetune(base, rows, task="classification", out=tmp_path / "run", callback=Told(), **PLAIN)
    assert told[0] == "the vocabulary of the encoder"
    assert "record" in told


@pytest.mark.parametrize(
    ("verb", "given", "message"),
    [
        ("predict", ["a", None], "'None': the model takes single texts"),
        ("predict", [("a", "b")], "the model takes single texts"),
        ("predict", "a", "takes a list; put a single one in brackets"),
        ("embed", "a", "takes a list; put a single one in brackets"),
    ],
)
def test_what_a_model_does_not_take_is_refused(verb, given, message, base, tmp_path):
    rows = [("a b", "x"), ("c d", "y")]
    run = wenmai.finetune(base, rows, task="classification", out=tmp_path / "run", quiet=True, **PLAIN)
    with pytest.raises(SettingError, match=message):
        getattr(run.model, verb)(given)
    assert len(run.model.predict(["", " ", "a " * 99])) == 3
    with pytest.raises(RunError, match="which has no tag; it has classify, embed"):
        run.require("tag")


@pytest.mark.parametrize(
    ("task", "verb", "given", "message"),
    [
        ("pair", "predict", [3], "'3': the model takes two texts"),
        ("pair", "predict", [("a", None)], "one of the two is no text"),
        ("tagging", "tag", [None], "'None': tag takes sentences, each a text or a list of words"),
        ("tagging", "tag", [["a", None]], "tag takes sentences, each a text or a list of words"),
        ("span", "answer", [("a", None)], "answer takes pairs of a question and a text"),
        ("span", "answer", [None], "answer takes pairs of a question and a text"),
        ("choice", "choose", [("a", ["b", "c"])], "choose takes a text, a question and a list of options each"),
        ("choice", "choose", [("a", "b", "cd")], "choose takes a text, a question and a list of options each"),
    ],
)
def test_what_other_models_do_not_take_is_refused(task, verb, given, message, base, tmp_path):
    name = EXAMPLES[f"finetuned-{task}"].data
    (tmp_path / name).write_text(TEXTS[name]["enough"])
    run = wenmai.finetune(base, tmp_path / name, task=task, out=tmp_path / "run", quiet=True, **PLAIN)
    with pytest.raises(SettingError, match=message):
        getattr(run.model, verb)(given)


def test_equal_numbers_are_refused_whatever_their_sum_rounds_to(base, tmp_path):
    rows = [(f"a {number}", 0.7) for number in range(7)]
    with pytest.raises(CorpusError, match=r"all 7 examples have the number 0\.7; nothing can be learnt"):
        wenmai.finetune(base, rows, task="regression", out=tmp_path / "run", quiet=True, **PLAIN)


def test_a_folder_with_its_splits_is_trained_on_and_read_again(base, tmp_path):
    folder, settings = tmp_path / "data", {name: value for name, value in PLAIN.items() if name != "valid_share"}
    folder.mkdir()
    (folder / "train.tsv").write_text(
        "text\tlabel\n" + "".join(f"a {'b ' * n}\tx\nc {'d ' * n}\ty\n" for n in range(1, 31))
    )
    (folder / "dev.tsv").write_text("text\tlabel\na b\tx\nc d\ty\na c\ty\n")
    run = wenmai.finetune(base, folder, task="classification", out=tmp_path / "run", quiet=True, **settings)
    again = train_recipe(run.path / "recipe.yaml", out=tmp_path / "again", quiet=True)
    assert (run.corpus["examples"], run.corpus["valid_examples"]) == (60, 3)
    assert {name: again.corpus[name] for name in ("fingerprint", "valid_examples")} == {
        name: run.corpus[name] for name in ("fingerprint", "valid_examples")
    }
    assert again.summary["validation"] == run.summary["validation"]
