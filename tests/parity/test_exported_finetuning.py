"""Models that were fine-tuned here give the same in ``transformers``."""

import numpy as np
import pytest
import torch

import wenmai
from tests.parity.published import CHOICES, CLOSE, QUESTIONS, SPANS, TEXTS
from wenmai.core.errors import FormatError
from wenmai.data.typed import SpanExample
from wenmai.measures.questions import measure_questions
from wenmai.runs.formats import export_run, import_run

pytestmark = pytest.mark.parity
theirs = pytest.importorskip("transformers")

LEARNT = {"valid_share": 0.0, "epochs": 2, "learning_rate": 0.01, "threads": 1, "device": "cpu"}


@pytest.fixture
def exported(published, tmp_path):
    """Fine-tunes and exports; returns the run, and model and tokenizer of transformers."""

    def made(data, task, end, start="ForSequenceClassification", family="Bert", **settings):
        _, run = published(family, start)
        tuned = wenmai.finetune(run.path, data, task=task, out=tmp_path / "tuned", quiet=True, **LEARNT | settings)
        export_run(tuned, "huggingface", tmp_path / "export")
        auto = getattr(theirs, f"AutoModel{end}")
        model, loading = auto.from_pretrained(tmp_path / "export", output_loading_info=True)
        assert not any(loading[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        return tuned, model.eval(), theirs.AutoTokenizer.from_pretrained(tmp_path / "export")

    return made


def logits_of(model, read, *texts):
    with torch.no_grad():
        return model(**read(*texts, padding=True, return_tensors="pt")).logits.double()


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize(
    ("start", "settings"),
    [("ForTokenClassification", {"pooling": "token", "dense_head": True}), ("ForSequenceClassification", {})],
    ids=["dense_head", "pooler"],
)
def test_a_classifier_of_ours_is_one_of_theirs(start, settings, pair, exported):
    sides = [TEXTS, TEXTS[::-1]] if pair else [TEXTS]
    rows = [(*one, name) for *one, name in zip(*sides, ["b", "a", "c"], strict=True)]
    end, task = "ForSequenceClassification", "pair" if pair else "classification"
    tuned, model, read = exported(rows, task, end, start, **settings)
    assert model.config.id2label == {0: "a", 1: "b", 2: "c"}
    given = list(zip(*sides, strict=True)) if pair else TEXTS
    np.testing.assert_allclose(tuned.model.probabilities(given), logits_of(model, read, *sides).softmax(-1), **CLOSE)


def test_how_much_of_a_text_is_read_goes_along(exported, tmp_path, caplog):
    rows = [(text, name) for text, name in zip(TEXTS, ["b", "a", "c"], strict=True)]
    end = "ForSequenceClassification"
    tuned, model, read = exported(rows, "classification", end, max_length=8, keep="both")
    assert "which is left out: keep=both" in caplog.text
    assert read.model_max_length == 8
    long = " ".join(TEXTS) * 3
    again = import_run("huggingface", tmp_path / "export", tmp_path / "again").model
    with torch.no_grad():
        wanted = model(**read(long, truncation=True, return_tensors="pt")).logits.double().softmax(-1)
    np.testing.assert_allclose(again.probabilities([long]), wanted, **CLOSE)
    assert not np.allclose(tuned.model.probabilities([long]), wanted, **CLOSE)


def test_a_reader_that_knows_no_answers_always_gives_one(exported, tmp_path, caplog):
    rows = [*SPANS, SpanExample("none", "", SPANS[0].context, "what", (), True)]
    exported(rows, "span", "ForQuestionAnswering", answer_length=2)
    assert "what reads the folder always answers" in caplog.text
    assert "which is left out: answer_length=2" in caplog.text
    again = import_run("huggingface", tmp_path / "export", tmp_path / "again")
    found = wenmai.evaluate(again, on=rows)
    assert "1 questions have no answer, but this model always answers" in found.notes[-1]
    asked = [(one.question, one.context) for one in rows]
    assert all(one[0].text for one in again.model.answer(asked))
    given = [one[0].text for one in again.model.answer(asked, threshold=found.result.best_threshold)]
    wanted = [[answer.text for answer in one.answers] for one in rows]
    assert measure_questions(wanted, given).f1 == pytest.approx(found.result.best_f1)


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize(
    ("start", "settings"),
    [
        ("ForTokenClassification", {"pooling": "token", "dense_head": True}),
        ("ForSequenceClassification", {}),
        ("ForSequenceClassification", {"mode": "lora", "lora_rank": 2}),
    ],
    ids=["dense_head", "pooler", "lora"],
)
def test_a_rater_of_ours_is_one_of_theirs(start, settings, pair, exported):
    sides = [TEXTS, TEXTS[::-1]] if pair else [TEXTS]
    rows = [(*one, number) for *one, number in zip(*sides, [10.0, -3.0, 25.5], strict=True)]
    tuned, model, read = exported(rows, "regression", "ForSequenceClassification", start, **settings)
    given = list(zip(*sides, strict=True)) if pair else TEXTS
    np.testing.assert_allclose(tuned.model.rate(given), logits_of(model, read, *sides)[:, 0], rtol=1e-5, atol=1e-4)
    assert np.ptp(tuned.model.rate(given)) > 1e-3


@pytest.mark.parametrize("settings", [{}, {"mode": "lora", "lora_rank": 2}], ids=["full", "lora"])
def test_a_reader_of_ours_is_one_of_theirs(settings, exported):
    tuned, model, read = exported(SPANS, "span", "ForQuestionAnswering", **settings)
    for question, text, _ in QUESTIONS:
        given = read(question, text, return_tensors="pt")
        with torch.no_grad():
            logits = model(**given)
        places = [0, *(place for place, side in enumerate(given.sequence_ids(0)) if side == 1)]
        wanted = torch.stack([logits.start_logits[0, places], logits.end_logits[0, places]], -1)
        (found,) = tuned.model.outputs(tuned.model.items([(question, text)]))
        np.testing.assert_allclose(found, wanted, **CLOSE)


@pytest.mark.parametrize(
    ("start", "settings"),
    [("ForTokenClassification", {"pooling": "token", "dense_head": True}), ("ForSequenceClassification", {})],
    ids=["dense_head", "pooler"],
)
def test_a_chooser_of_ours_is_one_of_theirs(start, settings, exported):
    tuned, model, read = exported(CHOICES, "choice", "ForMultipleChoice", start, **settings)
    for one in CHOICES:
        told = [f"{one.question} {option}" for option in one.options]
        rows = read([one.turns[0]] * 3, told, padding=True, return_tensors="pt")
        with torch.no_grad():
            wanted = model(**{name: row[None] for name, row in rows.items()}).logits[0].double().softmax(-1)
        (found,) = tuned.model.choose([(one.turns[0], one.question, one.options)])
        np.testing.assert_allclose(found.probabilities, wanted, **CLOSE)


@pytest.mark.parametrize(
    ("labels", "problem"), [(["a", "b"], "multi_label_classification"), (["a", "b"], "regression")]
)
def test_a_classifier_with_several_labels_of_a_text_is_refused(labels, problem, published, tmp_path):
    with pytest.raises(FormatError, match=f"problem_type='{problem}' with 2 labels: tasks here are one label"):
        published("Bert", "ForSequenceClassification", labels=labels, problem_type=problem)
    assert not (tmp_path / "run").exists()
