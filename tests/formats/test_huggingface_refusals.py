"""Folders of encoders that are damaged, or that mean other equations."""

import shutil

import numpy as np
import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file

from tests.formats.encoders import LABELS, TEXTS, change, make
from wenmai.core.errors import FormatError, RunError
from wenmai.formats.huggingface import read_huggingface, write_huggingface
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig


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
        ({"pruned_heads": {"0": [1]}}, "pruned_heads: a model here has all heads"),
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
        ({"model_type": "distilbert"}, "n_layers=3, but the tensors are those of 0 layers"),
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
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "id2label: 'a' stands for two labels"),
        ({"id2label": {"0": None, "1": "a", "2": "b"}}, "id2label: 'None' is no label"),
        ({"id2label": {"0": {"a": 1}, "1": "a", "2": "b"}}, "is no label; expected a line of text without tabs"),
        ({"id2label": {"0": "c\td", "1": "a", "2": "b"}}, "is no label; expected a line of text without tabs"),
        ({"id2label": {"0": "c\n", "1": "a", "2": "b"}}, "is no label; expected a line of text without tabs"),
        ({"id2label": {"0": " ", "1": "a", "2": "b"}}, "is no label; expected a line of text without tabs"),
        ({"id2label": {"0": 1, "1": "1", "2": "b"}}, "id2label: '1' stands for two labels"),
        ({"id2label": {"0": "c\nd", "1": "a", "2": "b"}}, "is no label; expected a line of text without tabs"),
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


def test_vectors_of_tasks_that_are_not_used_are_left_out(tokenizer, tmp_path, caplog):
    model = make(tokenizer, task_types=3)
    write_huggingface(tmp_path / "out", model, tokenizer)
    change(tmp_path / "out", use_task_id=None)
    found = read_huggingface(tmp_path / "out").module
    assert found.config.task_types == 0
    assert "does not say use_task_id=true, so the vectors of tasks are not used" in caplog.text
    assert torch.equal(found.embedding.weight, model.embedding.weight)


@pytest.mark.parametrize(
    ("settings", "changes", "message"),
    [
        ({"segments": 1}, {"pad_token_id": None, "max_position_embeddings": 4}, "expected at least 6"),
        ({"segments": 1}, {"pad_token_id": -1}, "pad_token_id=-1: expected an id"),
        ({"segments": 1}, {"hidden_act": "relu"}, "the head of RobertaForMaskedLM has gelu all the same"),
        ({"task_types": 3}, {"use_task_id": 1}, "use_task_id=1: expected true or false"),
        ({"task_types": 3}, {"task_type_vocab_size": 0}, "task_type_vocab_size=0: expected a whole number"),
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
    (folder / "pytorch_model.bin").rename(folder / "model_state.pdparams")
    with pytest.raises(FormatError, match=r"parameters of Paddle, \*\.pdparams, are not read"):
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
    with pytest.raises(RunError, match="exists already; choose another path"):
        write_huggingface(folder, make(tokenizer), tokenizer)


def test_padding_before_the_table_of_roberta_is_left_out_and_comes_back(tokenizer, tmp_path):
    model = make(tokenizer, segments=1)
    write_huggingface(tmp_path / "out", model, tokenizer)
    stored = load_file(tmp_path / "out" / "model.safetensors")["roberta.embeddings.position_embeddings.weight"]
    assert stored.shape == (20 + tokenizer.pad_id + 1, 24)
    assert not stored[: tokenizer.pad_id + 1].any()
    np.testing.assert_array_equal(stored[tokenizer.pad_id + 1 :], model.positions.weight.detach())
