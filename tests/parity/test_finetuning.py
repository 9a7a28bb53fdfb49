"""Fine-tuned models and ``transformers``: equal outputs both ways, and equal weights after a step of training."""

import numpy as np
import pytest
import torch

import wenmai
from tests.parity.published import CHOICES, CLOSE, LABELS, QUESTIONS, SPANS, TEXTS, fed, marked
from wenmai.core.errors import SettingError
from wenmai.measures.probes import entities
from wenmai.runs.formats import export_run

pytestmark = pytest.mark.parity
theirs = pytest.importorskip("transformers")


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("family", ["Bert", "Electra"])
def test_a_published_classifier_classifies_with_its_labels(family, pair, published, tokenizer):
    other, run = published(family, "ForSequenceClassification")
    texts = [TEXTS, TEXTS[::-1]] if pair else [TEXTS]
    with torch.no_grad():
        wanted = other(**fed(tokenizer, *texts)).logits.double().softmax(-1)
    given = ["\t".join(both) for both in zip(*texts, strict=True)]
    np.testing.assert_allclose(run.model.probabilities(given), wanted, **CLOSE)
    best = [LABELS["ForSequenceClassification"][place] for place in wanted.argmax(1)]
    assert [found[0][0] for found in run.model.predict(given)] == best
    assert run.recipe.system == "finetuned-classification"


def test_an_imported_classifier_takes_texts_or_pairs_but_not_both(published):
    _, run = published("Bert", "ForSequenceClassification")
    with pytest.raises(SettingError, match="'one' is one text, others are two"):
        run.model.predict(["one", "two\tthree"])
    assert run.model.predict([]) == []


def test_a_published_rater_gives_numbers(published, tokenizer):
    other, run = published("Bert", "ForSequenceClassification", labels=["LABEL_0"])
    with torch.no_grad():
        wanted = other(**fed(tokenizer, TEXTS, TEXTS[::-1])).logits[:, 0]
    np.testing.assert_allclose(run.model.rate(zip(TEXTS, TEXTS[::-1], strict=True)), wanted, **CLOSE)


def test_two_texts_have_two_separators_between_them_in_roberta(published, tokenizer):
    other, run = published("Roberta", "ForSequenceClassification")
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    row = run.model.backbone.framed([7, 8], [9])
    assert row.tokens == [cls, 7, 8, sep, sep, 9, sep]
    assert run.model.backbone.begins(row) == (1, 5)
    with torch.no_grad():
        wanted = other(input_ids=torch.tensor([row.tokens])).logits.softmax(-1)
        found = run.model.module.head(run.model.module(run.model.backbone.fed([row]))[0]).softmax(-1)
    torch.testing.assert_close(found, wanted, **CLOSE)


def test_a_published_tagger_tags(published, tokenizer):
    other, run = published("Bert", "ForTokenClassification")
    for text in TEXTS[::2]:  # of words alone
        given = marked(tokenizer)([text.split()], is_split_into_words=True, return_tensors="pt")
        with torch.no_grad():
            states = other(input_ids=given["input_ids"]).logits[0].double().softmax(-1)
        owners = given.word_ids(0)
        wanted = states[[owners.index(word) for word in range(len(text.split()))]]
        (found,) = run.model.tag([text])
        assert found.tokens == text.split()
        assert found.tags == [LABELS["ForTokenClassification"][place] for place in wanted.argmax(1)]
        np.testing.assert_allclose(found.probabilities, wanted.max(1).values, **CLOSE)


def test_a_published_reader_answers(published, tokenizer):
    other, run = published("Bert", "ForQuestionAnswering")
    question, text = TEXTS[0], TEXTS[1]
    given = marked(tokenizer)(question, text, return_tensors="pt", return_token_type_ids=True)
    with torch.no_grad():
        logits = other(**{key: given[key] for key in ("input_ids", "token_type_ids")})
    places = [place for place, side in enumerate(given.sequence_ids(0)) if side == 1]
    scores = {
        (i, j): float(logits.start_logits[0, i] + logits.end_logits[0, j]) for i in places for j in places if i <= j
    }
    i, j = max(scores, key=scores.get)
    ((found, *_),) = run.model.answer([(question, text)])
    assert found.text == text[given.token_to_chars(0, i).start : given.token_to_chars(0, j).end]
    assert found.score == pytest.approx(scores[i, j], abs=1e-5)


def test_a_published_chooser_chooses(published, tokenizer):
    other, run = published("Bert", "ForMultipleChoice")
    options = ["two", "five six", "nine ten eight"]
    rows = fed(tokenizer, [TEXTS[0]] * 3, [f"one {option}" for option in options])
    with torch.no_grad():
        wanted = other(**{key: row[None] for key, row in rows.items()}).logits[0].double().softmax(-1)
    (found,) = run.model.choose([(TEXTS[0], "one", options)])
    np.testing.assert_allclose(found.probabilities, wanted, **CLOSE)
    assert found.option == options[wanted.argmax()]


