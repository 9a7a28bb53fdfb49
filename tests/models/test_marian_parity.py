"""The same numbers as Hugging Face's Marian, a post-norm Transformer, with random weights."""

import pytest
import torch
import torch.nn.functional as F

from wenmai.decode.search import beam_search, greedy
from wenmai.models.transformer import Transformer, TransformerConfig

transformers = pytest.importorskip("transformers")

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

VOCAB, SIZE, LONGEST, END, PAD = 29, 32, 24, 0, 28  # as in Marian: </s> is the first token, <pad> the last
SOURCES = ((7, 3, 9, 12, 5, END), (4, 4, END), (21, 2, 17, 8, END))


@pytest.fixture(scope="module", params=["relu", "gelu"])
def pair(request):
    """Their model, and ours with its weights, both in float64, so that only differences of meaning show."""
    config = transformers.MarianConfig(
        vocab_size=VOCAB,
        d_model=SIZE,
        encoder_layers=2,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=LONGEST,
        activation_function=request.param,
        scale_embedding=True,
        share_encoder_decoder_embeddings=True,
        tie_word_embeddings=True,
        static_position_embeddings=True,
        pad_token_id=PAD,
        eos_token_id=END,
        bos_token_id=None,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        attn_implementation="eager",
    )
    torch.manual_seed(4)
    theirs = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.5 * torch.randn_like(parameter) + (parameter if parameter.dim() == 1 else 0))
    for module in theirs.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    ours = Transformer(
        TransformerConfig(
            hidden_size=SIZE,
            num_layers=2,
            decoder_layers=1,
            num_heads=4,
            ffn_size=48,
            activation=request.param,
            max_length=LONGEST,
            dropout=0.0,
        ),
        source_vocab_size=VOCAB,
        target_vocab_size=VOCAB,
        tied_sources=True,
    ).eval()
    table = theirs.model.encoder.embed_positions.weight.detach()
    columns = torch.arange(SIZE).view(2, -1).T.flatten()  # theirs are sines, then cosines; ours take turns
    torch.testing.assert_close(table[:, columns], ours.source_positions.table, atol=1e-6, rtol=0)
    ours.source_positions.table.copy_(table)
    ours.target_positions.table.copy_(table)
    ours.load_state_dict({name: read(theirs.state_dict()) for name, read in renamed(ours).items()})
    return ours.double(), theirs.double()


def renamed(ours):
    """For each of our parameters, how it is made of theirs."""
    names = {"embedding": joined("model.shared.weight")}
    for stack, layers in (("encoder", ours.encoder.layers), ("decoder", ours.decoder.layers)):
        for number in range(len(layers)):
            mine, other = f"{stack}.layers.{number}", f"model.{stack}.layers.{number}"
            parts = {
                "attention.qkv": [f"self_attn.{name}_proj" for name in "qkv"],
                "attention.output": ["self_attn.out_proj"],
                "attention_residual.norm": ["self_attn_layer_norm"],
                "ffn.inner": ["fc1"],
                "ffn.outer": ["fc2"],
                "ffn_residual.norm": ["final_layer_norm"],
            }
            if stack == "decoder":
                parts |= {
                    "memory_attention.query": ["encoder_attn.q_proj"],
                    "memory_attention.memory": ["encoder_attn.k_proj", "encoder_attn.v_proj"],
                    "memory_attention.output": ["encoder_attn.out_proj"],
                    "memory_residual.norm": ["encoder_attn_layer_norm"],
                }
            for part, sources in parts.items():
                for kind in ("weight", "bias"):
                    names[f"{mine}.{part}.{kind}"] = joined(*(f"{other}.{source}.{kind}" for source in sources))
    return names


def joined(*names):
    return lambda tensors: torch.cat([tensors[name] for name in names])


@pytest.fixture
def batch():
    width = max(map(len, SOURCES))
    ids = torch.tensor([[*row, *[PAD] * (width - len(row))] for row in SOURCES])
    generator = torch.Generator().manual_seed(6)
    targets = torch.randint(1, PAD, (len(SOURCES), 7), generator=generator)
    return ids, ids != PAD, torch.cat((torch.full((len(SOURCES), 1), PAD), targets), 1)


def test_states_and_logits(pair, batch):
    ours, theirs = pair
    ids, valid, fed = batch
    with torch.no_grad():
        found = theirs(input_ids=ids, attention_mask=valid.long(), decoder_input_ids=fed)
        encoded = ours.encode(ids, valid).hidden
        logits = ours.logits(ours(ids, valid, fed))
    torch.testing.assert_close(encoded[valid], found.encoder_last_hidden_state[valid])
    torch.testing.assert_close(logits, found.logits)


def test_gradients(pair, batch):
    ours, theirs = pair
    ids, valid, fed = batch
    logits = theirs(input_ids=ids, attention_mask=valid.long(), decoder_input_ids=fed[:, :-1]).logits
    for model, found in ((theirs, logits), (ours, ours.logits(ours(ids, valid, fed[:, :-1])))):
        model.zero_grad()
        F.cross_entropy(found.flatten(0, 1), fed[:, 1:].flatten()).backward()
    expected = {name: parameter.grad for name, parameter in theirs.named_parameters()}
    own = {name: parameter.grad for name, parameter in ours.named_parameters()}
    for name, read in renamed(ours).items():
        one, other = own[name], read(expected)
        if name == "embedding":  # they take padding, which is also what a target begins with, for a constant
            one, other = one[:PAD], other[:PAD]
        torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("beam_size", [1, 3])
def test_translations(pair, batch, beam_size):
    ours, theirs = pair
    ids, valid, _ = batch
    rules = {} if beam_size == 1 else {"length_penalty": 0.0, "early_stopping": "never"}
    found = theirs.generate(
        input_ids=ids,
        attention_mask=valid.long(),
        num_beams=beam_size,
        do_sample=False,
        max_new_tokens=16,
        **rules,
    )
    options = {"bos_id": PAD, "eos_id": END, "max_lengths": 16}
    state = ours.begin(ids, valid, max_length=16)
    if beam_size == 1:
        hypotheses = greedy(ours, state, **options)
    else:
        hypotheses = [one for (one,) in beam_search(ours, state, beam_size=beam_size, stop="bound", **options)]
    expected = [[token for token in row[1:] if token not in (PAD, END)] for row in found.tolist()]
    assert [one.tokens for one in hypotheses] == expected
    assert len({tuple(one) for one in expected}) > 1
