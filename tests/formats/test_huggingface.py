"""GPT-2 and GPT-1 as folders of transformers: the same logits both ways, and damaged folders told by what is wrong."""

import json
import shutil
import struct
from typing import get_args

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file

from wenmai.core.errors import FormatError, RunError, SettingError
from wenmai.core.folder import check_sealed
from wenmai.formats.huggingface import read_huggingface, write_huggingface
from wenmai.models.gpt import Gpt, GptConfig
from wenmai.models.rnnlm import Rnnlm, RnnlmConfig
from wenmai.text.pieces import TokenizerKind
from wenmai.text.tokenizer import Tokenizer, TokenizerConfig

SIZES = {"hidden_size": 24, "num_layers": 3, "num_heads": 4, "max_length": 20}
TEXTS = ["one two three", "four five six, seven", "eight nine ten"] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS, TokenizerConfig(kind="byte-bpe", vocab_size=290, min_count=1))


def make(tokenizer, *, more=0, **settings):
    torch.manual_seed(3)
    model = Gpt(GptConfig(**SIZES | settings), vocab_size=tokenizer.vocab_size + more, bos_id=tokenizer.eos_id)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn_like(parameter)  # biases and norms too
    return model.eval()


@pytest.fixture(params=["pre", "post", "pre, rows without tokens, other inner size"])
def model(request, tokenizer):
    if "," in request.param:
        return make(tokenizer, more=7, ffn_size=40)
    return make(tokenizer, norm=request.param)


@pytest.fixture(scope="module")
def good(tokenizer, tmp_path_factory):
    """A folder with a small GPT-2."""
    folder = tmp_path_factory.mktemp("good") / "gpt2"
    write_huggingface(folder, make(tokenizer), tokenizer)
    return folder


@pytest.fixture
def folder(good, tmp_path):
    return shutil.copytree(good, tmp_path / "gpt2")


def change(folder, **changes):
    """Changes config.json; None takes a key away."""
    path = folder / "config.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def logits(model, ids):
    with torch.no_grad():
        return model.output(model(ids))


def ids(model):
    return torch.randint(0, model.vocab_size, (3, SIZES["max_length"]), generator=torch.Generator().manual_seed(1))


# --- out and in -----------------------------------------------------------------------------------------------------


def test_what_is_written_comes_back(model, tokenizer, tmp_path):
    write_huggingface(tmp_path / "out", model, tokenizer)
    found = read_huggingface(tmp_path / "out")
    assert found.module.config == model.config
    assert found.tokenizer.fingerprint == tokenizer.fingerprint
    assert found.module.bos_id == model.bos_id
    ours = dict(model.named_parameters())
    for name, parameter in found.module.named_parameters():
        assert torch.equal(parameter, ours[name]), name
        assert parameter.requires_grad
    assert torch.equal(logits(found.module, ids(model)), logits(model, ids(model)))
    assert not check_sealed(tmp_path / "out")


@pytest.mark.parity
def test_transformers_reads_what_is_written_and_has_the_same_logits(model, tokenizer, tmp_path):
    theirs = pytest.importorskip("transformers")
    write_huggingface(tmp_path / "out", model, tokenizer)
    other, loaded = theirs.AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(loaded.values())
    assert other.config.model_type == ("gpt2" if model.config.norm == "pre" else "openai-gpt")
    torch.testing.assert_close(other.eval()(ids(model)).logits, logits(model, ids(model)), rtol=0, atol=1e-4)
    cutter = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in [*TEXTS, "a new ☃ text "]:
        assert cutter(text)["input_ids"] == tokenizer.encode(text).ids
        assert cutter.decode(tokenizer.encode(text).ids) == text
    assert (cutter.eos_token, cutter.pad_token, cutter.unk_token) == ("</s>", "<pad>", "<unk>")
    begun = torch.tensor([[tokenizer.eos_id]])
    written = other.generate(begun, attention_mask=torch.ones_like(begun), do_sample=False, max_new_tokens=9)[0]
    for place in range(1, len(written)):
        assert written[place] == logits(model, written[None, :place])[0, -1].argmax()


SPELLED = ["a <unk> b", "<unk>", "x<unk>y", "</s>", "one </s> two <s>", "<pad><pad> three", " <unk> <UNK> [MASK] "]