@pytest.mark.parametrize(
    "end", ["ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice"]
)
def test_what_was_imported_goes_back_as_it_was(end, published, tmp_path):
    other, run = published("Bert", end)
    export_run(run, "huggingface", tmp_path / "again")
    back, loading = getattr(theirs, f"AutoModel{end}").from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not any(loading[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert back.config.id2label == other.config.id2label or end not in LABELS
    assert back.state_dict().keys() == other.state_dict().keys()
    for name, tensor in other.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor), name


# --- training -------------------------------------------------------------------------------------------------------

STEPS = {"epochs": 3, "learning_rate": 1e-4, "warmup": 0, "schedule": "constant", "batch_size": 8, "dropout": 0.0}
PLAIN = STEPS | {"head_dropout": 0.0, "valid_share": 0.0, "precision": "float32", "threads": 1, "device": "cpu"}


def updated(model, loss_of=lambda found: found.loss, **batch):
    """Makes three updates of their model as PLAIN says, and returns the losses before them."""
    groups = [[one for one in model.parameters() if (one.dim() > 1) is matrices] for matrices in (True, False)]
    optimiser = torch.optim.AdamW(
        [{"params": groups[0], "weight_decay": 0.01}, {"params": groups[1], "weight_decay": 0.0}], lr=1e-4
    )
    losses = []
    model.train()
    for _ in range(3):
        loss = loss_of(model(**batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    return losses


def same_weights(run, model, path, end, shifts=()):
    """Whether the export of a run has the weights of a model of transformers.

    Biases that a softmax does not depend on are left out: their gradients are what rounding leaves.
    """
    export_run(run, "huggingface", path)
    back = getattr(theirs, f"AutoModel{end}").from_pretrained(path).state_dict()
    for name, tensor in model.state_dict().items():
        if name.endswith(("key.bias", *shifts)):
            continue
        torch.testing.assert_close(back[name], tensor, **CLOSE, msg=lambda found, name=name: f"{name}: {found}")


def test_updates_of_a_classifier_are_those_of_transformers(published, tokenizer, tmp_path):
    other, run = published("Bert", "ForSequenceClassification")
    names = LABELS["ForSequenceClassification"]
    lines = [f"{text}\t{name}\n" for text, name in zip(TEXTS, names, strict=True)]
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + "".join(lines))
    tuned = wenmai.finetune(
        run.path, tmp_path / "train.tsv", task="classification", out=tmp_path / "tuned", quiet=True, **PLAIN
    )
    losses = updated(other, **fed(tokenizer, TEXTS), labels=torch.arange(3))
    assert tuned.summary["loss"] == pytest.approx(losses[-1], abs=1e-5)
    assert losses[0] - losses[-1] > 1e-3
    same_weights(tuned, other, tmp_path / "export", "ForSequenceClassification")


def test_updates_of_a_tagger_are_those_of_transformers(published, tokenizer, tmp_path):
    other, run = published("Bert", "ForTokenClassification")
    sentences, tags = [TEXTS[0].split(), TEXTS[2].split()], ["O", "B-LOC", "I-LOC"]
    lines = ["".join(f"{word} {tag}\n" for word, tag in zip(one, tags, strict=True)) for one in sentences]
    (tmp_path / "tags.conll").write_text("\n".join(lines))
    tuned = wenmai.finetune(
        run.path, tmp_path / "tags.conll", task="tagging", out=tmp_path / "tuned", quiet=True, **PLAIN
    )
    given = marked(tokenizer)(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
    owners = [given.word_ids(row) for row in range(2)]
    labels = torch.tensor(
        [[-100 if word is None or word in row[:place] else word for place, word in enumerate(row)] for row in owners]
    )
    updated(other, input_ids=given["input_ids"], attention_mask=given["attention_mask"], labels=labels)
    same_weights(tuned, other, tmp_path / "export", "ForTokenClassification")


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({"mode": "lora", "lora_rank": 2}, None),
        ({"head_dropout": 0.2}, None),
        ({"crf": True}, "scores sequences of tags \\(crf=true\\)"),
        ({"mode": "mix"}, "takes a sum of all layers \\(mode=mix\\)"),
        ({"mode": "frozen", "layer": 1}, "takes another layer than the last \\(layer=1\\)"),
    ],
    ids=["lora", "full", "crf", "mix", "layer"],
)
def test_a_tagger_of_ours_is_one_of_theirs_or_refused(settings, refused, published, tokenizer, tmp_path):
    _, run = published("Bert", "ForTokenClassification")
    (tmp_path / "tags.conll").write_text("one O\ntwo B-X\n\nsix B-X\nten O\n\n")
    chosen = {"valid_share": 0.0, "epochs": 2, "learning_rate": 0.01, "threads": 1, "device": "cpu"} | settings
    tuned = wenmai.finetune(
        run.path, tmp_path / "tags.conll", task="tagging", out=tmp_path / "tuned", quiet=True, **chosen
    )
    if refused:
        with pytest.raises(SettingError, match=refused):
            export_run(tuned, "huggingface", tmp_path / "export")
        assert not (tmp_path / "export").exists()
        return
    export_run(tuned, "huggingface", tmp_path / "export")
    back = theirs.AutoModelForTokenClassification.from_pretrained(tmp_path / "export").eval()
    assert list(back.config.id2label.values()) == tuned.model.labels
    (item,) = tuned.model.items([["six", "ten"]])
    with torch.no_grad():
        wanted = back(input_ids=torch.tensor([item.rows[0].tokens])).logits[0, item.rows[0].places]
    torch.testing.assert_close(torch.tensor(tuned.model.outputs([item])[0]), wanted, **CLOSE)


def test_updates_of_a_reader_are_those_of_transformers(published, tokenizer, tmp_path):
    other, run = published("Bert", "ForQuestionAnswering")
    tuned = wenmai.finetune(run.path, SPANS, task="span", out=tmp_path / "tuned", quiet=True, **PLAIN)
    asked, texts, answers = (list(column) for column in zip(*QUESTIONS, strict=True))
    given = marked(tokenizer)(asked, texts, padding=True, return_tensors="pt", return_token_type_ids=True)
    possible = torch.tensor([[side == 1 for side in given.sequence_ids(row)] for row in range(3)])
    possible[:, 0] = True  # no answer; their own loss has the tokens of the question, and padding, as well
    begins = [texts[row].index(answers[row]) for row in range(3)]
    ends = [begin + len(answer) - 1 for begin, answer in zip(begins, answers, strict=True)]
    wanted = [
        torch.tensor([given.char_to_token(row, place, 1) for row, place in enumerate(places)])
        for places in (begins, ends)
    ]

    def loss_of(found):
        logits = (found.start_logits, found.end_logits)
        masked = [one.masked_fill(~possible, -torch.inf) for one in logits]
        return sum(torch.nn.functional.cross_entropy(*one) for one in zip(masked, wanted, strict=True)) / 2

    names = ("input_ids", "attention_mask", "token_type_ids")
    losses = updated(other, loss_of, **{name: given[name] for name in names})
    assert tuned.summary["loss"] == pytest.approx(losses[-1], abs=1e-5)
    assert losses[0] - losses[-1] > 1e-3
    same_weights(
        tuned,
        other,
        tmp_path / "export",
        "ForQuestionAnswering",
        shifts=("qa_outputs.bias", "layer.1.output.LayerNorm.bias"),
    )


def test_updates_of_a_chooser_are_those_of_transformers(published, tokenizer, tmp_path):
    other, run = published("Bert", "ForMultipleChoice")
    tuned = wenmai.finetune(run.path, CHOICES, task="choice", out=tmp_path / "tuned", quiet=True, **PLAIN)
    pairs = [(one.turns[0], f"{one.question} {option}") for one in CHOICES for option in one.options]
    rows = fed(tokenizer, *(list(side) for side in zip(*pairs, strict=True)))
    batch = {name: rows[name].view(3, 3, -1) for name in rows}
    losses = updated(other, **batch, labels=torch.arange(3))
    assert tuned.summary["loss"] == pytest.approx(losses[-1], abs=1e-5)
    assert losses[0] - losses[-1] > 1e-4
    same_weights(tuned, other, tmp_path / "export", "ForMultipleChoice", shifts=("classifier.bias",))


# --- measures -------------------------------------------------------------------------------------------------------


def test_entities_are_those_of_seqeval():
    import seqeval.metrics as metrics

    draw = np.random.default_rng(1)
    names = ["O", "B-A", "I-A", "B-B", "I-B"]
    gold, found = ([[names[n] for n in row] for row in draw.integers(5, size=(40, 9))] for _ in range(2))
    counts = np.array(
        [
            (len(one & other), len(one), len(other))
            for one, other in ((entities(a), entities(b)) for a, b in zip(found, gold, strict=True))
        ]
    ).sum(0)
    assert 2 * counts[0] / (counts[1] + counts[2]) == pytest.approx(metrics.f1_score(gold, found))
