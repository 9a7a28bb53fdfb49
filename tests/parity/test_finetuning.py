"""Fine-tuned models and ``transformers``: equal outputs both ways, and equal weights after a step of training."""

import json

import numpy as np
import pytest
import torch

from wenmai.core.errors import SettingError
from wenmai.formats.huggingface.bert import framed_tokenizer
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
        content = json.dumps(framed_tokenizer(tokenizer, doubled=family == "Roberta"))
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

    return tokenizers.Tokenizer.from_str(json.dumps(framed_tokenizer(tokenizer, doubled=False)))


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
