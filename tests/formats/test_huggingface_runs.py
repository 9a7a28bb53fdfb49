"""Runs of encoders imported from Hugging Face, their exports, and what no class has."""

from dataclasses import dataclass

import pytest
import torch

import wenmai
from tests.formats.encoders import LABELS, SIZES, TEXTS, VOCABULARY, make, shaken
from wenmai.core.errors import SettingError
from wenmai.data.examples import PairExample, open_examples
from wenmai.formats.ctranslate2 import write_encoder
from wenmai.formats.huggingface import read_huggingface, write_huggingface
from wenmai.formats.onnx import write_onnx
from wenmai.inference.masked_model import MaskedModel
from wenmai.models.bert import Bert, BertConfig
from wenmai.runs.formats import export_run, import_run
from wenmai.training.run import verify


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"heads": ("mlm", "pair"), "pooler": "tanh"},
        {"heads": ("classification",), "labels": LABELS, "pooler": "relu", "segments": 0},
        {"heads": ("replaced",), "embedding_size": 8},
        {"heads": ("token-classification",), "labels": LABELS, "segments": 1},
    ],
    ids=["mlm", "pair", "classification", "replaced", "token-classification"],
)
def test_an_import_is_a_run_that_is_exported_again(settings, tokenizer, tmp_path):
    model = make(tokenizer, **settings)
    write_huggingface(tmp_path / "first", model, tokenizer)
    run = import_run("huggingface", tmp_path / "first", tmp_path / "run")
    assert verify(run.path)[1] == []
    loaded = run.model
    if settings.get("labels"):  # it is fine-tuned
        assert loaded.labels == list(LABELS)
        tokens, loaded = loaded.backbone.tokenizer, loaded.published()
        assert loaded.config == model.config
    else:
        assert isinstance(loaded, MaskedModel)
        assert loaded.config == model.config
        tokens, loaded = loaded.tokenizer, loaded.module
    assert tokens.fingerprint == tokenizer.fingerprint
    ids = torch.randint(7, VOCABULARY, (2, 9))
    with torch.no_grad():
        assert torch.equal(loaded(ids), model(ids))
    export_run(run, "huggingface", tmp_path / "second")
    for path in sorted((tmp_path / "first").iterdir()):
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes(), path.name


def test_what_no_class_has_is_left_out_and_told(tokenizer, tmp_path):
    model = make(tokenizer, heads=("mlm", "pair", "classification"), labels=LABELS, pooler="tanh")
    notes = []
    write_huggingface(tmp_path / "out", model, tokenizer, on_note=notes.append)
    assert notes == [f"{tmp_path / 'out'}: BertForSequenceClassification has no place for mlm, pair, which is left out"]
    assert read_huggingface(tmp_path / "out").module.config.heads == ("classification",)
    notes.clear()
    write_huggingface(tmp_path / "masked", make(tokenizer, pooler="tanh"), tokenizer, on_note=notes.append)
    assert notes == [f"{tmp_path / 'masked'}: BertForMaskedLM has no place for pooler, which is left out"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"norm": "pre"}, "no BERT with norm=pre"),
        ({"heads": ("pair",), "pooler": "relu"}, "the head pair of Bert in transformers has pooler=tanh, not relu"),
        ({"heads": ("pair",), "pooler": "tanh", "embedding_size": 8}, "Electra of transformers has no head pair"),
        ({"embedding_size": 8, "activation": "relu"}, "the head mlm of Electra .* has activation=gelu, not relu"),
        ({"heads": (), "pooler": "relu"}, "no pooler=relu without a head"),
        ({"heads": ("replaced",), "task_types": 3}, "Ernie of transformers has no head replaced"),
        ({"heads": ("classification",), "labels": ("a b", "c\td"), "pooler": "tanh"}, "the label 'c.*td' cannot be"),
    ],
)
def test_models_that_transformers_does_not_have_are_refused_by_name(settings, message, tokenizer, tmp_path):
    with pytest.raises(SettingError, match=message):
        write_huggingface(tmp_path / "out", make(tokenizer, **settings), tokenizer)
    assert not (tmp_path / "out").exists()


