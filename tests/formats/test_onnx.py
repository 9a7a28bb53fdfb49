"""A model written as ONNX computes what it computes here: encoders their states, decoders with caches their logits."""

import sys

import numpy as np
import pytest
import torch

from wenmai.core.errors import SettingError
from wenmai.formats.onnx import graph as written
from wenmai.formats.onnx import write_onnx
from wenmai.models.gpt import Gpt, GptConfig
from wenmai.models.seq2seq import Seq2Seq, Seq2SeqConfig
from wenmai.models.transformer import Transformer, TransformerConfig

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

VOCABULARY, LONGEST = 30, 24
TRANSFORMERS = {
    "post-norm": {},
    "pre-norm": {"norm": "pre", "activation": "gelu"},
    "no biases": {"attention_bias": False, "positions": "none"},
    "learned": {"positions": "learned"},
    "shaw": {"positions": "shaw", "max_distance": 3},
    "window": {"window": 2},
    "shaw in a window": {"positions": "shaw", "max_distance": 3, "window": 4, "norm": "pre"},
}
SEQ2SEQ = {
    "gru": {},
    "lstm, two layers": {"encoder": "lstm", "num_layers": 2},
    "rnn, one direction": {"encoder": "rnn", "bidirectional": False},
    "lstm, reversed": {"encoder": "lstm", "bidirectional": False, "reverse_source": True, "num_layers": 2},
    "gru, reversed": {"bidirectional": False, "reverse_source": True},
    "local attention": {"selection": "local-p", "window": 3},
    "cnn": {"encoder": "cnn", "num_layers": 2},
    "cnn, even kernel": {"encoder": "cnn", "kernel_size": 4},
}


def make(kind, settings, *, tied):
    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "max_length": LONGEST, "dropout": 0.0}
    if kind == "transformer":
        config = TransformerConfig(**(sizes | {"num_layers": 2, "num_heads": 2, "ffn_size": 24} | settings))
        build = Transformer
    else:
        config, build = Seq2SeqConfig(**(sizes | {"embedding_size": 8} | settings)), Seq2Seq
    target = VOCABULARY if tied else VOCABULARY + 5
    model = build(config, source_vocab_size=VOCABULARY, target_vocab_size=target, tied_sources=tied)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)  # biases and norms too
    return model.eval()


def batches():
    draw = np.random.default_rng(4)
    for rows, longest in ((1, 1), (2, LONGEST), (5, 9), (3, 2)):
        lengths = draw.integers(1, longest + 1, rows)
        lengths[-1] = longest
        yield draw.integers(0, VOCABULARY, (rows, longest)), np.arange(longest) < lengths[:, None]


GPTS = {
    "GPT-2": {},
    "GPT-1": {"norm": "post"},
    "GPT-3": {"window": 3, "num_layers": 3},
    "untied": {"tied": False, "activation": "silu", "epsilon": 1e-3, "ffn_size": 20},
    "relu": {"activation": "relu"},
    "gelu": {"activation": "gelu"},
}


def make_gpt(settings):
    torch.manual_seed(5)
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_length": LONGEST}
    model = Gpt(GptConfig(**sizes | settings), vocab_size=VOCABULARY, bos_id=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model.eval()


class Session:
    """A decoder in ONNX Runtime with its caches."""

    def __init__(self, path, rows, **given):
        self.session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.given = given
        shapes = {value.name: value.shape for value in self.session.get_inputs()}
        self.past = {
            name: np.zeros((rows, shape[1], 0, shape[3]), np.float32)
            for name, shape in shapes.items()
            if name.startswith("past_key_values.")
        }

    def logits(self, ids, **given):
        names = [output.name for output in self.session.get_outputs()]
        found = self.session.run(None, {"input_ids": ids, **self.given, **given, **self.past})
        logits, *present = found
        self.past = {
            name.replace("present", "past_key_values"): value for name, value in zip(names[1:], present, strict=True)
        }
        return logits


CASES = [("transformer", name, settings) for name, settings in TRANSFORMERS.items()]
CASES += [("seq2seq", name, settings) for name, settings in SEQ2SEQ.items()]


@pytest.mark.parity
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("kind", "settings"), [pytest.param(kind, found, id=name) for kind, name, found in CASES])
def test_the_states_are_those_of_the_model(kind, settings, tied, tmp_path):
    model = make(kind, settings, tied=tied)
    write_onnx(tmp_path / "encoder.onnx", model)
    session = runtime.InferenceSession(tmp_path / "encoder.onnx", providers=["CPUExecutionProvider"])
    for ids, mask in batches():
        with torch.inference_mode():
            memory = model.encode(torch.from_numpy(ids), torch.from_numpy(mask))
        expected = {"states": memory[0]} | ({"last": memory.last} if kind == "seq2seq" else {})
        names = [output.name for output in session.get_outputs()]
        assert names[: len(expected)] == list(expected)
        found = dict(zip(names, session.run(None, {"token_ids": ids, "mask": mask}), strict=True))
        np.testing.assert_allclose(found["states"][mask], expected["states"].numpy()[mask], rtol=0, atol=1e-5)
        if kind == "seq2seq":
            np.testing.assert_allclose(found["last"], expected["last"].numpy(), rtol=0, atol=1e-5)


