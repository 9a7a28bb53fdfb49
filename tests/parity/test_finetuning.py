"""Fine-tuned models and ``transformers``: equal outputs both ways, and equal weights after a step of training."""

import json

import numpy as np
import pytest
import torch

import wenmai
from wenmai.core.errors import FormatError, SettingError
from wenmai.data.typed import Answer, ChoiceExample, SpanExample
from wenmai.formats.huggingface.bert import framed_tokenizer
from wenmai.measures.probes import entities
from wenmai.runs.formats import export_run, import_run
from wenmai.text.pieces import OPTIONAL_SPECIALS
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig
from wenmai.training.run import verify

pytestmark = pytest.mark.parity
theirs = pytest.importorskip("transformers")

TEXTS = ["one two three", "four five six, seven", "eight nine ten"]
SIZES = {
    "vocab_size": 90,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LABELS = {"ForSequenceClassification": ["cold", "warm", "hot"], "ForTokenClassification": ["O", "B-LOC", "I-LOC"]}
CLOSE = {"rtol": 0, "atol": 1e-5}


@pytest.fixture(scope="module")
def tokenizer():
    roles = tuple(OPTIONAL_SPECIALS)
    return Tokenizer.train(TEXTS * 3, TokenizerConfig(kind="wordpiece", vocab_size=80, min_count=1), roles=roles)


@pytest.fixture
def published(tokenizer, tmp_path):
    """Writes a random fine-tuned model of transformers; returns it and the run of its import."""

    def written(family, end, labels=None, **settings):
        sizes = SIZES if family != "Roberta" else SIZES | {"type_vocab_size": 1, "pad_token_id": tokenizer.pad_id}
        names = LABELS.get(end) if labels is None else labels
        if names is not None:
            settings |= {"id2label": dict(enumerate(names)), "label2id": {name: n for n, name in enumerate(names)}}
        config = getattr(theirs, f"{family}Config")(**sizes | settings)
        torch.manual_seed(2)
        model = getattr(theirs, family + end)(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        folder = tmp_path / "theirs"
        model.save_pretrained(folder)
        content = json.dumps(framed_tokenizer(tokenizer, segments=1 if family == "Roberta" else 2))
        if family == "Roberta":
            for old, new in {"[CLS]": "<s>", "[SEP]": "</s>", "[PAD]": "<pad>", "[UNK]": "<unk>"}.items():
                content = content.replace(old, new)
        (folder / "tokenizer.json").write_text(content)
        run = import_run("huggingface", folder, tmp_path / "run")
        assert verify(run.path)[1] == []
        return model, run

    return written


def marked(tokenizer):
    """Their tokenizer, with the marks around texts."""
    made = theirs.PreTrainedTokenizerFast(tokenizer_object=_inner(tokenizer))
    made.pad_token = tokenizer.token(tokenizer.pad_id)
    return made


def _inner(tokenizer):
    import tokenizers

    return tokenizers.Tokenizer.from_str(json.dumps(framed_tokenizer(tokenizer, segments=2)))


def fed(tokenizer, *texts):
    """What their model takes."""
    found = marked(tokenizer)(*texts, padding=True, return_tensors="pt", return_token_type_ids=True)
    return {key: found[key] for key in ("input_ids", "attention_mask", "token_type_ids")}


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


QUESTIONS = [  # question, text, answer
    (TEXTS[0], "four five six seven", "five six"),
    ("nine ten", "one two three four", "four"),
    ("six", "ten nine eight", "ten nine"),
]
SPANS = [
    SpanExample(str(number), "", text, question, (Answer(answer, text.index(answer)),))
    for number, (question, text, answer) in enumerate(QUESTIONS)
]
CHOICES = [ChoiceExample((TEXTS[number],), "one", ("two", "five six", "nine ten eight"), number) for number in range(3)]


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


# --- what was fine-tuned here, there --------------------------------------------------------------------------------

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
    assert "1 questions have no answer, but this model always answers" in wenmai.evaluate(again, on=rows).notes[-1]


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