def test_an_imported_classifier_is_measured_on_texts_or_on_pairs(tokenizer, tmp_path):
    model = make(tokenizer, heads=("classification",), labels=LABELS, pooler="tanh")
    write_huggingface(tmp_path / "theirs", model, tokenizer)
    run = import_run("huggingface", tmp_path / "theirs", tmp_path / "run")
    one, two, three = TEXTS[:3]
    rows = [(one, f"{two} {three}", LABELS[0]), (three, one, LABELS[1]), (two, three, LABELS[2])]
    (tmp_path / "pairs.tsv").write_text("question\tsentence\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows))
    (tmp_path / "texts.tsv").write_text("sentence\tlabel\n" + "".join(f"{row[1]}\t{row[2]}\n" for row in rows))
    predicted = [label for ((label, _),) in run.model.predict([row[:2] for row in rows])]
    right = sum(label == row[2] for label, row in zip(predicted, rows, strict=True)) / 3
    for given in (tmp_path / "pairs.tsv", [PairExample(*row) for row in rows], rows, iter(rows)):
        assert wenmai.evaluate(run, on=given, quiet=True).result.accuracy == pytest.approx(right)
    assert open_examples(tmp_path / "texts.tsv", "classification").are_pairs() is False
    assert wenmai.evaluate(run, on=tmp_path / "texts.tsv", quiet=True).result.examples == 3
    chosen = {"epochs": 1, "threads": 1, "valid_share": 0.0, "device": "cpu", "learning_rate": 1e-9}
    further = wenmai.finetune(run, tmp_path / "pairs.tsv", task="pair", out=tmp_path / "more", quiet=True, **chosen)
    head = further.model.module.head.state_dict()
    for name, tensor in run.model.module.head.state_dict().items():
        torch.testing.assert_close(head[name], tensor, rtol=0, atol=1e-6)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("family", "class_name", "settings"),
    [
        ("ernie", "ErnieForMaskedLM", {}),
        ("ernie", "ErnieForPreTraining", {"heads": ("mlm", "pair"), "pooler": "tanh"}),
        ("ernie", "ErnieForTokenClassification", {"heads": ("token-classification",), "labels": LABELS}),
        ("bert", "BertForMaskedLM", {"segments": 1}),
        ("electra", "ElectraForMaskedLM", {}),
        ("roberta", "RobertaForMaskedLM", {"segments": 0}),
    ],
)
def test_a_run_is_written_as_the_family_that_is_asked_for(family, class_name, settings, tokenizer, tmp_path):
    theirs = pytest.importorskip("transformers")
    model = make(tokenizer, **settings)
    write_huggingface(tmp_path / "first", model, tokenizer)
    run = import_run("huggingface", tmp_path / "first", tmp_path / "run")
    export_run(run, "huggingface", tmp_path / "asked", family=family)
    other, notes = getattr(theirs, class_name).from_pretrained(tmp_path / "asked", output_loading_info=True)
    assert not notes["missing_keys"] | notes["unexpected_keys"] | notes["mismatched_keys"]
    assert other.config.model_type == family
    ids = torch.randint(7, VOCABULARY, (2, 9))
    with torch.no_grad():
        states = getattr(other.eval(), other.base_model_prefix)(ids).last_hidden_state
        torch.testing.assert_close(model(ids), states, rtol=0, atol=1e-5)
    again = import_run("huggingface", tmp_path / "asked", tmp_path / "again").model
    back = again.published() if settings.get("labels") else again.module
    with torch.no_grad():
        assert torch.equal(back(ids), model(ids))


@pytest.mark.parametrize(
    ("family", "settings", "message"),
    [
        ("bert", {"task_types": 3}, "Bert of transformers has no vectors of tasks"),
        ("ernie", {"embedding_size": 8}, "Ernie of transformers has no embeddings of 8 dimensions"),
        ("roberta", {}, "Roberta of transformers has 1 segment, not 2"),
        ("distilbert", {}, "DistilBert of transformers has 0 segments, not 2"),
        ("ernie", {"heads": ("replaced",)}, "Ernie of transformers has no head replaced"),
    ],
)
def test_a_family_that_has_no_such_model_is_refused(family, settings, message, tokenizer, tmp_path):
    with pytest.raises(SettingError, match=message):
        write_huggingface(tmp_path / "out", make(tokenizer, **settings), tokenizer, family=family)
    assert not (tmp_path / "out").exists()


@dataclass(frozen=True, kw_only=True, slots=True)
class Later(BertConfig):
    """What a later version may have."""

    shared: bool = False


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"shared": True}, "shared=True"),
        ({"positions": "relative"}, "positions=relative"),
        ({"norm": "nested"}, "norm=nested"),
        ({"norm": "nested", "gated": True}, "norm=nested"),
    ],
)
def test_settings_that_the_exports_do_not_know_are_refused_by_each(settings, named, tokenizer, tmp_path):
    model = shaken(Bert(Later(**SIZES, **settings), vocab_size=VOCABULARY))
    writers = [
        (lambda path: write_huggingface(path, model, tokenizer), "transformers has no BERT with"),
        (lambda path: write_encoder(path, model, tokenizer), "CTranslate2 has no BERT with"),
    ]
    if "shared" in settings:  # the others are known to ONNX
        writers.append((lambda path: write_onnx(path, model), "no ONNX form of a bert with"))
    for write, message in writers:
        with pytest.raises(SettingError, match=f"{message} {named}"):
            write(tmp_path / "out")
        assert not (tmp_path / "out").exists()
