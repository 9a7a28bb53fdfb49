"""CTranslate2 gives the same translations and scores as the model it was written from."""

import json
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from wenmai.core.errors import RunError, SettingError
from wenmai.core.folder import check_sealed
from wenmai.decode.search import beam_search, greedy
from wenmai.formats.ctranslate2 import write_ctranslate2, write_encoder, write_generator
from wenmai.models.bert import Bert, BertConfig
from wenmai.models.gpt import Gpt, GptConfig
from wenmai.models.seq2seq import Seq2Seq, Seq2SeqConfig
from wenmai.models.transformer import Transformer, TransformerConfig
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

KINDS = {
    "post-norm": {},
    "pre-norm, fewer decoder layers": {"norm": "pre", "activation": "gelu", "decoder_layers": 1},
    "more decoder layers, no biases": {"num_layers": 1, "decoder_layers": 2, "attention_bias": False},
    "learned": {"positions": "learned", "activation": "gelu"},
    "shaw": {"positions": "shaw", "max_distance": 2},
    "shaw, pre-norm": {"positions": "shaw", "norm": "pre"},
    "no positions": {"positions": "none", "norm": "pre"},
}
LONGEST = 24
LENGTHS = (7, 3, 1, 5, 6, 2)


def tokenizer(words, count):
    texts = [f"{words}{number}" for number in range(count) for _ in range(2)]
    return Tokenizer.train(texts, TokenizerConfig(kind="words"))


@pytest.fixture(scope="module")
def source():
    return tokenizer("quelle", 15)


@pytest.fixture(scope="module")
def target():
    return tokenizer("goal", 20)


def make(source, target, *, steps=0, **settings):
    """A model that has begun to learn to say the source backwards, so that its translations differ and end."""
    torch.manual_seed(5)
    sizes = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "ffn_size": 48, "max_length": 40, "dropout": 0.0}
    model = Transformer(
        TransformerConfig(**(sizes | settings)),
        source_vocab_size=source.vocab_size,
        target_vocab_size=target.vocab_size,
        tied_sources=source is target,
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)  # biases and norms too
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(steps):
        ids = torch.randint(4, source.vocab_size, (32, 1 + step % 7))
        wanted = torch.cat((ids.flip(1), torch.full((32, 1), target.eos_id)), 1)
        fed = torch.cat((torch.full((32, 1), target.bos_id), wanted[:, :-1]), 1)
        ended = torch.cat((ids, torch.full((32, 1), source.eos_id)), 1)
        logits = model.logits(model(ended, torch.ones_like(ended, dtype=torch.bool), fed))
        optimiser.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), wanted.flatten()).backward()
        optimiser.step()
    return model.eval()


def sentences(source):
    generator = torch.Generator().manual_seed(8)
    return [torch.randint(4, source.vocab_size, (length,), generator=generator).tolist() for length in LENGTHS]


def begun(model, source, ids, **options):
    rows = [[*row, source.eos_id] for row in ids]
    valid = torch.arange(max(map(len, rows))) < torch.tensor([len(row) for row in rows])[:, None]
    padded = torch.tensor([row + [source.pad_id] * (valid.shape[1] - len(row)) for row in rows])
    return model.begin(padded, valid, max_length=LONGEST, **options)


def theirs(folder, source, ids, beam_size, **options):
    engine = pytest.importorskip("ctranslate2").Translator(str(folder), compute_type="float32", intra_threads=1)
    settings = {"length_penalty": 0, "min_decoding_length": 0, "max_decoding_length": LONGEST, "return_scores": True}
    tokens = [[source.token(number) for number in row] for row in ids]
    return engine.translate_batch(tokens, beam_size=beam_size, **(settings | options))


@pytest.mark.parity
@pytest.mark.parametrize(("kind", "joint"), [*((kind, False) for kind in KINDS), ("post-norm", True), ("shaw", True)])
def test_translations_and_scores_are_the_same(kind, joint, source, target, tmp_path):
    first = target if joint else source
    model, ids = make(first, target, steps=50, **KINDS[kind]), sentences(first)
    write_ctranslate2(tmp_path / "model", model, source=first, target=target)
    common = {"bos_id": target.bos_id, "eos_id": target.eos_id, "max_lengths": LONGEST}
    ours = greedy(model, begun(model, first, ids), **common)
    assert len({tuple(found.tokens) for found in ours}) > 3
    compare(ours, theirs(tmp_path / "model", first, ids, 1), target)
    best = beam_search(model, begun(model, first, ids), beam_size=4, stop="bound", **common)
    ended = [place for place, (found,) in enumerate(best) if found.finished]  # the engine ranks others among them
    assert len(ended) >= 3
    found = theirs(tmp_path / "model", first, ids, 4)
    compare([best[place][0] for place in ended], [found[place] for place in ended], target)


