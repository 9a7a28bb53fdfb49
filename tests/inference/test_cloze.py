"""Cloze tests of entities."""

import numpy as np
import pytest
import torch

from wenmai.core.errors import CorpusError, SettingError
from wenmai.inference.cloze import Cloze, clozes_of, fill_clozes, probe_cloze
from wenmai.inference.masked_model import MaskedModel
from wenmai.measures.cloze import measure_cloze
from wenmai.models.bert import Bert, BertConfig
from wenmai.text.names import NameMatcher
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

TEXTS = ["the old tree house is near new york city now", "a cat sat on the mat of ann lee", "ann lee sings"]
LONG = " ".join(["the bird sings in the old tree"] * 4 + ["of new york city"] + ["the bird sings"] * 5)
ROOM = 10


@pytest.fixture(scope="module", params=[False, True], ids=["", "shifted"])
def model(request) -> MaskedModel:
    config = TokenizerConfig(kind="whitespace", vocab_size=60, min_count=1)
    cutter = Tokenizer.train([*TEXTS, LONG], config, roles=("cls", "sep", "mask"))
    torch.manual_seed(3)
    sizes = {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "max_length": ROOM + 2, "heads": ("mlm",)}
    sizes["shifted"] = request.param
    module = Bert(BertConfig(**sizes), vocab_size=cutter.vocab_size)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.4 * torch.randn_like(parameter))
    return MaskedModel(module, cutter)


def naive(model, row, low, high, order):
    """One text at a time, its window by its definition."""
    cutter, module = model.tokenizer, model.module.eval()
    middle, width = int((low + high) / 2), min(ROOM, len(row))
    begin = min(max(middle - width // 2, 0), len(row) - width)
    begin = min(max(begin, high - width), low)
    ids = [cutter.cls_id, *row[begin : begin + width], cutter.sep_id]
    at = [1 + place - begin for place in range(low, high)]
    for place in at:
        ids[place] = cutter.mask_id

    def best(places):
        with torch.inference_mode():
            states = module(torch.tensor([ids]))[0, np.array(places) - int(module.config.shifted)]
            logits = module.heads["mlm"](states)
            logits[:, list(cutter.special_ids - {cutter.unk_id})] = -np.inf
        return logits.argmax(-1).tolist()

    if order == "together":
        return best(at)
    found = []
    for place in at:
        found += best([place])
        ids[place] = found[-1]
    return found


@pytest.mark.parametrize("order", ["together", "in-order"])
def test_filled_in_as_one_by_one(model, order):
    rows, places = [], []
    draw = np.random.default_rng(0)
    for text in [*TEXTS, LONG] * 5:
        row = model.tokenizer.encode(text).ids
        low = int(draw.integers(0, len(row) - 1))
        rows.append(row)
        places.append((low, min(len(row), low + int(draw.integers(1, 5)))))
    found = fill_clozes(model, rows, places, order=order)
    assert found == [naive(model, row, *place, order) for row, place in zip(rows, places, strict=True)]
    assert fill_clozes(model, [], []) == []


def test_names_that_occur_once():
    names = NameMatcher(["new york city", "ann lee", "old tree"])
    found = clozes_of([*TEXTS, LONG], names)
    assert [one.text[one.start : one.end] for one in found] == [
        "old tree", "new york city", "ann lee", "ann lee", "new york city",
    ]  # fmt: skip
    with pytest.raises(CorpusError, match="none of 1 names occurs once in one of 3 texts"):
        clozes_of(TEXTS, NameMatcher(["bob"]))
    shown = ["鲁迅故居在绍兴，鲁迅生于此。"]  # a name within another one could be copied too
    assert [one.start for one in clozes_of(shown, NameMatcher(["鲁迅", "鲁迅故居", "绍兴"]))] == [0, 5]


def test_what_is_measured(model):
    clozes = clozes_of([*TEXTS, LONG], NameMatcher(["new york city", "ann lee", "old tree"]))
    found = probe_cloze(model, clozes)
    assert (found.entities, found.texts) == (5, 4)
    assert {length: count for length, (count, _) in found.by_length.items()} == {2: 3, 3: 2}
    assert 0 <= found.low <= found.exact <= found.high <= 1
    assert probe_cloze(model, clozes, order="in-order").entities == 5
    uneven = Cloze("the old tree", 5, 12)  # begins in a token
    assert probe_cloze(model, [uneven, *clozes]).entities == 5
    with pytest.raises(CorpusError, match="none of 1 entities begins and ends with a token"):
        probe_cloze(model, [uneven])
    with pytest.raises(CorpusError, match="beside others"):
        probe_cloze(model, [Cloze("ann lee", 0, 7)])  # nothing is left to tell
    with pytest.raises(SettingError, match="order='backwards'"):
        probe_cloze(model, clozes, order="backwards")


def test_a_model_that_learned_a_text_recovers_its_names(model):
    optimiser = torch.optim.Adam(model.module.parameters(), lr=0.005)
    clozes = clozes_of(TEXTS, NameMatcher(["new york city", "ann lee"]))
    row = [model.tokenizer.cls_id, *model.tokenizer.encode(TEXTS[0]).ids, model.tokenizer.sep_id]
    seen = torch.tensor([row])
    masked = seen.clone()
    places = [7, 8, 9]
    masked[0, places] = model.tokenizer.mask_id
    before = [place - int(model.module.config.shifted) for place in places]
    for _ in range(300):
        hidden = model.module.eval()(masked)
        loss = torch.nn.functional.cross_entropy(model.module.heads["mlm"](hidden)[0, before], seen[0, places])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found = probe_cloze(model, clozes)
    assert found.outcomes.tolist()[0]
    assert found.by_length[3] == (1, 1.0)


def test_shares_and_their_interval():
    wanted = [[1, 2], [3], [4, 5, 6], [7]]
    found = measure_cloze(wanted, [[1, 2], [4], [4, 5, 7], [7]], [0, 0, 1, 2])
    assert (found.exact, found.token_accuracy) == (0.5, 5 / 7)
    assert found.by_length == {1: (2, 0.5), 2: (1, 1.0), 3: (1, 0.0)}
    assert found.outcomes.tolist() == [True, False, False, True]
    assert found.as_dict()["by_length"]["3"] == {"entities": 1, "exact": 0.0}
    assert found.low < 0.5 < found.high
    none = measure_cloze([[1]] * 9, [[2]] * 9, range(9))
    assert none.exact == 0
    assert none.low == pytest.approx(0)
    assert 0.2 < none.high < 0.4
    with pytest.raises(CorpusError, match="no entities"):
        measure_cloze([], [], [])
