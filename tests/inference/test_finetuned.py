"""Files of fine-tuned models: what is written is read again, and damage is noticed."""

import json
from types import SimpleNamespace

import pytest

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.core.errors import FormatError, SettingError
from wenmai.core.registry import find_system
from wenmai.data.typed import TaggedSentence
from wenmai.inference.finetuned_tokens import Tagging

TASKS = ("classification", "pair", "regression", "tagging", "span", "choice")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The model folder of each task."""
    folder, found = tmp_path_factory.mktemp("runs"), {}
    for name in ("bert", "elmo", "gpt", *(f"finetuned-{task}" for task in TASKS)):
        example = EXAMPLES[name]
        (folder / example.data).write_text(TEXTS[example.data]["enough"])
        start = None if example.start is None else found[example.start]
        settings = {**example.settings, "epochs": 1}
        found[name] = wenmai.train(
            name, folder / example.data, out=folder / name, start=start, quiet=True, **settings
        ).path
    return {task: found[f"finetuned-{task}"] / "model" for task in TASKS}


def damaged(trained, task, change):
    """Reads the model of a task after its ``config.json`` was changed; restores it."""
    path = trained[task] / "config.json"
    before = path.read_text()
    content = json.loads(before)
    change(content)
    path.write_text(json.dumps(content))
    try:
        return find_system(f"finetuned-{task}").load().load(trained[task])
    finally:
        path.write_text(before)


def setting(*path, value):
    def change(content):
        for name in path[:-1]:
            content = content[name]
        content[path[-1]] = value

    return change


@pytest.mark.parametrize("task", TASKS)
def test_nothing_of_the_model_is_trusted(trained, task):
    changes = [
        setting("kind", value="bert"),
        setting("encoder", value=None),
        setting("encoder", "kind", value="word2vec"),
        setting("encoder", "kind", value="finetuned-tagging"),
        setting("encoder", "kind", value=["bert"]),
        setting("encoder", "model", value={"hidden_size": 1 << 40}),
        setting("encoder", "model", "num_layers", value=1 << 30),
        setting("encoder", "vocab_size", value=3),
        setting("encoder", "vocab_size", value="many"),
        setting("encoder", "tokens", value=1),
        setting("head", "mix", value=True) if task != "regression" else setting("head", "mix", value=False),
        setting("head", "lora_rank", value=3),
        setting("head", "compares", value=task != "regression") if task != "regression" else setting("head", value=1),
        setting("head", "unknown", value=1),
        setting("reading", "max_length", value=3),
        setting("reading", "pooling", value="auto"),
        setting("labels", value=["a", "a"]),
        setting("labels", value="ab"),
        setting("labels", value=["a", "b", "c", "d", "e", "f", "g"]),
        setting("numbers", value={"nothing_like_it": 1.0}),
        setting("numbers", value=[]),
        setting("version", value=2),
    ]
    unnoticed = []
    for number, change in enumerate(changes):
        try:
            damaged(trained, task, change)
        except FormatError as error:
            unnoticed += [number] if "\n" in str(error) else []
        else:
            unnoticed.append(number)
    assert unnoticed == []
    assert damaged(trained, task, lambda content: None).task == task


def test_numbers_that_are_none_are_noticed(trained):
    for value in (None, "1", True, 1e999):
        with pytest.raises(FormatError):
            damaged(trained, "regression", setting("numbers", "mean", value=value))


def test_a_pooler_that_is_not_there_is_noticed(trained):
    with pytest.raises(FormatError, match="pooling=pooler"):
        damaged(trained, "choice", setting("reading", "pooling", value="pooler"))
    with pytest.raises(FormatError, match="is damaged: layer=99 is nothing that the head can see"):
        damaged(trained, "classification", setting("head", "layer", value=99))


def test_tags_are_right_whatever_scheme_they_are_written_in():
    labels = ["O", "B-X", "I-X", "E-X", "S-X"]
    model = SimpleNamespace(labels=labels, scheme="bioes", decoded=lambda outputs: (outputs, None))
    examples = [TaggedSentence(("a", "b", "c"), ("B-X", "E-X", "S-X"))]
    result = Tagging.measured(model, examples, [], [[1, 2, 1]])  # B I B: the same entities, by other marks
    assert result.f1 == 1
    assert result.accuracy == 1
    result = Tagging.measured(model, examples, [], [[1, 3, 0]])
    assert (result.accuracy, result.recall) == (pytest.approx(2 / 3), 0.5)


def test_what_is_left_out_of_long_texts_is_said(trained, caplog):
    long, note = "a b " * 20, "1 of 2 examples are longer than the {} tokens that the model reads, and were cut"
    for task, ask in (
        ("classification", lambda model: model.predict([long, "a"])),
        ("choice", lambda model: model.choose([(long, "", ["a", "b"]), ("a", "", ["a", "b"])])),
        ("classification", lambda model: model.embed([long, "a"])),
        ("tagging", lambda model: model.embed([long, "a"])),
    ):
        caplog.clear()
        model = find_system(f"finetuned-{task}").load().load(trained[task])
        ask(model)
        assert [note.format(model.length) in one for one in caplog.messages] == [True], task
    caplog.clear()
    model = find_system("finetuned-tagging").load().load(trained["tagging"])
    assert len(model.tag([long])[0].tags) > model.length
    assert not caplog.messages  # read in windows, all of it


@pytest.mark.parametrize(
    ("task", "ask", "message"),
    [
        ("classification", lambda model, one: model.predict([one]), "the model takes single texts"),
        ("pair", lambda model, one: model.predict([one]), "the model takes two texts"),
        ("regression", lambda model, one: model.rate([one]), "the model takes single texts"),
        ("tagging", lambda model, one: model.tag([one]), "tag takes sentences"),
        ("span", lambda model, one: model.answer([one]), "answer takes pairs"),
        ("choice", lambda model, one: model.choose([one]), "choose takes"),
    ],
)
def test_what_has_no_order_is_refused(trained, task, ask, message):
    model = find_system(f"finetuned-{task}").load().load(trained[task])
    for given in ({"text1": "a", "text2": "b", "text3": "c"}, {"question": "a", "context": "b"}, {"a", "b"}):
        with pytest.raises(SettingError, match=message):
            ask(model, given)


@pytest.mark.parametrize("task", ["classification", "pair"])
def test_no_labels_at_all_cannot_be_asked_for(trained, task):
    model = find_system(f"finetuned-{task}").load().load(trained[task])
    for k in (0, -2):
        with pytest.raises(SettingError, match=f"k={k}: expected at least 1 label, or -1 for all"):
            model.predict(["a\tb" if task == "pair" else "a"], k)


@pytest.mark.parametrize(
    ("task", "verb"),
    [
        ("classification", "predict"),
        ("classification", "embed"),
        ("pair", "predict"),
        ("regression", "rate"),
        ("tagging", "tag"),
        ("span", "answer"),
        ("choice", "choose"),
    ],
)
def test_inputs_have_an_order(trained, task, verb):
    model = find_system(f"finetuned-{task}").load().load(trained[task])
    for given in ("a b", {"a b", "h"}, frozenset({("a", "b")}), {"text": ["a", "b"]}):
        with pytest.raises(SettingError, match=f"{verb} takes a list; put a single one in brackets"):
            getattr(model, verb)(given)
    with pytest.raises(SettingError, match=f"{verb} takes a list; put a single one in brackets"):
        getattr(model, verb)(b"a b")
    with pytest.raises(SettingError, match=f"{verb} takes a list, not a table; give one of its columns"):
        getattr(model, verb)(Table({"text": ["a", "b"]}))


class Table(dict):
    """What pandas would have: its items are the names of its columns."""

    columns, iloc = ("text",), None


def test_numbers_are_written_with_the_digits_that_tell_texts_apart(trained):
    model = find_system("finetuned-regression").load().load(trained["regression"])
    for deviation, value, written in (
        (1.0, 4.0345678, "4.03457"),
        (17.0, 1_700_000_028.98765, "1700000028.9876"),
        (1e-4, 0.00123456789, "0.001234568"),
        (1e9, 2.5, "2.5"),
        (1e-320, 4.0345678, "4.03457"),
    ):
        model.numbers["deviation"] = deviation
        assert model.written(value) == written