@pytest.mark.parity
@pytest.mark.parametrize("kind", [kind for kind in get_args(TokenizerKind) if kind != "chinese"])  # which is refused
def test_transformers_takes_special_tokens_in_a_text_as_text_too(kind, tmp_path):
    theirs = pytest.importorskip("transformers")
    size = 60 if kind == "unigram" else 300
    ours = Tokenizer.train(TEXTS + SPELLED * 2, TokenizerConfig(kind=kind, vocab_size=size))
    write_huggingface(tmp_path / "out", make(ours), ours)
    other = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    for text in [*TEXTS, *SPELLED]:
        ids = ours.encode(text).ids
        assert other(text)["input_ids"] == ids, text
        if kind not in ("words", "wordpiece"):  # whose words are joined as they are written, not by spaces
            marked = [ours.bos_id, ours.unk_id, *ids, ours.eos_id]
            for skip in (True, False):
                expected = other.decode(marked, skip_special_tokens=skip)
                assert ours.decode(marked, skip_special_tokens=skip) == expected, text


@pytest.mark.parity
def test_transformers_adds_no_special_tokens_that_our_model_has_not_seen(tokenizer, tmp_path):
    theirs = pytest.importorskip("transformers")
    tokenizer.save(tmp_path / "tokenizer.json")
    backend = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    backend.post_processor = tokenizers.processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 2)])
    ours = Tokenizer.of_json(backend.to_str(), "theirs")
    write_huggingface(tmp_path / "out", make(ours), ours)
    other = theirs.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert other("one two")["input_ids"] == ours.encode("one two").ids == tokenizer.encode("one two").ids


def random_reference(theirs, kind, **settings):
    torch.manual_seed(7)
    sizes = {"vocab_size": 300, "n_positions": 20, "n_embd": 24, "n_layer": 3, "n_head": 4}
    config, model = {
        "gpt2": (theirs.GPT2Config, theirs.GPT2LMHeadModel),
        "openai-gpt": (theirs.OpenAIGPTConfig, theirs.OpenAIGPTLMHeadModel),
    }[kind]
    made = model(config(**sizes | settings)).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter += 0.2 * torch.randn_like(parameter)
    return made


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["gpt2", "openai-gpt"])
@pytest.mark.parametrize("saved", ["whole", "parts", "without the head", "with buffers and the head", "half"])
def test_what_transformers_writes_is_read_with_the_same_logits(kind, saved, tokenizer, tmp_path):
    theirs = pytest.importorskip("transformers")
    other = random_reference(theirs, kind)
    if saved == "half":
        other = other.to(torch.bfloat16)
    plain = other.transformer if saved == "without the head" else other
    plain.save_pretrained(tmp_path, **({"max_shard_size": "12KB"} if saved == "parts" else {}))
    assert (tmp_path / "model.safetensors.index.json").exists() == (saved == "parts")
    if saved == "with buffers and the head":
        tensors = load_file(tmp_path / "model.safetensors")
        tensors |= {f"transformer.h.{number}.attn.bias": torch.ones(1, 1, 20, 20).tril() > 0 for number in range(3)}
        tensors |= {f"transformer.h.{number}.attn.masked_bias": torch.tensor(-1e4) for number in range(3)}
        save_file(tensors | {"lm_head.weight": other.lm_head.weight.detach().clone()}, tmp_path / "model.safetensors")
    tokenizer.save(tmp_path / "tokenizer.json")
    found = read_huggingface(tmp_path).module
    assert found.vocab_size == 300 > tokenizer.vocab_size
    expected = other.float()(ids(found)).logits
    torch.testing.assert_close(logits(found, ids(found)), expected, rtol=0, atol=1e-4)


