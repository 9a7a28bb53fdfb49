"""One contract for every registered model that translates: what must hold for each form of its example."""

from dataclasses import asdict

import pytest
import torch
from torch import nn

from wenmai.config.recipe import Recipe, read_recipe
from wenmai.core.registry import find_system
from wenmai.decode.search import beam_search, greedy
from wenmai.inference.translator import Translator, build
from wenmai.nn.attention import watch_attention
from wenmai.nn.encoder_decoder import EncoderDecoder
from wenmai.objectives.language import cross_entropy
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

FAMILY = EncoderDecoder  # of which a test gets each entry, the name of a system and that of a form
LENGTHS = (7, 1, 4)


@pytest.fixture(scope="module")
def source():
    return words("s", 15)


@pytest.fixture(scope="module")
def target():
    return words("t", 17)


@pytest.fixture
def settings(entry, examples):
    """The settings of the entry's model."""
    system, form = entry
    sizes = examples[system].sizes(find_system(system).load_model().config_class)
    return {name: value for name, value in sizes.items() if not name.endswith("dropout")} | examples[system].forms[form]


@pytest.fixture
def make(entry, settings, source, target):
    """Makes a translator of the entry."""
    architecture = find_system(entry[0]).load_model()

    def made(seed=1, source=source, **changes):
        torch.manual_seed(seed)
        module = build(architecture, architecture.config_class(**settings | changes), source=source, target=target)
        return Translator(module.eval(), source, target)

    return made


@pytest.fixture
def model(make):
    return make().module


@pytest.fixture
def batch(source, target):
    generator = torch.Generator().manual_seed(3)
    valid = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    source_ids = torch.randint(4, source.vocab_size, valid.shape, generator=generator)
    target_ids = torch.randint(4, target.vocab_size, (len(LENGTHS), 6), generator=generator)
    return source_ids.masked_fill(~valid, source.pad_id), valid, target_ids


def words(letter, count):
    texts = [f"{letter}{number}" for number in range(count) for _ in range(2)]
    return Tokenizer.train(texts, TokenizerConfig(kind="words"))


def close(one, other):
    torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-5)


def test_shapes(model, batch, target):
    hidden = model(*batch)
    size = model.output_weight.shape[1]
    assert hidden.shape == (3, 6, size)
    assert model.output_weight.shape == (target.vocab_size, size)
    assert model.output_bias is None or model.output_bias.shape == (target.vocab_size,)
    logits = model.logits(hidden)
    assert logits.shape == (3, 6, target.vocab_size)
    close(logits, nn.functional.linear(hidden, model.output_weight, model.output_bias))
    state = model.begin(*batch[:2], max_length=6, need_attention=True)
    assert state.batch_size == 3
    step = model.step(batch[2][:, 0], state)
    assert step.logits.shape == (3, target.vocab_size)
    assert (step.attention is not None) is model.has_attention
    assert step.attention is None or step.attention.shape == (3, 7)


def test_padding_changes_nothing(model, batch):
    source_ids, valid, target_ids = batch
    together = model(source_ids, valid, target_ids)
    other = source_ids.masked_fill(~valid, 5)
    longer = nn.functional.pad(other, (0, 3), value=6), nn.functional.pad(valid, (0, 3))
    close(model(*longer, target_ids), together)
    for row, length in enumerate(LENGTHS):
        alone = model(source_ids[row : row + 1, :length], valid[row : row + 1, :length], target_ids[row : row + 1])
        close(alone[0], together[row])


def test_the_order_of_a_batch_changes_nothing(model, batch):
    order = torch.tensor([2, 0, 1])
    close(model(*(tensor[order] for tensor in batch)), model(*batch)[order])


def test_no_gradient_flows_from_a_state_to_a_later_token(model, batch, target):
    source_ids, valid, _ = (tensor[:1] for tensor in batch)
    target_ids = torch.arange(4, 10)  # all different: a row of the table is a position
    hidden = model(source_ids, valid, target_ids[None])
    hidden = hidden * torch.randn(hidden.shape[-1])  # the plain sum of a normed state is constant
    tables = [one for one in model.parameters() if one.dim() == 2 and len(one) == target.vocab_size]
    for position in range(6):
        found = torch.autograd.grad(hidden[:, position].sum(), tables, retain_graph=True, allow_unused=True)
        (gradient,) = (one for one in found if one is not None)  # of what was looked up; the output layer was not asked
        assert not gradient[target_ids[position + 1 :]].any()
        assert gradient[target_ids[position]].any()