def compare(ours, found, target):
    assert [[target.token(token) for token in one.tokens] for one in ours] == [one.hypotheses[0] for one in found]
    assert [one.log_prob for one in ours] == pytest.approx([one.scores[0] for one in found], abs=1e-4)


@pytest.mark.parity
def test_attention_is_that_of_the_last_layer(source, target, tmp_path):
    model, ids = make(source, target), sentences(source)
    write_ctranslate2(tmp_path / "model", model, source=source, target=target)
    common = {"bos_id": target.bos_id, "eos_id": target.eos_id, "max_lengths": LONGEST}
    ours = greedy(model, begun(model, source, ids, need_attention=True), **common)
    for one, other, row in zip(
        ours, theirs(tmp_path / "model", source, ids, 1, return_attention=True), ids, strict=True
    ):
        weights = np.array(other.attention[0])[: len(one.tokens)]
        np.testing.assert_allclose(one.attention[:, : weights.shape[1]].numpy(), weights, atol=1e-5)
        assert weights.shape[1] >= len(row)


@pytest.mark.parity
def test_banned_tokens_are_left_out_when_told_so(source, target, tmp_path):
    model, ids = make(source, target), sentences(source)
    with torch.no_grad():
        likely = model.embedding[[target.unk_id, target.bos_id]]
        model.decoder.layers[-1].ffn_residual.norm.bias += 2 * (likely / likely.norm(dim=1, keepdim=True) ** 2).sum(0)
    write_ctranslate2(tmp_path / "model", model, source=source, target=target)
    banned = (target.pad_id, target.bos_id, target.unk_id)
    ours = greedy(
        model,
        begun(model, source, ids),
        bos_id=target.bos_id,
        eos_id=target.eos_id,
        max_lengths=LONGEST,
        banned=banned,
    )
    plain = theirs(tmp_path / "model", source, ids, 1)
    assert any({"<unk>", "<s>"} & set(found.hypotheses[0]) for found in plain)
    options = {"disable_unk": True, "suppress_sequences": [["<pad>"], ["<s>"]]}
    found = theirs(tmp_path / "model", source, ids, 1, **options)
    assert [[target.token(token) for token in one.tokens] for one in ours] == [one.hypotheses[0] for one in found]
    for one, other, row in zip(ours, found, ids, strict=True):  # they renormalise: what was left out is shared out
        fed, ended = torch.tensor([[target.bos_id, *one.tokens]]), torch.tensor([[*row, source.eos_id]])
        with torch.no_grad():
            chances = model.logits(model(ended, torch.ones_like(ended, dtype=torch.bool), fed)).softmax(-1)[0]
        left_out = chances[: len(one.tokens) + one.finished, list(banned)].sum(-1).double()
        assert float(left_out.max()) > 0.01
        assert other.scores[0] == pytest.approx(one.log_prob - float(torch.log1p(-left_out).sum()), abs=1e-4)


@pytest.mark.parity
def test_int8_is_chosen_when_the_folder_is_opened(source, target, tmp_path):
    model, ids = make(source, target), sentences(source)
    write_ctranslate2(tmp_path / "model", model, source=source, target=target)
    engine = pytest.importorskip("ctranslate2").Translator(str(tmp_path / "model"), compute_type="int8")
    assert engine.compute_type.startswith("int8")
    assert len(engine.translate_batch([[source.token(number) for number in ids[0]]])[0].hypotheses[0]) > 0