VARIANTS_1 = [{"afn": "relu"}, {"afn": "silu"}, {"afn": "swish"}, {"layer_norm_epsilon": 1e-3}]
VARIANTS_2 = [
    *({"activation_function": name} for name in ("relu", "gelu", "gelu_python", "gelu_fast", "silu", "swish")),
    *({"activation_function": name} for name in ("gelu_pytorch_tanh", "gelu_accurate")),
    *({"layer_norm_epsilon": epsilon} for epsilon in (1e-6, 1e-12, 0.1)),
    *({"n_inner": inner} for inner in (1, 40)),
    {"tie_word_embeddings": False},
    {"scale_attn_weights": False},
    {"scale_attn_by_inverse_layer_idx": True},
    {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False, "reorder_and_upcast_attn": True},
    {"tie_word_embeddings": False, "activation_function": "relu", "layer_norm_epsilon": 1e-3, "n_inner": 32},
]


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["gpt2", "openai-gpt"])
def test_settings_may_have_the_names_of_other_families(kind, tokenizer, tmp_path):
    theirs = pytest.importorskip("transformers")
    random_reference(theirs, kind).save_pretrained(tmp_path)
    tokenizer.save(tmp_path / "tokenizer.json")
    names = {"n_embd": "hidden_size", "n_head": "num_attention_heads", "n_layer": "num_hidden_layers"}
    content = json.loads((tmp_path / "config.json").read_text())
    change(tmp_path, **{other: content[own] for own, other in names.items()}, **dict.fromkeys(names))
    change(tmp_path, n_positions=7, max_position_embeddings=20)  # the latter counts
    other, found = theirs.AutoModelForCausalLM.from_pretrained(tmp_path).eval(), read_huggingface(tmp_path).module
    assert found.config.num_heads == content["n_head"] == other.config.n_head
    torch.testing.assert_close(logits(found, ids(found)), other(ids(found)).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parity
@pytest.mark.parametrize(
    ("kind", "settings"),
    [("gpt2", one) for one in VARIANTS_2] + [("openai-gpt", one) for one in VARIANTS_1],
    ids=lambda one: one if isinstance(one, str) else ",".join(f"{key}={value}" for key, value in one.items()),
)
def test_variants_have_the_same_logits_and_go_back(kind, settings, tokenizer, tmp_path):
    theirs = pytest.importorskip("transformers")
    other = random_reference(theirs, kind, attn_implementation="eager", **settings)
    other.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs" / "tokenizer.json")
    found = read_huggingface(tmp_path / "theirs")
    text = ids(found.module)
    torch.testing.assert_close(logits(found.module, text), other(text).logits, rtol=1e-4, atol=1e-4)
    write_huggingface(tmp_path / "ours", found.module, found.tokenizer)
    again = theirs.AutoModelForCausalLM.from_pretrained(tmp_path / "ours").eval()
    torch.testing.assert_close(again(text).logits, other(text).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parity
def test_a_tokenizer_of_two_files_is_read(tmp_path):
    theirs = pytest.importorskip("transformers")
    random_reference(theirs, "gpt2").save_pretrained(tmp_path)
    alphabet = sorted(theirs.models.gpt2.tokenization_gpt2.pre_tokenizers.ByteLevel.alphabet())
    vocab = {token: number for number, token in enumerate([*alphabet, "lo", "<|endoftext|>"])}
    theirs.GPT2Tokenizer(vocab=vocab, merges=[("l", "o")]).save_pretrained(tmp_path)
    whole = read_huggingface(tmp_path).tokenizer
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    (tmp_path / "merges.txt").write_text("#version: 0.2\nl o\n")
    found = read_huggingface(tmp_path)
    assert found.module.bos_id == found.tokenizer.eos_id == whole.eos_id == 257
    for text in ["hello lo", "汉字 ☃"]:
        assert found.tokenizer.encode(text) == whole.encode(text)


def test_a_tokenizer_with_another_beginning_than_end_is_told(folder, caplog):
    read_huggingface(folder)
    change(folder, bos_token_id=None)  # as published GPTs with the vocabulary of a Chinese BERT
    read_huggingface(folder)
    assert not caplog.messages
    pieces = Tokenizer.train(["one two three"] * 2, TokenizerConfig(kind="wordpiece"), roles=("cls", "sep", "mask"))
    pieces.save(folder / "tokenizer.json")
    found = read_huggingface(folder)
    assert found.module.bos_id == found.tokenizer.eos_id == found.tokenizer.sep_id
    assert caplog.messages == [
        f"{folder}: its tokenizer puts [CLS] before a text and [SEP] behind it; here [SEP] stands on both sides, so "
        "scores differ"
    ]


# --- what does not fit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("config.json", r"config\.json: cannot be read \(No such file"),
        ("model.safetensors", r"gpt2: has no model\.safetensors$"),
        (
            "tokenizer.json",
            r"gpt2: has no tokenizer; expected tokenizer\.json, vocab\.txt, or vocab\.json with merges\.txt",
        ),
    ],
)
def test_files_that_are_missing(name, message, folder):
    (folder / name).unlink()
    with pytest.raises(FormatError, match=message):
        read_huggingface(folder)


