"""Random models of ``transformers`` for tasks, and their imports."""

import json

import pytest
import torch

from tests.parity.published import LABELS, SIZES, TEXTS
from wenmai.formats.huggingface.bert import framed_tokenizer
from wenmai.runs.formats import import_run
from wenmai.text.pieces import OPTIONAL_SPECIALS
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig
from wenmai.training.run import verify


@pytest.fixture(scope="module")
def tokenizer():
    roles = tuple(OPTIONAL_SPECIALS)
    return Tokenizer.train(TEXTS * 3, TokenizerConfig(kind="wordpiece", vocab_size=80, min_count=1), roles=roles)


@pytest.fixture
def published(tokenizer, tmp_path):
    """Writes a random fine-tuned model of transformers; returns it and the run of its import."""
    theirs = pytest.importorskip("transformers")

    def written(family, end, labels=None, **settings):
        sizes = SIZES if family != "Roberta" else SIZES | {"type_vocab_size": 1, "pad_token_id": tokenizer.pad_id}
        names = LABELS.get(end) if labels is None else labels
        if names is not None:
            settings |= {"id2label": dict(enumerate(names)), "label2id": {name: n for n, name in enumerate(names)}}
        config = getattr(theirs, f"{family}Config")(**sizes | settings)
        torch.manual_seed(2)
        model = getattr(theirs, family + end)(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
        folder = tmp_path / "theirs"
        model.save_pretrained(folder)
        content = json.dumps(framed_tokenizer(tokenizer, segments=1 if family == "Roberta" else 2))
        if family == "Roberta":
            for old, new in {"[CLS]": "<s>", "[SEP]": "</s>", "[PAD]": "<pad>", "[UNK]": "<unk>"}.items():
                content = content.replace(old, new)
        (folder / "tokenizer.json").write_text(content)
        run = import_run("huggingface", folder, tmp_path / "run")
        assert verify(run.path)[1] == []
        return model, run

    return written