@pytest.mark.parity
@pytest.mark.parametrize("joint", [False, True])
def test_the_folder_has_all_that_translating_needs(joint, source, target, tmp_path):
    pytest.importorskip("ctranslate2")
    first = target if joint else source
    write_ctranslate2(tmp_path / "model", make(first, target), source=first, target=target)
    names = ("tokenizer.json",) if joint else ("source-tokenizer.json", "target-tokenizer.json")
    vocabularies = ("shared_vocabulary.json",) if joint else ("source_vocabulary.json", "target_vocabulary.json")
    files = {path.name for path in (tmp_path / "model").iterdir()}
    assert files == {"model.bin", "config.json", "manifest.json", *names, *vocabularies}
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert config == config | {
        "bos_token": "<s>",
        "decoder_start_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "add_source_eos": True,
        "add_source_bos": False,
        "layer_norm_epsilon": 1e-6,
    }
    assert Tokenizer.load(tmp_path / "model" / names[-1]).fingerprint == target.fingerprint
    assert check_sealed(tmp_path / "model") == []
    sizes = (tmp_path / "model" / "model.bin").stat().st_size
    parameters = sum(parameter.numel() for parameter in make(first, target).parameters())
    assert 4 * parameters < sizes < 4 * parameters + 2 * 4 * 1024 * 32 + 20_000  # one table, and the positions


@pytest.mark.parity
def test_folders_with_something_in_them_are_left_alone(source, target, tmp_path):
    pytest.importorskip("ctranslate2")
    model = make(source, target)
    (tmp_path / "notes.txt").write_text("mine")
    for taken in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(RunError, match="exists already; choose another path"):
            write_ctranslate2(taken, model, source=source, target=target)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "empty").mkdir()
    write_ctranslate2(tmp_path / "empty", model, source=source, target=target)
    assert (tmp_path / "empty" / "model.bin").exists()


def test_models_that_the_engine_does_not_have_are_refused_by_name(source, target, tmp_path):
    with pytest.raises(SettingError, match="window=3"):
        write_ctranslate2(tmp_path / "model", make(source, target, window=3), source=source, target=target)
    recurrent = Seq2Seq(
        Seq2SeqConfig(embedding_size=4, hidden_size=4),
        source_vocab_size=source.vocab_size,
        target_vocab_size=target.vocab_size,
        tied_sources=False,
    )
    with pytest.raises(SettingError, match="CTranslate2 has no Seq2Seq models"):
        write_ctranslate2(tmp_path / "model", recurrent, source=source, target=target)
    assert not list(tmp_path.iterdir())


def test_without_the_package_the_message_says_what_to_install(source, target, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.delitem(sys.modules, "ctranslate2.specs", raising=False)
    with pytest.raises(SettingError, match=r"pip install -e '\.\[ctranslate2\]'"):
        write_ctranslate2(tmp_path / "model", make(source, target), source=source, target=target)
    assert not list(tmp_path.iterdir())


# --- language models ------------------------------------------------------------------------------------------------


def make_gpt(tokenizer, *, more=0, **settings):
    torch.manual_seed(6)
    sizes = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_length": 40}
    model = Gpt(GptConfig(**(sizes | settings)), vocab_size=tokenizer.vocab_size + more, bos_id=tokenizer.eos_id)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def log_probs(model, ids):
    """The log-probabilities of what follows each token, (T, V)."""
    with torch.no_grad():
        return model.output.log_probs(model(torch.tensor([ids]))[0])


@pytest.mark.parity
@pytest.mark.parametrize(
    "settings",
    [{}, {"more": 5, "ffn_size": 48, "num_layers": 1}, {"tied": False, "activation": "silu", "epsilon": 1e-3}],
    ids=["usual", "other sizes", "untied"],
)
def test_generators_write_and_score_the_same(settings, target, tmp_path):
    model = make_gpt(target, **settings)
    write_generator(tmp_path / "model", model, target)
    engine = pytest.importorskip("ctranslate2").Generator(str(tmp_path / "model"), compute_type="float32")
    names = json.loads((tmp_path / "model" / "vocabulary.json").read_text())
    assert len(names) == len(set(names)) == model.vocab_size
    written = []
    for row in sentences(target):
        ids = [target.eos_id, *row]
        expected = log_probs(model, ids)[:-1].gather(1, torch.tensor(row)[:, None])[:, 0]
        (found,) = engine.score_batch([[names[number] for number in ids]])
        assert found.log_probs == pytest.approx(expected.tolist(), abs=1e-4)
        options = {"max_length": 12, "include_prompt_in_result": False}
        (found,) = engine.generate_batch([[names[number] for number in ids]], **options)
        ours = []
        while len(ours) < 12 and (token := int(log_probs(model, [*ids, *ours])[-1].argmax())) != target.eos_id:
            ours.append(token)
        assert found.sequences_ids[0] == ours
        written.append(tuple(ours))
    assert len(set(written)) > 3
    assert Tokenizer.load(tmp_path / "model" / "tokenizer.json").fingerprint == target.fingerprint
    assert check_sealed(tmp_path / "model") == []


def test_gpts_that_the_engine_does_not_have_are_refused_by_name(target, tmp_path):
    for settings, message in (({"norm": "post"}, r"no GPT with norm=post \(GPT-1\)"), ({"window": 3}, "window=3")):
        with pytest.raises(SettingError, match=message):
            write_generator(tmp_path / "model", make_gpt(target, **settings), target)
    with pytest.raises(SettingError, match="CTranslate2 has no Transformer models; it takes"):
        write_generator(tmp_path / "model", make(target, target), target)
    assert not list(tmp_path.iterdir())
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="exists already; choose another path"):
        write_generator(tmp_path, make_gpt(target), target)