def test_pickles_are_not_opened(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(FormatError, match=r"pytorch_model\.bin is a pickle, which is never opened"):
        read_huggingface(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null"])
def test_a_config_that_is_no_object(content, folder):
    (folder / "config.json").write_bytes(content)
    with pytest.raises(FormatError, match=r"config\.json: (?:is not JSON|expected a JSON object)"):
        read_huggingface(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "llama"}, "model_type='llama' cannot be read; expected one of gpt2, openai-gpt"),
        ({"model_type": None}, "model_type=None cannot be read"),
        ({"activation_function": ["relu"]}, r"activation_function=\['relu'\]: a gpt here has one of"),
        ({"activation_function": "mish"}, "activation_function='mish': a gpt here has one of gelu_new, .* relu, silu"),
        ({"scale_attn_by_inverse_layer_idx": 1}, "scale_attn_by_inverse_layer_idx=1: expected true or false"),
        ({"scale_attn_weights": None, "tie_word_embeddings": "no"}, "tie_word_embeddings='no': expected true or false"),
        ({"add_cross_attention": True}, "add_cross_attention=True: a gpt here has False"),
        ({"tie_word_embeddings": False}, r"lm_head\.weight is missing, .* tie_word_embeddings=false"),
        ({"layer_norm_epsilon": 0}, "layer_norm_epsilon=0: expected a number between 0 and 1"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads: a model here has all heads"),
        ({"quantization_config": {"bits": 8}}, "quantization_config: its numbers are packed"),
        ({"auto_map": {"AutoModel": "x--y.Z"}}, "auto_map: its equations are those of a program"),
        ({"n_embd": "24"}, "n_embd='24': expected a whole number"),
        ({"n_layer": 0}, "n_layer=0: expected a whole number"),
        ({"n_head": True}, "n_head=True: expected a whole number"),
        ({"n_head": 5}, "hidden_size=24 is not a multiple of num_heads=5"),
        ({"n_inner": -1}, "n_inner=-1: expected a whole number"),
        ({"resid_pdrop": 1.0}, r"resid_pdrop=1\.0: expected a number from 0 to below 1"),
        ({"attn_pdrop": "no"}, "attn_pdrop='no'"),
        ({"n_layer": 10**9}, "n_layer=1000000000, but the tensors are those of 3 layers"),
        ({"n_layer": 2}, "n_layer=2, but the tensors are those of 3 layers"),
        ({"n_embd": 4 * 10**12}, r"wte\.weight has the shape \(\d+, 24\), expected \(\d+, 4000000000000\)"),
        ({"vocab_size": 10**12}, r"wte\.weight has the shape \(\d+, 24\), expected \(1000000000000, 24\)"),
        ({"n_positions": 10**30}, r"wpe\.weight has the shape \(20, 24\), expected \(10{30}, 24\)"),
        ({"n_inner": 10**15}, r"mlp\.c_fc\.weight has the shape \(24, 96\), expected \(24, 10{15}\)"),
        ({"model_type": "openai-gpt"}, r"tokens_embed\.weight is missing;.*wte\.weight is more than"),
    ],
)
def test_settings_that_are_wrong_or_that_no_gpt_here_has(changes, message, folder):
    change(folder, **changes)
    with pytest.raises(FormatError, match=message):
        read_huggingface(folder)


def damage_tensors(folder, tensors):
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("name", "made", "message"),
    [
        ("transformer.wpe.weight", lambda old: None, r"wpe\.weight is missing"),
        (
            "transformer.h.1.ln_2.bias",
            lambda old: old[:-1],
            r"h\.1\.ln_2\.bias has the shape \(23,\), expected \(24,\)",
        ),
        ("transformer.h.0.attn.c_attn.weight", lambda old: old.T.contiguous(), r"\(72, 24\), expected \(24, 72\)"),
        ("score.weight", lambda old: torch.zeros(2, 24), r"score\.weight is more than such a model has"),
        ("wte.weight", lambda old: torch.zeros(2, 24), r"has .*wte\.weight a second time"),
        ("lm_head.weight", lambda old: torch.zeros(2, 24), r"lm_head\.weight has the shape \(2, 24\)"),
        ("transformer.ln_f.bias", lambda old: old.long(), r"ln_f\.bias is of torch\.int64"),
        ("transformer.ln_f.bias", lambda old: old / 0, r"ln_f\.bias has numbers that are not finite"),
    ],
)
def test_tensors_that_do_not_fit(name, made, message, folder):
    tensors = load_file(folder / "model.safetensors")
    damage_tensors(folder, tensors | {name: made(tensors.get(name))})
    with pytest.raises(FormatError, match=message):
        read_huggingface(folder)