@pytest.mark.parity
@pytest.mark.parametrize("settings", GPTS.values(), ids=GPTS)
def test_a_gpt_continues_from_its_caches(settings, tmp_path):
    model = make_gpt(settings)
    write_onnx(tmp_path / "gpt.onnx", model)
    ids = np.random.default_rng(1).integers(0, VOCABULARY, (3, LONGEST))
    with torch.no_grad():
        expected = model.output(model(torch.from_numpy(ids))).numpy()
    session, done = Session(tmp_path / "gpt.onnx", 3), 0
    for length in (7, 1, 5, 1, 10):
        new = ids[:, done : done + length]
        done += length
        found = session.logits(new, attention_mask=np.ones((3, done), np.int64))
        np.testing.assert_allclose(found, expected[:, done - length : done], rtol=0, atol=2e-5)
    assert {tuple(value.shape[:1] + value.shape[2:]) for value in session.past.values()} == {(3, LONGEST, 8)}


@pytest.mark.parity
def test_texts_of_several_lengths_are_padded_in_front(tmp_path):
    model = make_gpt({})
    write_onnx(tmp_path / "gpt.onnx", model)
    ids = np.random.default_rng(2).integers(0, VOCABULARY, (2, 9))
    mask = np.ones((2, 9), np.int64)
    mask[1, :4] = 0
    session = Session(tmp_path / "gpt.onnx", 2)
    begun = session.logits(ids[:, :6], attention_mask=mask[:, :6])
    found = np.concatenate([begun, session.logits(ids[:, 6:], attention_mask=mask)], axis=1)
    with torch.no_grad():
        whole, short = (model.output(model(torch.from_numpy(row[None]))).numpy()[0] for row in (ids[0], ids[1, 4:]))
    np.testing.assert_allclose(found[0], whole, rtol=0, atol=2e-5)
    np.testing.assert_allclose(found[1, 4:], short, rtol=0, atol=2e-5)


@pytest.mark.parity
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("settings", TRANSFORMERS.values(), ids=TRANSFORMERS)
def test_an_exported_translator_writes_the_same_tokens(settings, tied, tmp_path):
    model = make("transformer", settings, tied=tied)
    for part in ("encoder", "decoder"):
        write_onnx(tmp_path / f"{part}.onnx", model, part=part)
    encoder = runtime.InferenceSession(tmp_path / "encoder.onnx", providers=["CPUExecutionProvider"])
    for ids, mask in batches():
        found = encoder.run(None, {"token_ids": ids, "mask": mask})
        memory = dict(zip((output.name for output in encoder.get_outputs()), found, strict=True))
        del memory["states"]
        session, tokens = Session(tmp_path / "decoder.onnx", len(ids), mask=mask, **memory), np.zeros(len(ids), int)
        with torch.no_grad():
            state = model.begin(torch.from_numpy(ids), torch.from_numpy(mask), max_length=8)
            for _ in range(8):
                expected = model.step(torch.from_numpy(tokens), state).logits.numpy()
                logits = session.logits(tokens[:, None])[:, 0]
                np.testing.assert_allclose(logits, expected, rtol=0, atol=5e-5)
                tokens = expected.argmax(axis=1)


def test_the_file_says_what_it_takes(tmp_path):
    write_onnx(tmp_path / "encoder.onnx", make("transformer", {}, tied=True))
    model = onnx.load(tmp_path / "encoder.onnx")
    shapes = {
        value.name: [dimension.dim_param or dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    memory = {f"memory.{number}.{part}": ["batch", 2, "length", 8] for number in (0, 1) for part in ("key", "value")}
    inputs = {"token_ids": ["batch", "length"], "mask": ["batch", "length"]}
    assert shapes == {**inputs, "states": ["batch", "length", 16], **memory}
    assert {prop.key: prop.value for prop in model.metadata_props} == {"max_length": str(LONGEST)}
    assert [opset.version for opset in model.opset_import] == [20]
    write_onnx(tmp_path / "again.onnx", make("transformer", {}, tied=True))
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "encoder.onnx").read_bytes()


def test_other_models_are_refused(tmp_path):
    with pytest.raises(
        SettingError, match="no ONNX form of Linear; gpt, bert, pinyin, transformer and the encoder of seq2seq"
    ):
        write_onnx(tmp_path / "encoder.onnx", torch.nn.Linear(2, 2))
    with pytest.raises(SettingError, match="no ONNX form of the decoder of seq2seq"):
        write_onnx(tmp_path / "decoder.onnx", make("seq2seq", {}, tied=True), part="decoder")
    with pytest.raises(SettingError, match="a gpt is one ONNX file"):
        write_onnx(tmp_path / "decoder.onnx", make_gpt({}), part="decoder")
    assert not any(tmp_path.iterdir())


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SettingError, match=r"needs onnx, .*pip install -e '\.\[onnx\]'"):
        write_onnx(tmp_path / "encoder.onnx", make("transformer", {}, tied=True))
    assert not any(tmp_path.iterdir())


def test_a_model_too_large_for_the_format_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(written, "_LARGEST_BYTES", 1000)
    with pytest.raises(SettingError, match="larger than 2 GiB"):
        write_onnx(tmp_path / "encoder.onnx", make("transformer", {}, tied=True))
    assert not any(tmp_path.iterdir())
