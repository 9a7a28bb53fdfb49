"""Folders of encoders of every family, with settings of sentence-transformers, for the reader of such folders.

The samples of ``readers`` are what the tiny examples are exported as: of encoders one family with one head.
"""

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.faults.damage import Damage, Sample
from benchmarks.faults.subjects import Subject, sample_of
from tests.contract.examples import TEXTS
from wenmai.formats.huggingface import read_huggingface, write_huggingface
from wenmai.inference.embedding_config import EmbeddingConfig
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

__all__ = ["subjects"]

_LABELS = ("early", "late")
_MODELS: dict[str, dict[str, Any]] = {
    "BERT": {"heads": ("mlm", "pair"), "pooler": "tanh"},
    "RoBERTa": {"heads": ("classification",), "labels": _LABELS, "pooler": "tanh", "segments": 1},
    "ELECTRA": {"heads": ("replaced",), "embedding_size": 6},
    "DistilBERT": {"heads": ("question-answering",), "segments": 0},
    "ERNIE": {"heads": ("token-classification",), "labels": _LABELS, "task_types": 2},
}


def subjects() -> list[Subject]:
    """Returns one subject, whose samples are of all families."""
    return [Subject(name="folders of encoders", make=_made, check=_read, share=3)]


def _made() -> Damage:
    import torch

    from wenmai.models.bert import Bert, BertConfig

    config = TokenizerConfig(kind="wordpiece", vocab_size=30)
    tokenizer = Tokenizer.train(TEXTS["text.txt"]["enough"].splitlines(), config, roles=("cls", "sep", "mask"))
    samples: list[Sample] = []
    for number, settings in enumerate(_MODELS.values()):
        torch.manual_seed(number)
        sizes = {"hidden_size": 8, "num_layers": 1, "num_heads": 2, "max_length": 12}
        model = Bert(BertConfig(**sizes, **settings), vocab_size=tokenizer.vocab_size).eval()
        embedding = EmbeddingConfig(normalise=number % 2 == 0, max_length=9, prompts={"query": "a "})
        with tempfile.TemporaryDirectory() as folder:
            write_huggingface(Path(folder, "model"), model, tokenizer, embedding=embedding if number < 3 else None)
            found = sample_of(Path(folder))
        samples.append({name: content for name, content in found.items() if not name.endswith("manifest.json")})
    return Damage(samples)


def _read(folder: Path) -> str | None:
    """Reads a folder and lets the encoder read a text; sizes and settings must fit each other."""
    import torch

    found = read_huggingface(folder / "model")
    model, config = found.module, found.module.config
    ids = torch.tensor([[found.tokenizer.cls_id, found.tokenizer.sep_id]])
    with torch.inference_mode():
        states = model(ids)
    if states.shape != (1, 2, config.hidden_size):
        return f"states of the shape {tuple(states.shape)}"
    if found.embedding is not None:
        EmbeddingConfig(**found.embedding)
    for name in ("classification", "token-classification"):
        if name in config.heads and model.heads[name].out_features != len(config.labels):
            return f"{len(config.labels)} labels of a head with {model.heads[name].out_features}"
    return None
