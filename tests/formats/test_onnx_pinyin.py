"""Labellers of pinyin as ONNX graphs: the outputs are those of the model."""

import numpy as np
import pytest
import torch

from wenmai.core.errors import SettingError
from wenmai.formats.onnx import write_onnx
from wenmai.models.pinyin import Pinyin, PinyinConfig
from wenmai.models.pinyin_letters import PinyinLetters, PinyinLettersConfig

V, C, R, B, T = 23, 11, 9, 3, 7


def pinyin(**settings):
    config = PinyinConfig(hidden_size=12, num_layers=2, num_heads=3, **settings)
    return Pinyin(config, vocab_size=V, characters=C, readings=R)


def letters(**settings):
    return PinyinLetters(PinyinLettersConfig(hidden_size=12, **settings), vocab_size=V, characters=C)


MODELS = {
    "pinyin": pinyin,
    "pinyin, post-norm": lambda: pinyin(norm="post"),
    "pinyin, no convolution": lambda: pinyin(convolution=0),
    "cbhg": lambda: letters(encoder="cbhg", widths=3, highway_layers=2),
    "cbhg of one width": lambda: letters(encoder="cbhg", widths=1, highway_layers=0),
    "letters, transformer": lambda: letters(num_heads=3),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_has_the_outputs_of_the_model(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    torch.manual_seed(1)
    model = MODELS[name]()
    tokens = torch.randint(1, V, (B, T))
    real = torch.ones(B, T, dtype=torch.bool)
    real[0, 4:] = real[2, 6:] = False
    model.train()
    model(tokens, real)  # moves the statistics of norms
    model.eval()
    write_onnx(tmp_path / "model.onnx", model)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    found = session.run(None, {"token_ids": tokens.numpy(), "mask": real.numpy()})
    assert [one.name for one in session.get_outputs()] == list(model.heads)
    for head, logits in zip(model.heads, found, strict=True):
        expected = model.logits(tokens, real, head=head).detach().numpy()
        np.testing.assert_allclose(logits[real], expected[real], atol=2e-5)


def test_a_labeller_has_no_parts(tmp_path):
    with pytest.raises(SettingError, match="leave out part=encoder"):
        write_onnx(tmp_path / "model.onnx", pinyin(), part="encoder")
