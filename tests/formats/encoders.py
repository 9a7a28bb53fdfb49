"""Small encoders, and folders of Hugging Face, for the tests of their formats."""

import json

import pytest
import torch

from wenmai.models.bert import Bert, BertConfig

SIZES = {"hidden_size": 24, "num_layers": 3, "num_heads": 4, "ffn_size": 40, "max_length": 20, "dropout": 0.0}
TEXTS = ["one two three", "four five six, seven", "eight nine ten"] * 3
LABELS = ("cold", "warm", "hot, or hotter")
VOCABULARY = 150


def shaken(model, scale=0.1):
    """Biases and norms are no longer zeros and ones."""
    torch.manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += scale * torch.randn_like(parameter)
    return model.eval()


def make(tokenizer, **settings):
    return shaken(Bert(BertConfig(**SIZES | settings), vocab_size=VOCABULARY))


def folder_of(model, tokenizer, path, **options):
    """Saves a model of transformers with a tokenizer."""
    model.save_pretrained(path, **options)
    tokenizer.save(path / "tokenizer.json")
    return path


def change(folder, **changes):
    """Changes config.json; None takes a key away."""
    path = folder / "config.json"
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


BERT_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 20,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
DISTIL_SIZES = {
    "vocab_size": VOCABULARY,
    "dim": 24,
    "n_layers": 3,
    "n_heads": 4,
    "hidden_dim": 40,
    "max_position_embeddings": 20,
    "dropout": 0.0,
    "attention_dropout": 0.0,
    "qa_dropout": 0.0,
    "seq_classif_dropout": 0.0,
}
TASKS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice")
LIKE_BERT = ("Model", "ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction", *TASKS)
FAMILIES = {
    "Bert": (BERT_SIZES, LIKE_BERT),
    "Ernie": (BERT_SIZES | {"use_task_id": True, "task_type_vocab_size": 5}, LIKE_BERT),
    "Roberta": (
        BERT_SIZES | {"type_vocab_size": 1, "pad_token_id": 0, "max_position_embeddings": 21},
        ("Model", "ForMaskedLM", *TASKS),
    ),
    "XLMRoberta": (
        BERT_SIZES | {"type_vocab_size": 1, "pad_token_id": 0, "max_position_embeddings": 21},
        ("ForMaskedLM", "ForSequenceClassification"),
    ),
    "Electra": (
        BERT_SIZES | {"embedding_size": 16, "summary_last_dropout": 0.0},
        ("Model", "ForPreTraining", "ForMaskedLM", *TASKS),
    ),
    "DistilBert": (DISTIL_SIZES, ("Model", "ForMaskedLM", *TASKS)),
}
CASES = [(family, head) for family, (_, heads) in FAMILIES.items() for head in heads]


def reference(family, head, **settings):
    theirs = pytest.importorskip("transformers")
    sizes, _ = FAMILIES[family]
    if head in ("ForSequenceClassification", "ForTokenClassification"):
        settings = {
            "id2label": dict(enumerate(LABELS)),
            "label2id": {name: i for i, name in enumerate(LABELS)},
        } | settings
    config = getattr(theirs, f"{family}Config")(**sizes | settings)
    config._attn_implementation = "eager"
    torch.manual_seed(7)
    return shaken(getattr(theirs, family + head)(config))
