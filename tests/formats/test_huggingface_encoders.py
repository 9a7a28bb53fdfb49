"""BERT and its relatives as folders of transformers: equal states, attention, logits and gradients, both ways."""

import json
import shutil
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy

from wenmai.core.errors import FormatError, RunError, SettingError
from wenmai.core.folder import check_sealed
from wenmai.formats.ctranslate2 import write_encoder
from wenmai.formats.huggingface import read_huggingface, write_huggingface
from wenmai.formats.onnx import write_onnx
from wenmai.inference.embedding_config import EmbeddingConfig
from wenmai.inference.masked_model import MaskedModel
from wenmai.models.bert import Bert, BertConfig
from wenmai.nn.attention import watch_attention
from wenmai.runs.formats import export_run, import_run
from wenmai.text.pieces import OPTIONAL_SPECIALS, TokenizerKind
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig
from wenmai.training.run import verify

SIZES = {"hidden_size": 24, "num_layers": 3, "num_heads": 4, "ffn_size": 40, "max_length": 20, "dropout": 0.0}
TEXTS = ["one two three", "four five six, seven", "eight nine ten"] * 3
LABELS = ("cold", "warm", "hot, or hotter")
VOCABULARY = 150


@pytest.fixture(scope="module")
def tokenizer():
    roles = tuple(OPTIONAL_SPECIALS)
    return Tokenizer.train(TEXTS, TokenizerConfig(kind="wordpiece", vocab_size=90, min_count=1), roles=roles)


