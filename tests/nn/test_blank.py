"""Networks made without random numbers, as those are whose parameters are read from files."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import wenmai
from tests.contract.examples import EXAMPLES, TEXTS
from wenmai.models.bert import Bert, BertConfig
from wenmai.nn.blank import blank

CONFIG = BertConfig(hidden_size=8, num_layers=1, num_heads=2, max_length=9)


@pytest.mark.parametrize("on_meta", [False, True])
def test_nothing_is_drawn(on_meta):
    before = torch.random.get_rng_state()
    with blank(on_meta=on_meta):
        found = Bert(CONFIG, vocab_size=11), nn.Linear(3, 4), nn.GRU(3, 4), nn.Parameter(torch.empty(2).normal_())
        nn.init.xavier_uniform_(found[1].weight)
        nn.init.uniform_(tensor=found[1].bias)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert {parameter.is_meta for one in found[:3] for parameter in one.parameters()} == {on_meta}
    if not on_meta:
        assert not any(parameter.any() for one in found[1:3] for parameter in one.parameters())
        assert not found[0].embedding.weight.any()
    assert torch.empty(9).normal_().any()


def test_shapes_are_those_of_a_network_with_values():
    with blank(on_meta=True):
        planned = Bert(CONFIG, vocab_size=11)
    made = Bert(CONFIG, vocab_size=11)
    assert [(name, one.shape) for name, one in planned.state_dict().items()] == [
        (name, one.shape) for name, one in made.state_dict().items()
    ]


ASKED = """
import sys, wenmai
for path in sys.argv[1:]:
    model = wenmai.load(path)
wenmai.load(sys.argv[1]).fill("a [MASK] b")
assert "torch" in sys.modules and "torch._dynamo" not in sys.modules
"""


def test_models_that_answer_do_not_wait_for_the_compiler_of_torch(tmp_path, monkeypatch):
    """Torch imports it, which takes a second, to draw numbers for tensors that have no memory."""
    monkeypatch.chdir(tmp_path)
    runs = []
    for name in ("bert", "elmo", "gpt", "pinyin", "rnnlm", "transformer"):
        example = EXAMPLES[name]
        Path(example.data).write_text(TEXTS[example.data]["enough"], encoding="utf-8")
        runs.append(str(wenmai.train(name, example.data, out=name, quiet=True, **example.settings).path))
    Path("tags.txt").write_text(TEXTS["tags.txt"]["enough"])
    settings = EXAMPLES["finetuned-tagging"].settings
    runs.append(str(wenmai.finetune("bert", "tags.txt", task="tagging", out="tagger", quiet=True, **settings).path))
    subprocess.run([sys.executable, "-c", ASKED, *runs], check=True)
