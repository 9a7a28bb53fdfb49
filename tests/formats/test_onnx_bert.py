"""A BERT written as ONNX predicts what it predicts here, with each of its heads, in float32 and nearly so in int8."""

import sys

import numpy as np
import pytest
import torch

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.core.errors import SettingError
from wenmai.formats.onnx import write_onnx
from wenmai.models.bert import Bert, BertConfig
from wenmai.models.gpt import Gpt, GptConfig
from wenmai.runs.formats import export_run, import_run

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

VOCABULARY, LONGEST = 60, 24
LABELS = ("cold", "warm", "hot")
EFFICIENT = {"norm": "nested", "gated": True, "positions": "relative", "buckets": 4, "activation": "gelu_tanh"}
MODELS = {
    "mlm": {},
    "no heads": {"heads": ()},
    "mlm and pair": {"heads": ("mlm", "pair"), "pooler": "tanh"},
    "pair": {"heads": ("pair",), "pooler": "tanh"},
    "classification": {"heads": ("classification",), "labels": LABELS, "pooler": "tanh"},
    "token-classification": {"heads": ("token-classification",), "labels": LABELS},
    "question-answering": {"heads": ("question-answering",)},
    "multiple-choice": {"heads": ("multiple-choice",), "pooler": "relu", "segments": 0},
    "like RoBERTa": {"segments": 1, "epsilon": 1e-5},
    "like ELECTRA": {"heads": ("replaced",), "embedding_size": 8},
    "generator of ELECTRA": {"embedding_size": 8},
    "like DistilBERT": {"segments": 0, "activation": "relu"},
    "like ERNIE": {"task_types": 3},
    "untied, pre-norm": {"tied": False, "norm": "pre", "activation": "gelu_tanh"},
    "silu": {"activation": "silu", "segments": 4},
    "bert-efficient": EFFICIENT,
    "bert-efficient, classification": {
        **EFFICIENT,
        "heads": ("classification",),
        "labels": LABELS,
        "pooler": "tanh",
        "segments": 0,
    },
    "gpt-bert": {**EFFICIENT, "shifted": True},
    "distances alone": {"positions": "relative", "buckets": 3},
}


def make(settings):
    torch.manual_seed(3)
    sizes = {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_length": LONGEST}
    model = Bert(BertConfig(**sizes | settings), vocab_size=VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)  # biases and norms too
    return model.eval()


def batches(segments):
    draw = np.random.default_rng(4)
    for rows, longest in ((1, 4), (2, LONGEST), (5, 9), (3, 2)):
        lengths = draw.integers(1, longest + 1, rows)
        lengths[-1] = longest
        given = {"input_ids": draw.integers(0, VOCABULARY, (rows, longest))}
        given["attention_mask"] = (np.arange(longest) < lengths[:, None]).astype(np.int64)
        if segments > 1:
            given["token_type_ids"] = draw.integers(0, segments, (rows, longest))
        yield given


def expected(model, given):
    """What the graph returns, by name."""
    real = torch.from_numpy(given["attention_mask"]) > 0
    segments = torch.from_numpy(given["token_type_ids"]) if "token_type_ids" in given else None
    with torch.inference_mode():
        hidden = model(torch.from_numpy(given["input_ids"]), segments=segments, mask=real[:, None, None])
        found = {"last_hidden_state": hidden}
        pooled = None if model.pooler is None else model.pooled(hidden)
        if pooled is not None:
            found["pooler_output"] = pooled
        for name, head in model.heads.items():
            states = torch.cat((hidden[:, :1], hidden[:, :-1]), 1) if model.config.shifted else hidden
            logits = head(pooled if name in ("pair", "classification", "multiple-choice") else states)
            alone = len(model.heads) == 1
            if name == "question-answering":
                found["start_logits"], found["end_logits"] = logits.unbind(-1)
            elif name == "replaced":
                found["logits"] = logits[..., 0]
            else:
                found["logits" if alone else {"mlm": "prediction_logits", "pair": "seq_relationship_logits"}[name]] = (
                    logits
                )
    return {name: value.numpy() for name, value in found.items()}


def run(path, given):
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [one.name for one in session.get_inputs()] == list(given)
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True))


@pytest.mark.parity
@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_states_and_logits_are_those_of_the_model(settings, tmp_path):
    model = make(settings)
    write_onnx(tmp_path / "bert.onnx", model)
    for given in batches(model.config.segments):
        found, wanted = run(tmp_path / "bert.onnx", given), expected(model, given)
        assert list(found) == list(wanted)
        real = given["attention_mask"] > 0
        for name, value in wanted.items():
            assert found[name].shape == value.shape
            there = real if value.shape[:2] == real.shape and name != "pooler_output" else slice(None)
            np.testing.assert_allclose(found[name][there], value[there], rtol=0, atol=2e-5)


@pytest.mark.parity
def test_the_part_encoder_leaves_out_the_heads(tmp_path):
    model = make({"heads": ("mlm", "pair"), "pooler": "tanh"})
    write_onnx(tmp_path / "whole.onnx", model)
    write_onnx(tmp_path / "encoder.onnx", model, part="encoder")
    (given, *_) = batches(2)
    found, whole = run(tmp_path / "encoder.onnx", given), run(tmp_path / "whole.onnx", given)
    assert list(found) == ["last_hidden_state", "pooler_output"]
    for name, value in found.items():
        np.testing.assert_array_equal(value, whole[name])