def shaken(model, scale=0.1):
    """Biases and norms are no longer zeros and ones."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn_like(parameter)
    return model.eval()


def make(tokenizer, **settings):
    return shaken(Bert(BertConfig(**SIZES | settings), vocab_size=VOCABULARY))


def folder_of(model, tokenizer, path, **options):
    """Saves a model of transformers with a tokenizer."""
    model.save_pretrained(path, **options)
    tokenizer.save(path / "tokenizer.json")
    return path


def change(folder, **changes):
    """Changes config.json; None takes a key away."""
    path = folder / "config.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


# --- families of transformers ---------------------------------------------------------------------------------------

BERT_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
DISTIL_SIZES = {
    "vocab_size": VOCABULARY,
    "dim": 24,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 40,
    "max_position_embeddings": 20,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "qa_dropout": 0.0,
    "seq_classif_dropout": 0.0,
}
TASKS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice")
LIKE_BERT = ("Model", "ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction", *TASKS)
FAMILIES = {
    "Bert": (BERT_SIZES, LIKE_BERT),
    "Ernie": (BERT_SIZES | {"use_task_id": True, "task_type_vocab_size": 5}, LIKE_BERT),
    "Roberta": (
        BERT_SIZES | {"type_vocab_size": 1, "pad_token_id": 0, "max_position_embeddings": 21},
        ("Model", "ForMaskedLM", *TASKS),
    ),
    "XLMRoberta": (
        BERT_SIZES | {"type_vocab_size": 1, "pad_token_id": 0, "max_position_embeddings": 21},
        ("ForMaskedLM", "ForSequenceClassification"),
    ),
    "Electra": (
        BERT_SIZES | {"embedding_size": 16, "summary_last_dropout": 0.0},
        ("Model", "ForPreTraining", "ForMaskedLM", *TASKS),
    ),
    "DistilBert": (DISTIL_SIZES, ("Model", "ForMaskedLM", *TASKS)),
}
CASES = [(family, head) for family, (_, heads) in FAMILIES.items() for head in heads]


def reference(family, head, **settings):
    theirs = pytest.importorskip("transformers")
    sizes, _ = FAMILIES[family]
    if head in ("ForSequenceClassification", "ForTokenClassification"):
        settings = {
            "id2label": dict(enumerate(LABELS)),
            "label2id": {name: i for i, name in enumerate(LABELS)},
        } | settings
    config = getattr(theirs, f"{family}Config")(**sizes | settings)
    config._attn_implementation = "eager"
    torch.manual_seed(7)
    return shaken(getattr(theirs, family + head)(config))


def batch(model, padding):
    """Ids, which of them are real, and their segments; no id is that of padding."""
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(7, VOCABULARY, (4, 15), generator=draw)
    lengths = torch.tensor([15, 9, 4, 12])[:, None]
    place = torch.arange(15)
    real = {"none": ids > 0, "right": place < lengths, "left": place >= 15 - lengths}[padding]
    ids = ids.masked_fill(~real, 0)
    segments = (place >= 6).long().expand_as(ids) if (model.config.segments or 0) > 1 else None
    return ids, real, segments


def ours(model, ids, real, segments, offset):
    """States, attention and outputs of our model, by their names there."""
    positions = None
    if offset and not real[:, 0].all():  # they count real tokens
        positions = (real.cumsum(1) - 1).clamp(min=0)
    mask = None if real.all() else real[:, None, None]
    with watch_attention(model) as watched:
        states = model.hidden_states(ids, segments=segments, mask=mask, positions=positions)
    found = {"hidden_states": states}
    names = [name for name in watched if name.startswith("encoder.layers.")]
    found["attentions"] = [watched[name][0] for name in names]
    for head, module in model.heads.items():
        pooled = head in ("pair", "classification", "multiple-choice")
        found[head] = module(model.pooled(states[-1]) if pooled else states[-1])
    if model.pooler is not None:
        found["pooled"] = model.pooled(states[-1])
    return found


def theirs(model, ids, real, segments):
    several = "MultipleChoice" in type(model).__name__
    given = {"input_ids": ids, "attention_mask": real.long()}
    if segments is not None:
        given["token_type_ids"] = segments
    if several:
        given = {name: value[None] for name, value in given.items()}
    return model(**given, output_hidden_states=True, output_attentions=True)


def compare(found, expected, real):
    """Compares all that both have; of padding nothing is asked."""
    assert len(found["hidden_states"]) == len(expected.hidden_states)
    for one, other in zip(found["hidden_states"], expected.hidden_states, strict=True):
        torch.testing.assert_close(one[real], other[real], rtol=0, atol=1e-5)
    for one, other in zip(found["attentions"], expected.attentions, strict=True):
        for row, there in enumerate(real):
            torch.testing.assert_close(one[row][:, there], other[row][:, there], rtol=0, atol=1e-5)
    compared = 0
    pairs = {
        "logits": ("mlm", "replaced", "classification", "token-classification", "multiple-choice", "pair"),
        "prediction_logits": ("mlm",),
        "seq_relationship_logits": ("pair",),
        "pooler_output": ("pooled",),
    }
    for name, heads in pairs.items():
        value = getattr(expected, name, None)
        for head in heads:
            if value is None or head not in found or (name == "logits" and compared):
                continue
            compared += 1
            mine = found[head].detach()
            if head in ("mlm", "token-classification", "replaced"):
                value, mine = value.view(*real.shape, -1)[real], mine.view(*real.shape, -1)[real]
            else:  # the first token of a text with padding before it is padding
                rows = real[:, 0]
                value, mine = value.view(len(real), -1)[rows], mine.view(len(real), -1)[rows]
            torch.testing.assert_close(mine, value.view(mine.shape), rtol=0, atol=2e-5)
    if "question-answering" in found:
        compared += 1
        both = torch.stack((expected.start_logits, expected.end_logits), -1)
        torch.testing.assert_close(found["question-answering"][real], both[real], rtol=0, atol=1e-5)
    return compared


def outputs_of(head):
    return 0 if head == "Model" else 1


@pytest.mark.parity
@pytest.mark.parametrize(("family", "head"), CASES)
def test_every_class_has_the_same_states_attention_and_logits_and_goes_back(family, head, tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    other = reference(family, head)
    found = read_huggingface(folder_of(other, tokenizer, tmp_path / "theirs")).module
    offset = "oberta" in family
    if "Classification" in head:
        assert found.config.labels == LABELS
    assert found.config.max_length == 20
    notes = []
    write_huggingface(tmp_path / "ours", found, tokenizer, on_note=notes.append)
    assert not notes
    name = json.loads((tmp_path / "ours" / "config.json").read_text())["architectures"][0]
    again, loaded = getattr(transformers, name).from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not any(loaded.values())
    if not (family == "XLMRoberta" or (family == "Electra" and head == "Model")):
        assert name == family + head
    if "Classification" in head:
        assert again.config.id2label == dict(enumerate(LABELS))
        assert again.config.label2id == {label: number for number, label in enumerate(LABELS)}
    for padding in ("none", "right", "left"):
        ids, real, segments = batch(found, padding)
        with torch.no_grad():
            mine = ours(found, ids, real, segments, offset)
            assert compare(mine, theirs(other, ids, real, segments), real) >= outputs_of(head)
            assert compare(mine, theirs(again.eval(), ids, real, segments), real) >= outputs_of(head)
    second = read_huggingface(tmp_path / "ours").module
    assert second.config == found.config
    for key, tensor in second.state_dict().items():
        assert torch.equal(tensor, found.state_dict()[key]), key


@pytest.mark.parity
@pytest.mark.parametrize("family", ["Bert", "Ernie", "Roberta", "Electra", "DistilBert"])
@pytest.mark.parametrize("tied", [True, False])
def test_losses_of_masked_tokens_have_the_same_gradients(family, tied, tokenizer, tmp_path):
    other = reference(family, "ForMaskedLM", tie_word_embeddings=tied)
    found = read_huggingface(folder_of(other, tokenizer, tmp_path)).module
    assert found.config.tied == tied
    ids, real, segments = batch(found, "right")
    targets = ids.masked_fill(~real | (torch.arange(15) % 3 > 0), -100)
    hidden = found(ids, segments=segments, mask=real[:, None, None])
    loss = cross_entropy(found.heads["mlm"](hidden).flatten(0, 1), targets.flatten())
    expected = theirs(other, ids, real, segments).logits
    wanted = cross_entropy(expected.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(loss, wanted, rtol=0, atol=1e-5)
    loss.backward()
    wanted.backward()
    mine, others = dict(found.named_parameters()), dict(other.named_parameters())
    prefix = other.base_model_prefix
    tables = {
        "embedding.weight": f"{prefix}.embeddings.word_embeddings.weight",
        "embeddings.norm.weight": f"{prefix}.embeddings.LayerNorm.weight",
    }
    layer = "transformer.layer" if family == "DistilBert" else "encoder.layer"
    projections = ("q_lin", "k_lin", "v_lin") if family == "DistilBert" else ("self.query", "self.key", "self.value")
    for ours_name, their_name in tables.items():
        torch.testing.assert_close(mine[ours_name].grad, others[their_name].grad, rtol=0, atol=1e-5)
    for number in range(3):
        parts = [others[f"{prefix}.{layer}.{number}.attention.{part}.weight"].grad for part in projections]
        got = mine[f"encoder.layers.{number}.attention.qkv.weight"].grad
        torch.testing.assert_close(got, torch.cat(parts), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        mine["heads.mlm.output.bias"].grad, other.get_output_embeddings().bias.grad, rtol=0, atol=1e-5
    )


@pytest.mark.parity
@pytest.mark.parametrize("saved", ["parts", "bare", "old names", "with buffers and copies", "half", "old prefixes"])
def test_folders_are_read_however_they_were_saved(saved, tokenizer, tmp_path):
    other = reference("Bert", "ForPreTraining")
    if saved == "half":
        other = other.to(torch.bfloat16)
    options = {"max_shard_size": "12KB"} if saved == "parts" else {}
    folder_of(other.bert if saved == "bare" else other, tokenizer, tmp_path, **options)
    assert (tmp_path / "model.safetensors.index.json").exists() == (saved == "parts")
    if saved in ("old names", "with buffers and copies"):
        tensors = load_file(tmp_path / "model.safetensors")
        if saved == "old names":
            tensors = {
                key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
                for key, value in tensors.items()
            }
        else:
            tensors["bert.embeddings.position_ids"] = torch.arange(20)[None]
            tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
            tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
        save_file(tensors, tmp_path / "model.safetensors")
    found = read_huggingface(tmp_path).module
    assert found.config.heads == (() if saved == "bare" else ("mlm", "pair"))
    assert found.config.pooler == "tanh"
    ids, real, segments = batch(found, "right")
    with torch.no_grad():
        expected = theirs(other.float().bert if saved == "bare" else other.float(), ids, real, segments)
        assert compare(ours(found, ids, real, segments, 0), expected, real) >= 1


VARIANTS = [
    {"hidden_act": "relu"},
    {"hidden_act": "gelu_new"},
    {"hidden_act": "gelu_pytorch_tanh"},
    {"hidden_act": "silu"},
    {"layer_norm_eps": 1e-5},
    {"type_vocab_size": 1},
    {"type_vocab_size": 4},
    {"chunk_size_feed_forward": 5},
    {"tie_word_embeddings": False},
]


@pytest.mark.parity
@pytest.mark.parametrize("settings", VARIANTS, ids=lambda one: ",".join(f"{key}={value}" for key, value in one.items()))
def test_variants_have_the_same_logits_and_go_back(settings, tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    other = reference("Bert", "ForPreTraining", **settings)
    found = read_huggingface(folder_of(other, tokenizer, tmp_path / "theirs")).module
    write_huggingface(tmp_path / "ours", found, tokenizer)
    again, loaded = transformers.AutoModelForPreTraining.from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not any(loaded.values())
    ids, real, segments = batch(found, "right")
    with torch.no_grad():
        mine = ours(found, ids, real, segments, 0)
        assert compare(mine, theirs(other, ids, real, segments), real) == 2
        assert compare(mine, theirs(again.eval(), ids, real, segments), real) == 2


@pytest.mark.parity
@pytest.mark.parametrize("activation", ["gelu", "tanh", "relu"])
def test_summaries_of_electra_are_poolers(activation, tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    other = reference("Electra", "ForMultipleChoice", summary_activation=activation)
    found = read_huggingface(folder_of(other, tokenizer, tmp_path / "theirs")).module
    assert found.config.pooler == activation
    write_huggingface(tmp_path / "ours", found, tokenizer)
    again = transformers.AutoModelForMultipleChoice.from_pretrained(tmp_path / "ours", attn_implementation="eager")
    ids, real, segments = batch(found, "right")
    with torch.no_grad():
        mine = ours(found, ids, real, segments, 0)
        for one in (other, again.eval()):
            assert compare(mine, theirs(one, ids, real, segments), real) == 1


@pytest.mark.parity
def test_heads_are_told_by_the_tensors_where_the_class_says_other_things(tokenizer, tmp_path, caplog):
    folder = folder_of(reference("Bert", "ForPreTraining"), tokenizer, tmp_path / "bert")
    change(folder, architectures=["BertForMaskedLM"])
    assert read_huggingface(folder).module.config.heads == ("mlm", "pair")
    folder = folder_of(reference("Roberta", "Model"), tokenizer, tmp_path / "roberta")
    change(folder, architectures=["RobertaForMaskedLM"])
    assert read_huggingface(folder).module.config.heads == ()
    for head, expected in (
        ("ForTokenClassification", "token-classification"),
        ("ForSequenceClassification", "classification"),
    ):
        folder = folder_of(reference("Bert", head), tokenizer, tmp_path / head)
        change(folder, architectures=None)
        assert read_huggingface(folder).module.config.heads == (expected,)
    assert not caplog.records
    change(folder, architectures=["BertForQuestionAnswering"])
    read_huggingface(folder)
    assert "names BertForQuestionAnswering, but the folder has no such head" in caplog.text


@pytest.mark.parity
def test_a_pooler_that_the_class_does_not_use_is_left_out(tokenizer, tmp_path):
    folder = folder_of(reference("Roberta", "ForSequenceClassification"), tokenizer, tmp_path)
    tensors = load_file(folder / "model.safetensors")
    more = {"roberta.pooler.dense.weight": torch.zeros(24, 24), "roberta.pooler.dense.bias": torch.zeros(24)}
    save_file(tensors | more, folder / "model.safetensors")
    found = read_huggingface(folder).module
    assert torch.equal(found.pooler.weight, tensors["classifier.dense.weight"])


@pytest.mark.parity
def test_labels_have_names_also_where_the_config_has_none(tokenizer, tmp_path, caplog):
    other = reference("Bert", "ForSequenceClassification", id2label=None, label2id=None, num_labels=4)
    folder = folder_of(other, tokenizer, tmp_path)
    change(folder, id2label=None, label2id=None, problem_type="multi_label_classification")
    assert read_huggingface(folder).module.config.labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")
    assert "problem_type=multi_label_classification is not kept" in caplog.text


# --- tokenizers -----------------------------------------------------------------------------------------------------


@pytest.mark.parity
@pytest.mark.parametrize("segments", [2, 1, 0])
def test_the_written_tokenizer_puts_the_special_tokens_around_texts(segments, tokenizer, tmp_path):
    theirs = pytest.importorskip("transformers")
    write_huggingface(tmp_path / "out", make(tokenizer, segments=segments), tokenizer)
    other = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    cls, sep = [tokenizer.cls_id], [tokenizer.sep_id]
    for text in [*TEXTS, "a new ☃ text 汉字 "]:
        found = other(text)
        assert found["input_ids"] == cls + tokenizer.encode(text).ids + sep
        assert ("token_type_ids" in found) == (segments == 2)
    one, two = (tokenizer.encode(text).ids for text in TEXTS[:2])
    found = other(TEXTS[0], TEXTS[1])
    assert found["input_ids"] == cls + one + sep + (sep if segments == 1 else []) + two + sep
    if segments == 2:
        assert found["token_type_ids"] == [0] * (len(one) + 2) + [1] * (len(two) + 1)
    assert other.mask_token_id == tokenizer.mask_id
    assert other("one [MASK]")["input_ids"] == cls + tokenizer.encode("one").ids + [tokenizer.mask_id] + sep
    assert other.model_max_length == 20
    batched = other(TEXTS, padding=True, return_tensors="pt")
    model = theirs.AutoModel.from_pretrained(tmp_path / "out")
    assert model(**batched).last_hidden_state.shape[:2] == batched["input_ids"].shape
    assert read_huggingface(tmp_path / "out").tokenizer.fingerprint == tokenizer.fingerprint


@pytest.mark.parity
@pytest.mark.parametrize("kind", get_args(TokenizerKind))
def test_tokenizers_of_every_kind_are_written(kind, tmp_path):
    theirs = pytest.importorskip("transformers")
    size = 60 if kind == "unigram" else 300
    roles = tuple(OPTIONAL_SPECIALS)
    trained = Tokenizer.train(TEXTS, TokenizerConfig(kind=kind, vocab_size=size, min_count=None), roles=roles)
    model = shaken(Bert(BertConfig(**SIZES), vocab_size=trained.vocab_size))
    write_huggingface(tmp_path / "out", model, trained)
    other = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in [*TEXTS, "two  one ☃ zzz", " ten"]:
        ids = [trained.cls_id, *trained.encode(text).ids, trained.sep_id]
        assert other(text)["input_ids"] == ids, text
    assert read_huggingface(tmp_path / "out").tokenizer.fingerprint == trained.fingerprint


@pytest.mark.parity
def test_a_masked_token_is_filled_by_the_pipeline_of_transformers(tokenizer, tmp_path):
    theirs = pytest.importorskip("transformers")
    model = make(tokenizer)
    write_huggingface(tmp_path / "out", model, tokenizer)
    fill = theirs.pipeline("fill-mask", model=str(tmp_path / "out"), device=-1)
    found = fill("one [MASK] three", top_k=3)
    ids = [tokenizer.cls_id, *tokenizer.encode("one").ids, tokenizer.mask_id, *tokenizer.encode("three").ids]
    ids = torch.tensor([[*ids, tokenizer.sep_id]])
    with torch.no_grad():
        logits = model.heads["mlm"](model(ids))[0]
    place = ids[0].tolist().index(tokenizer.mask_id)
    best = logits[place].softmax(-1).topk(3)
    assert [one["token"] for one in found] == best.indices.tolist()
    assert [one["score"] for one in found] == pytest.approx(best.values.tolist(), abs=1e-5)


WORDS = [
    "hello",
    "world",
    ",",
    "!",
    "un",
    "##aff",
    "##able",
    "北",
    "京",
    "is",
    "nice",
    "naive",
    "cafe",
    "[",
    "]",
    "<",
    ">",
]
BYTES = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())


def published(theirs, family):
    """A tokenizer as the classes of transformers make it."""
    if family == "Bert":
        letters = [f"{before}{letter}" for before in ("", "##") for letter in "abcdefghijklmnopqrstuvwxyz"]
        named = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters]
        return theirs.BertTokenizer(vocab={token: number for number, token in enumerate(dict.fromkeys(named))})
    named = ["<s>", "<pad>", "</s>", "<unk>", *BYTES, "he", "ll", "<mask>"]
    vocab = {token: number for number, token in enumerate(named)}
    return theirs.RobertaTokenizer(vocab=vocab, merges=[("h", "e"), ("l", "l")])


@pytest.mark.parity
@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_tokenizers_of_transformers_come_back(family, tmp_path):
    theirs = pytest.importorskip("transformers")
    cutter = published(theirs, family)
    sizes = {"pad_token_id": 1, "max_position_embeddings": 22} if family == "Roberta" else {}
    reference(family, "ForMaskedLM", vocab_size=300, **sizes).save_pretrained(tmp_path / "in")
    cutter.save_pretrained(tmp_path / "in")
    found = read_huggingface(tmp_path / "in")
    assert found.module.config.max_length == 20
    write_huggingface(tmp_path / "out", found.module, found.tokenizer)
    other = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in ["Hello world, unaffable!", "北京 is nice", " odd\u3000white\tspace\u00a0\u200b ", "naïve Café 😀", ""]:
        ids = [found.tokenizer.cls_id, *found.tokenizer.encode(text).ids, found.tokenizer.sep_id]
        assert cutter(text)["input_ids"] == other(text)["input_ids"] == ids, text
    masked = f"Hello {cutter.mask_token}, you"
    assert found.tokenizer.mask_id in cutter(masked)["input_ids"]
    assert cutter(masked)["input_ids"] == other(masked)["input_ids"]
    assert dict(cutter("a", "b")) == dict(other("a", "b"))
    if family == "Roberta":  # the two files of old
        (tmp_path / "in" / "tokenizer.json").unlink()
        (tmp_path / "in" / "vocab.json").write_text(json.dumps(cutter.get_vocab()), encoding="utf-8")
        (tmp_path / "in" / "merges.txt").write_text("#version: 0.2\nh e\nl l\n")
        again = read_huggingface(tmp_path / "in").tokenizer
        assert again.encode(masked).ids == found.tokenizer.encode(masked).ids
        roles = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")
        assert [getattr(again, role) for role in roles] == [getattr(found.tokenizer, role) for role in roles]


@pytest.mark.parity
@pytest.mark.parametrize("lowercase", [True, False])
def test_a_vocabulary_with_its_settings_is_a_tokenizer(lowercase, tmp_path):
    theirs = pytest.importorskip("transformers")
    vocab = published(theirs, "Bert").get_vocab()
    cutter = theirs.BertTokenizer(vocab=vocab, do_lower_case=lowercase)
    reference("Bert", "ForMaskedLM", vocab_size=len(vocab)).save_pretrained(tmp_path / "in")
    tokens = sorted(vocab, key=vocab.__getitem__)
    (tmp_path / "in" / "vocab.txt").write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    settings = {"do_lower_case": lowercase, "tokenizer_class": "BertTokenizer"}
    (tmp_path / "in" / "tokenizer_config.json").write_text(json.dumps(settings))
    found = read_huggingface(tmp_path / "in")
    write_huggingface(tmp_path / "out", found.module, found.tokenizer)
    other = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in [
        "Hello WORLD, unaffable!",
        "北京 is nice",
        " odd\u3000white\tspace\u00a0\u200b ",
        "naïve Café 😀",
        "un-[]",
    ]:
        ids = [found.tokenizer.cls_id, *found.tokenizer.encode(text).ids, found.tokenizer.sep_id]
        assert cutter(text)["input_ids"] == other(text)["input_ids"] == ids, text


# --- sentence-transformers ------------------------------------------------------------------------------------------

PROMPTS = {"query": "question: ", "document": ""}


@pytest.mark.parametrize(
    "embedding",
    [
        EmbeddingConfig(),
        EmbeddingConfig(normalise=True, max_length=9),
        EmbeddingConfig(pooling="cls", prompts=PROMPTS, default_prompt="query"),
        EmbeddingConfig(pooling="max", normalise=True),
    ],
)
def test_settings_of_sentence_transformers_come_back(embedding, tokenizer, tmp_path):
    write_huggingface(tmp_path / "out", make(tokenizer, heads=()), tokenizer, embedding=embedding)
    assert not check_sealed(tmp_path / "out")
    assert EmbeddingConfig(**read_huggingface(tmp_path / "out").embedding) == embedding
    run = import_run("huggingface", tmp_path / "out", tmp_path / "run")
    assert run.model.embedding == embedding
    assert MaskedModel.load(tmp_path / "run" / "model").embedding == embedding
    export_run(run, "huggingface", tmp_path / "again")
    assert (tmp_path / "again" / "modules.json").exists() == (embedding != EmbeddingConfig())


def test_texts_get_the_vectors_that_the_settings_say(tokenizer):
    module = make(tokenizer, heads=())
    settings = EmbeddingConfig(
        layer=2, pooling="max", normalise=True, max_length=7, prompts={"query": "one ", "plain": ""}
    )
    model, plain = MaskedModel(module, tokenizer, embedding=settings), MaskedModel(module, tokenizer)
    texts = ["two three", "four five six, seven one two three"]
    ids = [tokenizer.encode(text).ids for text in texts]
    assert len(ids[1]) > 5
    expected = plain.embed(texts[:1], layer=2, pooling="max", normalise=True)
    np.testing.assert_allclose(model.embed(texts)[:1], expected, atol=1e-6)
    row = torch.tensor([[tokenizer.cls_id, *ids[1][:5], tokenizer.sep_id]])
    with torch.no_grad():
        whole = module.hidden_states(row)[2][0].amax(0)
    np.testing.assert_allclose(model.embed(texts)[1], whole / whole.norm(), atol=1e-6)
    np.testing.assert_allclose(model.embed(["two"], prompt="query"), model.embed(["one two"]), atol=1e-6)
    np.testing.assert_array_equal(model.embed(["two"], prompt="plain"), model.embed(["two"]))
    usual = EmbeddingConfig(prompts={"query": "one "}, default_prompt="query")
    asking = MaskedModel(module, tokenizer, embedding=usual)
    np.testing.assert_allclose(asking.embed(["two"]), plain.embed(["one two"]), atol=1e-6)
    assert np.linalg.norm(plain.embed(["two"])) != pytest.approx(1)
    assert np.linalg.norm(model.embed(["two"], normalise=False)) != pytest.approx(1)
    with pytest.raises(SettingError, match="prompt=document is none of the prompts; there are: query, plain"):
        model.embed(["two"], prompt="document")


def test_an_encoder_in_a_folder_of_the_folder_is_found(tokenizer, tmp_path):
    write_huggingface(tmp_path / "out", make(tokenizer, heads=()), tokenizer, embedding=EmbeddingConfig(normalise=True))
    inner = tmp_path / "out" / "0_Transformer"
    inner.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "sentence_bert_config.json"):
        (tmp_path / "out" / name).rename(inner / name)
    (inner / "sentence_bert_config.json").rename(inner / "sentence_roberta_config.json")
    modules = json.loads((tmp_path / "out" / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (tmp_path / "out" / "modules.json").write_text(json.dumps(modules))
    assert read_huggingface(tmp_path / "out").embedding["normalise"]
    assert import_run("huggingface", tmp_path / "out", tmp_path / "run").model.embedding == EmbeddingConfig(
        normalise=True
    )


@pytest.mark.parametrize(
    ("name", "changed", "message"),
    [
        ("modules.json", "{", r"modules\.json: is not JSON"),
        ("modules.json", "{}", r"modules\.json: expected a list of modules"),
        ("modules.json", "[]", r"the modules are none; expected Transformer, Pooling, Normalize"),
        ("modules.json", '[{"path": "", "type": "a.Transformer"}]', r"modules\.json: has no Pooling"),
        ("modules.json", '[{"path": "", "type": "a.Dense"}]', "the module Dense cannot be read"),
        ("modules.json", '[{"path": "../x", "type": "a.Transformer"}]', r"names '\.\./x', which is not a folder"),
        ("modules.json", '[{"type": "a.Transformer"}]', "names None, which is not a folder"),
        ("1_Pooling/config.json", "{}", "pools by nothing; expected one of mean, cls, max"),
        ("1_Pooling/config.json", '{"pooling_mode_lasttoken": true}', "pools by lasttoken"),
        (
            "1_Pooling/config.json",
            '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}',
            "pools by mean and cls; expected one",
        ),
        ("1_Pooling/config.json", '{"pooling_mode_cls_token": true, "include_prompt": false}', "include_prompt=false"),
        ("1_Pooling/config.json", None, r"1_Pooling.config\.json: cannot be read"),
        ("sentence_bert_config.json", '{"do_lower_case": true}', "do_lower_case"),
        ("sentence_bert_config.json", '{"max_seq_length": "9"}', "max_seq_length='9': expected a whole number"),
        ("config_sentence_transformers.json", '{"prompts": {"a": 1}}', "prompts: expected texts by their names"),
        ("config_sentence_transformers.json", '{"default_prompt_name": "a"}', "'a' is none of the prompts"),
        ("config_sentence_transformers.json", '{"default_prompt_name": ["a"]}', "is none of the prompts"),
    ],
)
def test_settings_of_sentence_transformers_that_are_damaged(name, changed, message, tokenizer, tmp_path):
    write_huggingface(tmp_path / "out", make(tokenizer, heads=()), tokenizer, embedding=EmbeddingConfig(normalise=True))
    path = tmp_path / "out" / name
    path.unlink()
    if changed is not None:
        path.write_text(changed)
    with pytest.raises(FormatError, match=message):
        read_huggingface(tmp_path / "out")


def test_the_longest_text_may_be_a_setting_of_the_tokenizer(tokenizer, tmp_path):
    embedding = EmbeddingConfig(normalise=True, max_length=9)
    write_huggingface(tmp_path / "out", make(tokenizer, heads=()), tokenizer, embedding=embedding)
    (tmp_path / "out" / "sentence_bert_config.json").write_text('{"transformer_task": "feature-extraction"}')
    path = tmp_path / "out" / "tokenizer_config.json"
    content = json.loads(path.read_text())
    for longest, expected in ((7, 7), (20, None), (10**30, None), (None, None)):  # the model reads 20
        path.write_text(json.dumps(content | {"model_max_length": longest}))
        found = EmbeddingConfig(**read_huggingface(tmp_path / "out").embedding)
        assert found == EmbeddingConfig(normalise=True, max_length=expected)


def test_states_of_an_inner_layer_cannot_be_written(tokenizer, tmp_path):
    with pytest.raises(SettingError, match="the states of the last layer, not layer=2"):
        write_huggingface(tmp_path / "out", make(tokenizer), tokenizer, embedding=EmbeddingConfig(layer=2))
    with pytest.raises(SettingError, match="default_prompt=x is none of the prompts; there are: none"):
        EmbeddingConfig(default_prompt="x")


# --- runs -----------------------------------------------------------------------------------------------------------


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
    ],
)
def test_models_that_transformers_does_not_have_are_refused_by_name(settings, message, tokenizer, tmp_path):
    with pytest.raises(SettingError, match=message):
        write_huggingface(tmp_path / "out", make(tokenizer, **settings), tokenizer)
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
        ({"norm": "nested", "gated": True}, "norm=nested|gated=True"),
    ],
)
def test_settings_that_the_exports_do_not_know_are_refused_by_each(settings, named, tokenizer, tmp_path):
    model = shaken(Bert(Later(**SIZES, **settings), vocab_size=VOCABULARY))
    for write, message in (
        (lambda path: write_huggingface(path, model, tokenizer), "transformers has no BERT with"),
        (lambda path: write_encoder(path, model, tokenizer), "CTranslate2 has no BERT with"),
        (lambda path: write_onnx(path, model), "no ONNX form of a bert with"),
    ):
        with pytest.raises(SettingError, match=f"{message} (?:{named})"):
            write(tmp_path / "out")
        assert not (tmp_path / "out").exists()


# --- what does not fit ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good(tokenizer, tmp_path_factory):
    folder = tmp_path_factory.mktemp("good") / "bert"
    write_huggingface(folder, make(tokenizer, heads=("mlm", "pair"), pooler="tanh"), tokenizer)
    return folder


@pytest.fixture
def folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / "bert")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key': .* has 'absolute'"),
        ({"is_decoder": True}, "is_decoder=True: an encoder here has False"),
        ({"add_cross_attention": True}, "add_cross_attention=True"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads: an encoder here has all heads"),
        ({"quantization_config": {"bits": 8}}, "quantization_config: its numbers are packed"),
        ({"auto_map": {"AutoModel": "x--y.Z"}}, "auto_map: its equations are those of a program"),
        ({"hidden_act": "mish"}, "hidden_act='mish': an encoder here has one of gelu, .* relu, silu"),
        ({"hidden_act": ["gelu"]}, r"hidden_act=\['gelu'\]"),
        ({"layer_norm_eps": 0}, "layer_norm_eps=0: expected a number between 0 and 1"),
        ({"hidden_dropout_prob": 1.0}, r"hidden_dropout_prob=1\.0: expected a number from 0 to below 1"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings='no': expected true or false"),
        ({"tie_word_embeddings": False}, r"cls\.predictions\.decoder\.weight is missing"),
        ({"architectures": "BertModel"}, "architectures='BertModel': expected a list"),
        ({"hidden_size": "24"}, "hidden_size='24': expected a whole number"),
        ({"num_hidden_layers": 0}, "num_hidden_layers=0: expected a whole number"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers=1000000000, but the tensors are those of 3 layers"),
        ({"num_attention_heads": 5}, "hidden_size=24 is not a multiple of num_heads=5"),
        ({"max_position_embeddings": 3}, "max_position_embeddings=3: expected at least 4"),
        ({"max_position_embeddings": 10**30}, "its sizes are larger than any model"),
        ({"hidden_size": 4 * 10**12}, "its sizes are larger than any model"),
        ({"vocab_size": 10**12}, r"word_embeddings\.weight has the shape \(150, 24\), expected \(1000000000000, 24\)"),
        (
            {"intermediate_size": 10**12},
            r"intermediate\.dense\.weight has the shape \(40, 24\), expected \(10{12}, 24\)",
        ),
        ({"vocab_size": 5}, r"expected \(5, 24\)"),
        ({"model_type": "distilbert"}, "n_layers=6, but the tensors are those of 0 layers"),
        ({"model_type": "bart"}, "model_type='bart' cannot be read; expected one of gpt2, .*, bert, ernie, roberta"),
    ],
)
def test_settings_that_are_wrong_or_mean_other_equations(changes, message, folder):
    change(folder, **changes)
    with pytest.raises(FormatError, match=message):
        read_huggingface(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id2label": {"0": "a"}}, "id2label: expected the names of 3 labels"),
        ({"id2label": ["a", "b", "c"]}, "id2label: expected the names of 3 labels"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "labels names a class twice"),
    ],
)
def test_labels_that_are_wrong(changes, message, tokenizer, tmp_path):
    model = make(tokenizer, heads=("token-classification",), labels=LABELS)
    write_huggingface(tmp_path / "out", model, tokenizer)
    change(tmp_path / "out", **changes)
    with pytest.raises(FormatError, match=message):
        read_huggingface(tmp_path / "out")


@pytest.mark.parametrize("shape", [(10**12, 0), (3, 23), (3,)])
def test_as_many_labels_as_a_file_can_claim_take_no_memory(shape, tokenizer, tmp_path):
    model = make(tokenizer, heads=("token-classification",), labels=LABELS)
    write_huggingface(tmp_path / "out", model, tokenizer)
    change(tmp_path / "out", id2label=None)
    path = tmp_path / "out" / "model.safetensors"
    save_file(load_file(path) | {"classifier.weight": torch.empty(shape)}, path)
    with pytest.raises(FormatError, match=r"classifier\.weight has the shape .*, expected \(labels, 24\)"):
        read_huggingface(tmp_path / "out")


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        ({"segments": 1}, {"pad_token_id": None, "max_position_embeddings": 4}, "expected at least 6"),
        ({"segments": 1}, {"pad_token_id": -1}, "pad_token_id=-1: expected an id"),
        ({"segments": 1}, {"hidden_act": "relu"}, "the head of RobertaForMaskedLM has gelu all the same"),
        ({"task_types": 3}, {"use_task_id": 1}, "use_task_id=1: expected true or false"),
        ({"task_types": 3}, {"task_type_vocab_size": 0}, "task_type_vocab_size=0: expected a whole number"),
        ({"task_types": 3}, {"use_task_id": False}, r"task_type_embeddings\.weight is more than such a model has"),
        ({"heads": ("replaced",), "embedding_size": 8}, {"embedding_size": 24}, r"embeddings_project\.\w+ is more"),
        ({"segments": 0}, {"dim": 48}, r"word_embeddings\.weight has the shape"),
    ],
)
def test_settings_of_the_relatives_that_are_wrong(settings, changes, message, tokenizer, tmp_path):
    write_huggingface(tmp_path / "out", make(tokenizer, **settings), tokenizer)
    change(tmp_path / "out", **changes)
    with pytest.raises(FormatError, match=message):
        read_huggingface(tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "made", "message"),
    [
        ("bert.embeddings.LayerNorm.bias", lambda old: None, r"embeddings\.LayerNorm\.bias is missing"),
        ("bert.encoder.layer.1.attention.self.key.bias", lambda old: None, r"attention\.self\.key\.bias is missing"),
        ("bert.encoder.layer.1.attention.self.key.bias", lambda old: old[:-1], r"\(23,\), expected \(24,\)"),
        ("bert.pooler.dense.bias", lambda old: None, r"pooler\.dense\.bias is missing"),
        ("bert.adapter.weight", lambda old: torch.zeros(2), r"adapter\.weight is more than such a model has"),
        ("pooler.dense.bias", lambda old: torch.zeros(24), r"has pooler\.dense\.bias a second time"),
        ("cls.predictions.bias", lambda old: old / 0, r"cls\.predictions\.bias has numbers that are not finite"),
        ("cls.predictions.bias", lambda old: None, r"cls\.predictions\.bias is missing"),
        ("bert.pooler.dense.bias", lambda old: old.long(), r"pooler\.dense\.bias is of torch\.int64"),
        ("cls.predictions.decoder.weight", lambda old: torch.zeros(150, 24), r"decoder\.weight is not embeddings"),
        ("cls.predictions.decoder.bias", lambda old: torch.zeros(150), r"decoder\.bias is not cls\.predictions\.bias"),
        ("cls.predictions.decoder.bias", lambda old: torch.zeros(3), r"decoder\.bias has the shape \(3,\)"),
    ],
)
def test_tensors_that_do_not_fit(name, made, message, folder):
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = made(tensors.get(name))
    save_file({key: value for key, value in tensors.items() if value is not None}, folder / "model.safetensors")
    with pytest.raises(FormatError, match=message):
        read_huggingface(folder)


def test_files_that_are_missing_cut_or_pickled(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for kept in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:kept])
        with pytest.raises(FormatError, match="is not a whole safetensors file"):
            read_huggingface(folder)
    path.rename(folder / "pytorch_model.bin")
    with pytest.raises(FormatError, match=r"is a pickle, which is never opened: save it as safetensors, .*python -c"):
        read_huggingface(folder)
    (folder / "config.json").unlink()
    with pytest.raises(FormatError, match=r"config\.json: cannot be read"):
        read_huggingface(folder)


def test_the_command_that_converts_a_pickle_works(folder, tokenizer, monkeypatch):
    tensors = load_file(folder / "model.safetensors")
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"]  # one memory
    torch.save(tensors, folder / "pytorch_model.bin")
    before = read_huggingface(folder).module.state_dict()
    (folder / "model.safetensors").unlink()
    with pytest.raises(FormatError) as raised:
        read_huggingface(folder)
    program = str(raised.value).split('python -c "')[1].rpartition('"')[0]
    monkeypatch.chdir(folder)
    exec(program, {})
    after = read_huggingface(folder).module.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_tokenizers_that_do_not_fit_the_model(folder, tokenizer):
    plain = Tokenizer.train(TEXTS, TokenizerConfig(kind="wordpiece", vocab_size=90, min_count=1))
    plain.save(folder / "tokenizer.json")
    with pytest.raises(FormatError, match="the tokenizer has no tokens around texts"):
        read_huggingface(folder)
    backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    backend.add_tokens([f"more{number}" for number in range(100)])
    backend.save(str(folder / "tokenizer.json"))
    with pytest.raises(FormatError, match=r"vocab_size=150, but the tokenizer has \d+ tokens"):
        read_huggingface(folder)


def test_places_that_cannot_be_written(folder, tokenizer):
    with pytest.raises(RunError, match="exists already; choose another folder"):
        write_huggingface(folder, make(tokenizer), tokenizer)


def test_padding_before_the_table_of_roberta_is_left_out_and_comes_back(tokenizer, tmp_path):
    model = make(tokenizer, segments=1)
    write_huggingface(tmp_path / "out", model, tokenizer)
    stored = load_file(tmp_path / "out" / "model.safetensors")["roberta.embeddings.position_embeddings.weight"]
    assert stored.shape == (20 + tokenizer.pad_id + 1, 24)
    assert not stored[: tokenizer.pad_id + 1].any()
    np.testing.assert_array_equal(stored[tokenizer.pad_id + 1 :], model.positions.weight.detach())
