"""Fine-tuned taggers: tags of all marks, and the ends of entities."""

import math

import pytest

import wenmai
from tests.tasks.finetuning.trained import tuned
from wenmai.core.errors import SettingError
from wenmai.data.tags import bio_tags
from wenmai.data.typed import TaggedSentence
from wenmai.inference.finetuned_tokens import Tagging

MARKS = ["BIO", "BIOES", "BMEOS", "BILOU", "BIOS", "BIOE", "IO"]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("marks", MARKS)
def test_entities_of_any_marks_can_be_measured(begin, marks, padded):
    known = begin("tagging", "bert", valid_share=0).fine_tuned
    labels = ["O", *(f"{mark}-{kind}" for kind in "XY" for mark in marks.replace("O", ""))] + ["[PAD]"] * padded
    network = Tagging.network(known.backbone, known.shape, known.reading, labels)
    model = Tagging(network, known.shape, known.reading, labels, known.numbers)
    examples = [TaggedSentence(("a", "b", "c"), ("B-X", "I-X", "O")), TaggedSentence(("a", "b"), ("O", "B-Y"))]
    items = model.items([model.gold(one) for one in examples])
    outputs = model.outputs(items)
    assert all(map(math.isfinite, model.costs(examples, items, outputs)))
    entities = [{(0, 2, "X")}, {(1, 2, "Y")}]
    for target, own in zip(model.targets(examples, items), entities, strict=True):
        assert model.spans([labels[number] for number in target]) == own
    measured = model.measured(examples, items, outputs)
    assert sum(one.support for one in measured.types) == 2
    strange = [TaggedSentence(("a", "b", "c"), ("B-Z", "O", "O"))]
    assert model.costs(strange, items[:1], outputs[:1]) == [math.inf]


@pytest.mark.parametrize("crf", [False, True])
def test_ends_of_entities_are_learned_too(begin, base, data, tmp_path, crf):
    plain = begin("tagging", "bert", valid_share=0)
    job = begin("tagging", "bert", valid_share=0, tag_ends=True, crf=crf)
    model, sentences = job.fine_tuned, job._data.train
    types = {label[2:] for label in plain.fine_tuned.labels if label != "O"}
    assert set(model.labels) == {"O"} | {f"{mark}-{kind}" for mark in "BIES" for kind in types}
    for target, sentence in zip(job._train.targets, sentences, strict=True):
        tags = [model.labels[number] for number in target]
        assert bio_tags(tags, "bioes") == sentence.tags
        assert model.spans(tags) == plain.fine_tuned.spans(sentence.tags)
    run = tuned(base, data, tmp_path, "tagging", "bert", tag_ends=True, crf=crf, epochs=20)
    found = wenmai.evaluate(run, on=data("tagging"))
    assert found.result.f1 > 0.9
    assert found.result.accuracy > 0.9
    tags = {tag for one in run.model.tag(["a b c d e f g h"]) for tag in one.tags}
    assert tags <= set(model.labels)


@pytest.mark.parametrize("crf", [False, True])
@pytest.mark.parametrize("settings", [{}, {"tag_ends": True}])
@pytest.mark.parametrize("mark", ["X", "[PAD]"])
def test_what_stands_beside_tags_of_entities_is_learned_as_it_is(begin, mark, settings, crf):
    content = f"a B-X\nb I-X\nc {mark}\n\nd O\ne B-Y\nf {mark}\n\n" * 5
    job = begin("tagging", "bert", content, valid_share=0, crf=crf, **settings)
    model = job.fine_tuned
    found = [[model.labels[number] for number in target] for target in job._train.targets[:2]]
    single, end = ("S", "E") if settings else ("B", "I")
    assert found == [["B-X", f"{end}-X", mark], ["O", f"{single}-Y", mark]]


@pytest.mark.parametrize("crf", [False, True])
@pytest.mark.parametrize("begins_inside_ends_alone", ["BIES", "BMES", "BILU"])
def test_entities_of_any_marks_are_learned_beside_padding(begin, begins_inside_ends_alone, crf):
    begins, inside, ends, alone = begins_inside_ends_alone
    tags = [[f"{begins}-X", f"{inside}-X", f"{ends}-X", "X"], [f"{alone}-Y", "O", "X"], [f"{begins}-Y", f"{ends}-Y"]]
    rows = "".join("".join(f"{word} {tag}\n" for word, tag in zip("abcd", one, strict=False)) + "\n" for one in tags)
    job = begin("tagging", "bert", rows * 5, valid_share=0, crf=crf)
    found = [[job.fine_tuned.labels[number] for number in target] for target in job._train.targets[: len(tags)]]
    assert found == tags


def test_tags_that_are_numbers_are_noted(begin, base):
    def noted(content, task="tagging"):
        _, notes = begin(task, "bert", content, valid_share=0).changes(base("bert").model)
        return [note for note in notes if "all tags are numbers" in note]

    assert noted("a 1\nb 0\n\n" * 9)
    assert not noted("a B-X\nb O\n\n" * 9)
    assert not noted("text\tlabel\n" + "a b\t1\nc\t0\n" * 9, "classification")


def test_ends_need_entities(begin):
    with pytest.raises(SettingError, match="tag_ends=true has no effect on tags that are no entities"):
        begin("tagging", "bert", "a NOUN\nb VERB\n\n" * 9, tag_ends=True, valid_share=0)
    with pytest.raises(SettingError, match="tag_ends=True has no effect on finetuned-classification"):
        begin("classification", "bert", tag_ends=True)


def test_a_head_goes_on_if_its_tags_have_other_marks(begin, base, data, tmp_path):
    first = tuned(base, data, tmp_path, "tagging", "bert", tag_ends=True)
    given = {"out": tmp_path / "again", "quiet": True, "threads": 1, "steps": 1, "learning_rate": 1e-9}
    again = wenmai.finetune(first, data("tagging"), task="tagging", tag_ends=True, **given)
    for name, one in again.model.module.head.state_dict().items():
        assert (one - first.model.module.head.state_dict()[name]).abs().max() < 1e-6
    balanced = begin("tagging", "bert", valid_share=0, tag_ends=True, class_weight="balanced").fine_tuned
    counts = dict(zip(balanced.labels, balanced.weights.tolist(), strict=True))
    assert min(counts.values()) == counts["O"]