@pytest.mark.parity
@pytest.mark.parametrize(
    "settings", [{}, {"heads": ("classification",), "labels": LABELS, "pooler": "tanh"}, {**EFFICIENT, "segments": 2}]
)
def test_int8_is_smaller_and_nearly_the_same(settings, tmp_path, caplog):
    model = make(settings | {"hidden_size": 64, "num_layers": 2, "num_heads": 4})
    write_onnx(tmp_path / "whole.onnx", model)
    write_onnx(tmp_path / "int8.onnx", model, quantise="int8")
    assert not caplog.records
    sizes = [(tmp_path / name).stat().st_size for name in ("int8.onnx", "whole.onnx")]
    assert sizes[0] < 0.4 * sizes[1]
    for given in batches(2):
        found, wanted = run(tmp_path / "int8.onnx", given), expected(model, given)
        assert list(found) == list(wanted)
        real = given["attention_mask"] > 0
        for name, value in wanted.items():
            there = real if value.shape[:2] == real.shape else slice(None)
            one, other = found[name][there].ravel(), value[there].ravel()
            assert not np.array_equal(one, other)
            # sums of pairs saturate at 16 bits where the processor has no instructions of its own for them
            assert np.dot(one, other) > 0.98 * np.linalg.norm(one) * np.linalg.norm(other), name


def test_the_file_says_what_it_takes(tmp_path):
    model = make({"heads": ("classification",), "labels": LABELS, "pooler": "tanh"})
    write_onnx(tmp_path / "bert.onnx", model)
    described = onnx.load(tmp_path / "bert.onnx")
    shapes = {
        value.name: [dimension.dim_param or dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
        for value in (*described.graph.input, *described.graph.output)
    }
    assert shapes == {
        **{name: ["batch", "length"] for name in ("input_ids", "attention_mask", "token_type_ids")},
        "last_hidden_state": ["batch", "length", 16],
        "pooler_output": ["batch", 16],
        "logits": ["batch", 3],
    }
    assert {one.key: one.value for one in described.metadata_props} == {
        "max_length": str(LONGEST),
        "labels": '["cold", "warm", "hot"]',
    }


def test_a_run_is_exported_with_settings(tmp_path):
    from wenmai.formats.huggingface import write_huggingface
    from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

    tokenizer = Tokenizer.train(
        ["a b c d e"] * 3, TokenizerConfig(kind="wordpiece", vocab_size=40), roles=("cls", "sep", "mask")
    )
    write_huggingface(tmp_path / "folder", make({}), tokenizer)
    imported = import_run("huggingface", tmp_path / "folder", tmp_path / "run")
    for name, settings in {"whole": {}, "part": {"part": "encoder"}, "int8": {"quantise": "int8"}}.items():
        export_run(imported, "onnx", tmp_path / f"{name}.onnx", **settings)
    (given, *_) = batches(2)
    assert list(run(tmp_path / "whole.onnx", given)) == list(run(tmp_path / "int8.onnx", given))
    assert list(run(tmp_path / "part.onnx", given)) == ["last_hidden_state"]


def test_a_fine_tuned_run_is_exported_with_its_head(tmp_path):
    example = EXAMPLES["bert"]
    (tmp_path / example.data).write_text(TEXTS[example.data]["enough"])
    base = wenmai.train("bert", tmp_path / example.data, out=tmp_path / "base", quiet=True, **example.settings)
    rows = [("a b", "x"), ("c d", "y")] * 8
    given = {"task": "classification", "quiet": True, "threads": 1, "epochs": 1, "mode": "lora"}
    given |= {"pooling": "pooler", "valid_share": 0}
    run = wenmai.finetune(base, rows, out=tmp_path / "run", **given)
    export_run(run.path, "onnx", tmp_path / "run.onnx")
    session = runtime.InferenceSession(str(tmp_path / "run.onnx"))
    assert session.get_modelmeta().custom_metadata_map["labels"] == '["x", "y"]'
    backbone = run.model.backbone
    row = np.array([backbone.framed(*backbone.ids(["a b c"])).tokens])
    fed = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
    named = {one.name for one in session.get_inputs()}
    (logits,) = session.run(["logits"], {name: array for name, array in fed.items() if name in named})
    shares = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    np.testing.assert_allclose(shares, run.model.probabilities(["a b c"]), atol=1e-5)
    mean = wenmai.finetune(base, rows, out=tmp_path / "mean", **given | {"pooling": "mean"})
    with pytest.raises(SettingError, match="a head that takes pooling=mean, dense_head=false cannot be exported"):
        export_run(mean.path, "onnx", tmp_path / "mean.onnx")


def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch):
    gpt = Gpt(GptConfig(hidden_size=8, num_layers=1, num_heads=2), vocab_size=9, bos_id=0)
    with pytest.raises(SettingError, match="quantise=int8 is for bert; leave it out for Gpt"):
        write_onnx(tmp_path / "bert.onnx", gpt, quantise="int8")
    with pytest.raises(SettingError, match="a bert has no decoder; leave out part=decoder"):
        write_onnx(tmp_path / "bert.onnx", make({}), part="decoder")
    monkeypatch.setitem(sys.modules, "onnxruntime.quantization", None)
    with pytest.raises(SettingError, match=r"quantise=int8 needs onnxruntime, .*pip install"):
        write_onnx(tmp_path / "bert.onnx", make({}), quantise="int8")
    assert not any(tmp_path.iterdir())