# --- encoders -------------------------------------------------------------------------------------------------------

BERTS = {
    "usual": {},
    "pooler, other sizes": {"pooler": "tanh", "ffn_size": 48, "num_layers": 1, "epsilon": 1e-3},
    "relu": {"pooler": "relu", "activation": "relu", "segments": 0},
    "gelu": {"pooler": "gelu", "activation": "gelu_tanh", "segments": 3},
    "one segment, tasks": {"segments": 1, "task_types": 2, "activation": "silu"},
    "pre-norm": {"norm": "pre"},
}


@pytest.fixture(scope="module")
def framing():
    texts = [f"word{number}" for number in range(20) for _ in range(2)]
    return Tokenizer.train(texts, TokenizerConfig(kind="words"), roles=("cls", "sep", "mask"))


def make_bert(tokenizer, **settings):
    torch.manual_seed(6)
    sizes = {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_length": 12}
    model = Bert(BertConfig(**(sizes | settings)), vocab_size=tokenizer.vocab_size + 3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return model.eval()


@pytest.mark.parity
@pytest.mark.parametrize("settings", BERTS.values(), ids=BERTS)
def test_encoders_have_the_same_states(settings, framing, tmp_path):
    theirs = pytest.importorskip("ctranslate2")
    model = make_bert(framing, **settings)
    write_encoder(tmp_path / "model", model, framing)
    engine = theirs.Encoder(str(tmp_path / "model"), compute_type="float32", intra_threads=1)
    assert check_sealed(tmp_path / "model") == []
    rows = [[framing.cls_id, *row, framing.sep_id] for row in sentences(framing)]
    segments = [[place % max(1, model.config.segments) for place in range(len(row))] for row in rows]
    several = {"token_type_ids": segments} if model.config.segments > 1 else {}
    found = engine.forward_batch(rows, **several)
    states = np.array(found.last_hidden_state)
    for row, types, got in zip(rows, segments, states, strict=True):
        given = torch.tensor([types]) if several else None
        with torch.no_grad():
            expected = model(torch.tensor([row]), segments=given)
        np.testing.assert_allclose(got[: len(row)], expected[0].numpy(), rtol=0, atol=1e-4)
    if model.pooler is not None:
        with torch.no_grad():
            given = torch.tensor([segments[0]]) if several else None
            pooled = model.pooled(model(torch.tensor([rows[0]]), segments=given))
        np.testing.assert_allclose(np.array(found.pooler_output)[0], pooled[0].numpy(), rtol=0, atol=1e-4)


def test_encoders_that_the_engine_does_not_have_are_refused_by_name(framing, tmp_path):
    with pytest.raises(SettingError, match="no BERT with embedding_size=8 beside hidden_size=32"):
        write_encoder(tmp_path / "model", make_bert(framing, embedding_size=8), framing)
    with pytest.raises(SettingError, match="CTranslate2 has no Gpt models; it takes Transformers, GPTs and BERTs"):
        write_encoder(tmp_path / "model", make_gpt(framing), framing)
    assert not list(tmp_path.iterdir())
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match="exists already; choose another path"):
        write_encoder(tmp_path, make_bert(framing), framing)
