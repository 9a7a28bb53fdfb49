"""Folders of sentence-transformers, both ways, and what of them is refused."""

import json

import numpy as np
import pytest
import torch

from tests.formats.encoders import make
from wenmai.core.errors import FormatError, SettingError
from wenmai.core.folder import check_sealed
from wenmai.formats.huggingface import read_huggingface, write_huggingface
from wenmai.formats.huggingface.sentence_transformers import read_embedding
from wenmai.inference.embedding_config import EmbeddingConfig
from wenmai.inference.masked_model import MaskedModel
from wenmai.runs.formats import export_run, import_run

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
        ("modules.json", '[{"path": "..", "type": "a.Transformer"}]', r"names '\.\.', which is not a folder"),
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


def test_vectors_that_are_cut_have_all_their_numbers_here_and_this_is_told(tokenizer, tmp_path, caplog):
    write_huggingface(tmp_path / "out", make(tokenizer, heads=()), tokenizer, embedding=EmbeddingConfig(normalise=True))
    path = tmp_path / "out" / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"truncate_dim": 5}))
    run = import_run("huggingface", tmp_path / "out", tmp_path / "run")
    assert run.model.embed(["two"]).shape == (1, 24)
    assert (
        f"{path}: truncate_dim=5 is not kept: vectors have all their numbers, not these first ones alone"
        in caplog.messages
    )


def test_states_of_an_inner_layer_cannot_be_written(tokenizer, tmp_path):
    with pytest.raises(SettingError, match="the states of the last layer, not layer=2"):
        write_huggingface(tmp_path / "out", make(tokenizer), tokenizer, embedding=EmbeddingConfig(layer=2))
    with pytest.raises(SettingError, match="default_prompt=x is none of the prompts; there are: none"):
        EmbeddingConfig(default_prompt="x")


def test_a_cross_encoder_is_no_encoder_of_sentence_transformers(tokenizer, tmp_path):
    model = make(tokenizer)
    write_huggingface(tmp_path / "out", model, tokenizer)
    (tmp_path / "out" / "modules.json").write_text('[{"path": "", "type": "a.Transformer"}]')
    (tmp_path / "out" / "config_sentence_transformers.json").write_text('{"model_type": "CrossEncoder"}')
    assert read_embedding(tmp_path / "out") is None
