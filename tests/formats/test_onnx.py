"""An encoder written as ONNX returns the states of the model it was written from."""

import sys

import numpy as np
import pytest
import torch

from wenmai.core.errors import SettingError
from wenmai.formats import onnx as written
from wenmai.formats.onnx import write_onnx
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
        assert names == list(expected)
        found = dict(zip(names, session.run(None, {"token_ids": ids, "mask": mask}), strict=True))
        np.testing.assert_allclose(found["states"][mask], expected["states"].numpy()[mask], rtol=0, atol=1e-5)
        if kind == "seq2seq":
            np.testing.assert_allclose(found["last"], expected["last"].numpy(), rtol=0, atol=1e-5)


def test_the_file_says_what_it_takes(tmp_path):
    write_onnx(tmp_path / "encoder.onnx", make("transformer", {}, tied=True))
    model = onnx.load(tmp_path / "encoder.onnx")
    shapes = {
        value.name: [dimension.dim_param or dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        for value in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {"token_ids": ["batch", "length"], "mask": ["batch", "length"], "states": ["batch", "length", 16]}
    assert {prop.key: prop.value for prop in model.metadata_props} == {"max_length": str(LONGEST)}
    assert [opset.version for opset in model.opset_import] == [20]
    write_onnx(tmp_path / "again.onnx", make("transformer", {}, tied=True))
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "encoder.onnx").read_bytes()


def test_other_models_are_refused(tmp_path):
    with pytest.raises(SettingError, match="no ONNX form of Linear; it exists for the encoders of transformer"):
        write_onnx(tmp_path / "encoder.onnx", torch.nn.Linear(2, 2))


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