def test_an_output_layer_of_its_own_is_refused_unless_the_config_says_so(folder):
    tensors = load_file(folder / "model.safetensors")
    head = tensors["transformer.wte.weight"].clone()
    damage_tensors(folder, tensors | {"lm_head.weight": head})
    assert read_huggingface(folder).module.vocab_size == len(head)
    head[0, 0] += 1
    damage_tensors(folder, tensors | {"lm_head.weight": head})
    with pytest.raises(FormatError, match=r"lm_head\.weight is not transformer\.wte\.weight, but config\.json says"):
        read_huggingface(folder)
    change(folder, tie_word_embeddings=False)
    assert torch.equal(read_huggingface(folder).module.output.weight, head)


def test_tensor_files_that_are_cut_short_or_claim_too_much(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for kept in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:kept])
        with pytest.raises(FormatError, match="is not a whole safetensors file"):
            read_huggingface(folder)
    head = b'{"transformer.wte.weight":{"dtype":"F32","shape":[1000000000000,24],"data_offsets":[0,96000000000000]}}'
    for data in (struct.pack("<Q", 1 << 60) + whole[8:], struct.pack("<Q", len(head)) + head):
        path.write_bytes(data)
        with pytest.raises(FormatError, match="is not a whole safetensors file"):
            read_huggingface(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "has no weight_map"),
        ({"weight_map": {}}, "has no weight_map"),
        ({"weight_map": ["a"]}, "has no weight_map"),
        (
            {"weight_map": {"transformer.wte.weight": "gone.safetensors"}},
            r"names 'gone\.safetensors', which is not a file",
        ),
        ({"weight_map": {"transformer.wte.weight": "../good.safetensors"}}, "which is not a file of the folder"),
        ({"weight_map": {"transformer.wte.weight": 3}}, "names '3', which is not a file"),
        ({"weight_map": {"transformer.wte.weight": 999 * "x"}}, "names 'x+', which is not a file"),
        ({"weight_map": {"transformer.wte.weight": "tokenizer.json"}}, "is not a whole safetensors file"),
    ],
)
def test_an_index_that_leads_nowhere(content, message, folder):
    (folder / "model.safetensors").rename(folder.parent / "good.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match=message):
        read_huggingface(folder)


def test_more_tokens_than_rows_are_refused(folder):
    more = Tokenizer.train([*TEXTS, "eleven twelve thirteen"] * 3, TokenizerConfig(kind="byte-bpe", vocab_size=330))
    more.save(folder / "tokenizer.json")
    with pytest.raises(FormatError, match=rf"vocab_size=\d+, but the tokenizer has {more.vocab_size} tokens"):
        read_huggingface(folder)


def test_places_and_models_that_cannot_be_written(tokenizer, folder, tmp_path):
    with pytest.raises(RunError, match="exists already; choose another path"):
        write_huggingface(folder, make(tokenizer), tokenizer)
    with pytest.raises(SettingError, match="window=3"):
        write_huggingface(tmp_path / "out", make(tokenizer, window=3), tokenizer)
    with pytest.raises(SettingError, match="GPT-1 with hidden_size=24 has ffn_size=96, not 40"):
        write_huggingface(tmp_path / "out", make(tokenizer, norm="post", ffn_size=40), tokenizer)
    other = Rnnlm(RnnlmConfig(hidden_size=4), vocab_size=tokenizer.vocab_size, bos_id=3)
    with pytest.raises(
        SettingError, match="there is no Rnnlm in transformers; these systems can be written: gpt, bert"
    ):
        write_huggingface(tmp_path / "out", other, tokenizer)
    assert not (tmp_path / "out").exists()
    for path in (tmp_path / "nowhere", folder / "config.json"):
        with pytest.raises(FormatError, match=r"no such folder|is a file; name the folder"):
            read_huggingface(path)