def test_steps_give_the_logits_of_the_whole(model, batch):
    source_ids, valid, target_ids = batch
    with torch.no_grad():
        expected = model.logits(model(*batch))
        state = model.begin(source_ids, valid, max_length=6)
        for position in range(6):
            close(model.step(target_ids[:, position], state).logits, expected[:, position])


def test_a_beam_of_one_is_greedy(model, batch, target):
    options = {"bos_id": target.bos_id, "eos_id": target.eos_id, "max_lengths": 12}
    first = greedy(model, model.begin(*batch[:2], max_length=12), **options)
    second = beam_search(model, model.begin(*batch[:2], max_length=12), beam_size=1, **options)
    assert [one.tokens for one in first] == [one.tokens for (one,) in second]
    assert [one.log_prob for one in first] == pytest.approx([one.log_prob for (one,) in second])


@pytest.mark.parametrize("joint", [False, True], ids=["two vocabularies", "one vocabulary"])
def test_a_saved_model_is_the_same_model(make, joint, source, target, tmp_path):
    first = target if joint else source
    before = make(source=first)
    before.save(tmp_path)
    after = Translator.load(tmp_path)
    assert (after.kind, after.config) == (before.kind, before.config)
    assert (after.source is after.target) is joint
    assert not after.module.training
    assert after.module.state_dict().keys() == before.module.state_dict().keys()
    for name, tensor in before.module.state_dict().items():
        assert torch.equal(after.module.state_dict()[name], tensor), name
    texts = [" ".join(first.token(number) for number in row) for row in ([4, 5, 6], [9, 7])]
    assert list(after.stream(texts, beam_size=2)) == list(before.stream(texts, beam_size=2))


def test_a_recipe_keeps_every_setting(entry, settings, tmp_path):
    kind = entry[0]
    sections = find_system(kind).load().sections
    recipe = Recipe.build(kind, sections, {f"model.{name}": value for name, value in settings.items()})
    recipe.write(tmp_path / "recipe.yaml")
    found = read_recipe(tmp_path / "recipe.yaml")
    again = Recipe.build(found["system"], sections, found["settings"])
    assert again.sections == recipe.sections
    expected = find_system(kind).load_model().config_class(**settings)
    assert asdict(again.sections["model"]) == asdict(expected)


def test_a_seed_decides_everything(make, batch):
    def run(seed):
        module = make(seed).module.train()
        return module.state_dict(), module(*batch)

    (first, states), (second, again), (other, _) = run(1), run(1), run(2)
    assert all(torch.equal(tensor, second[name]) for name, tensor in first.items())
    assert torch.equal(states, again)  # dropout too
    assert any(not torch.equal(tensor, other[name]) for name, tensor in first.items())


def test_every_parameter_gets_a_gradient(model, batch):
    loss_of(model.train(), batch).total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def loss_of(model, batch):
    source_ids, valid, target_ids = batch
    hidden = model(source_ids, valid, target_ids[:, :-1]).flatten(0, 1)
    return cross_entropy(hidden, model.output_weight, model.output_bias, target_ids[:, 1:].flatten())


def test_a_batch_is_learned_by_heart(make, model, batch):
    off = {name: 0.0 for name in model.config.__dataclass_fields__ if name.endswith("dropout")}
    model = make(**off).module.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(80):
        optimiser.zero_grad(set_to_none=True)
        loss = loss_of(model, batch)
        loss.total.backward()
        optimiser.step()
        if loss.nll < 0.1 * loss.targets:
            break
    assert loss.nll < 0.1 * loss.targets


def test_attention_sums_to_one_over_real_tokens(model, batch):
    _, valid, _ = batch
    with torch.no_grad(), watch_attention(model) as watched:
        model(*batch)
    assert bool(watched) is model.has_attention
    for name, found in watched.items():
        weights = torch.cat(found, dim=2)  # (B, H, T, S)
        sums = weights.sum(-1).transpose(1, 2)  # (B, T, H)
        real = sums[valid] if sums.shape[1] == valid.shape[1] else sums  # padding may see nothing in its window
        close(real, torch.ones_like(real))
        if weights.shape[-1] == valid.shape[1]:
            assert not weights.masked_select(~valid[:, None, None]).any(), name


@pytest.mark.filterwarnings("ignore")  # the compiler warns of what it does itself
def test_a_compiled_model_says_the_same(model, batch):
    expected = model(*batch)
    whole = not any(isinstance(part, torch.nn.RNNBase) for part in model.modules())  # which the compiler leaves out
    close(torch.compile(model, backend="eager", fullgraph=whole)(*batch), expected)


test_a_compiled_model_says_the_same.forms = 1  # as compiling takes long
