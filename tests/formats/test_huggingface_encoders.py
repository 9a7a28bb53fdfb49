"""Encoders of Hugging Face against transformers: states, attention, logits and gradients, and back."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy

from tests.formats.encoders import CASES, LABELS, VOCABULARY, change, folder_of, reference
from wenmai.formats.huggingface import read_huggingface, write_huggingface
from wenmai.nn.attention import watch_attention


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
def test_each_task_of_ernie_has_its_own_vector(tokenizer, tmp_path):
    other = reference("Ernie", "ForMaskedLM")
    found = read_huggingface(folder_of(other, tokenizer, tmp_path)).module
    ids, real, segments = batch(found, "right")
    seen = []
    with torch.no_grad():
        for task in range(found.config.task_types):
            given = {"input_ids": ids, "attention_mask": real.long(), "token_type_ids": segments}
            wanted = other(**given, task_type_ids=torch.full_like(ids, task)).logits
            states = found(ids, segments=segments, mask=real[:, None, None], task_type=task)
            torch.testing.assert_close(found.heads["mlm"](states)[real], wanted[real], rtol=0, atol=1e-5)
            seen.append(wanted[real])
    assert len(seen) == 5
    assert all((one - seen[0]).abs().max() > 1e-3 for one in seen[1:])


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
def test_settings_of_distilbert_may_have_the_names_of_bert(tokenizer, tmp_path):
    transformers = pytest.importorskip("transformers")
    folder = folder_of(reference("DistilBert", "Model"), tokenizer, tmp_path / "theirs")
    change(folder, hidden_size=24, num_attention_heads=4, num_hidden_layers=3, dim=None, n_heads=12, n_layers=None)
    other = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    found = read_huggingface(folder).module
    assert found.config.num_heads == other.config.n_heads == 4
    ids, real, segments = batch(found, "right")
    with torch.no_grad():
        compare(ours(found, ids, real, segments, 0), theirs(other, ids, real, segments), real)


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
    for other in ({}, {"a": 0, "b": 1}):
        change(folder, label2id=other)
        assert read_huggingface(folder).module.config.labels[3] == "LABEL_3"
    change(folder, label2id={"d": 3, "b": 1, "c": 2, "a": 0})
    assert read_huggingface(folder).module.config.labels == ("a", "b", "c", "d")
    assert "problem_type=multi_label_classification is not kept" in caplog.text
    caplog.clear()
    change(folder, problem_type="regression")  # which a task has
    read_huggingface(folder)
    assert not caplog.text
