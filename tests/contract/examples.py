"""A tiny example of every system, for the contract that all of them keep.

A system has an entry of its own, or shares that of a system with the same task and model, of which it is a preset. A
system of another package has its entry in a module of that package: ``pytest tests/contract --examples MODULE``.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from wenmai.core.registry import find_system, systems

__all__ = ["ANSWERS", "EXAMPLES", "TEXTS", "Example", "named_like", "without_example"]

Settings = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Example:
    """How a system is trained in a moment.

    Attributes:
        data: What it is trained on, one of ``TEXTS``.
        settings: What makes it tiny.
        wrong: Settings that are refused beside them, each with words of the message.
        forms: Of a neural model: other settings of its architecture, by name; the contracts of modules hold for each.
        start: The system with the example that it starts from, if it cannot start from nothing.
    """

    data: str
    settings: Settings
    wrong: tuple[tuple[Settings, str], ...]
    forms: Mapping[str, Settings] = field(default_factory=lambda: {"plain": {}})
    start: str | None = None

    def sizes(self, config: type) -> dict[str, Any]:
        """Returns those of the settings that are fields of the configuration of a model."""
        known = {one.name for one in fields(config)}
        return {name: value for name, value in self.settings.items() if name in known}


# --- data -----------------------------------------------------------------------------------------------------------


def _sentences(number: int) -> list[list[str]]:
    draw = random.Random(1)
    return [draw.choices("abcdefgh", k=draw.randint(1, 6)) for _ in range(number)]


def _text(number: int) -> str:
    return "".join(" ".join(words) + "\n" for words in _sentences(number))


def _chinese(number: int) -> str:
    draw = random.Random(2)
    words = ["我", "爱", "你", "北京", "天安门", "中国", "人民", "，", "不", "银行"]
    return "".join("".join(draw.choices(words, k=draw.randint(1, 6))) + "。\n" for _ in range(number))


def _pairs(number: int) -> str:
    return "".join(f"{' '.join(words)}\t{' '.join(reversed(words)).upper()}\n" for words in _sentences(number))


def _labelled(number: int) -> str:
    named = (("early" if words[0] < "d" else "late", words) for words in _sentences(number))
    return "".join(f"__label__{label} {' '.join(words)}\n" for label, words in named)


def _documents(number: int) -> str:
    return "".join(" ".join(words) + "\n" * (1 + place % 2) for place, words in enumerate(_sentences(number)))


def _classes(number: int) -> str:
    named = (("early" if words[0] < "d" else "late", words) for words in _sentences(number))
    return "text\tlabel\n" + "".join(f"{' '.join(words)}\t{label}\n" for label, words in named)


def _related(number: int) -> str:
    rows = ((words, words[::-1] if place % 2 else [*"hg"]) for place, words in enumerate(_sentences(number)))
    named = ((" ".join(one), " ".join(other), "same" if other[-1] == one[0] else "other") for one, other in rows)
    return "first\tsecond\tlabel\n" + "".join("\t".join(row) + "\n" for row in named)


def _lengths(number: int) -> str:
    return "text\tlabel\n" + "".join(f"{' '.join(words)}\t{len(words)}\n" for words in _sentences(number))


def _tags(number: int) -> str:
    marks = {"a": "B-X", "b": "I-X", "c": "B-Y"}
    sentences = []
    for words in _sentences(number):
        tags = [marks.get(word, "O") for word in words]
        inside = [tag != "I-X" or tags[place - 1 : place] == ["B-X"] for place, tag in enumerate(tags)]
        tags = [tag if good else "B-X" for tag, good in zip(tags, inside, strict=True)]
        sentences.append("".join(f"{word} {tag}\n" for word, tag in zip(words, tags, strict=True)))
    return "\n".join(sentences)


def _questions(number: int) -> str:
    asked = []
    for place, words in enumerate(_sentences(number)):
        word = words[place % len(words)]
        answers = [] if place % 5 == 0 else [{"text": word, "answer_start": 2 * words.index(word)}]
        known = {"id": str(place), "question": f"{word} h", "answers": answers, "is_impossible": not answers}
        asked.append({"context": " ".join(words), "qas": [known]})
    return json.dumps({"version": "v2.0", "data": [{"title": "a", "paragraphs": asked}]})


def _choices(number: int) -> str:
    rows = ((words, words[0], "h g"[place % 2 :]) for place, words in enumerate(_sentences(number)))
    known = [
        [[" ".join(words)], [{"question": "a b", "choice": [right, wrong, "c"], "answer": right}], str(place)]
        for place, (words, right, wrong) in enumerate(rows)
    ]
    return json.dumps(known)


def _relations(number: int) -> str:
    """Each letter is an entity, of one type or another; the first has a relation to those that follow at once."""
    found = []
    for place, words in enumerate(_sentences(number)):
        sentences = [words, words[:2]]
        mentions: dict[str, list[dict[str, Any]]] = {}
        for sentence, inside in enumerate(sentences):
            for at, word in enumerate(inside):
                span = {"name": word, "sent_id": sentence, "pos": [at, at + 1], "type": "X" if word < "d" else "Y"}
                mentions.setdefault(word, []).append(span)
        follows = [{"h": 0, "t": 1, "r": "before", "evidence": [0]}] if len(mentions) > 1 else []
        found.append({"title": str(place), "sents": sentences, "vertexSet": [*mentions.values()], "labels": follows})
    return json.dumps(found)


def _document(labels: str = "[]", entities: int = 2) -> str:
    spans = [[{"name": word, "sent_id": 0, "pos": [at, at + 1], "type": "X"}] for at, word in enumerate("ab")]
    content = json.dumps(spans[:entities])
    return f'[{{"title": "", "sents": [["a", "b"]], "vertexSet": {content}, "labels": {labels}}}]'


TEXTS = {  # by the name of the file: what is enough, and what is hardly anything
    "text.txt": {"enough": _text(80), "a line": "a b c d\n", "a word": "a\n", "a blank": " \n", "nothing": ""},
    "documents.txt": {
        "enough": _documents(80),
        "a line": "a b c d\n",
        "a word": "a\n",
        "a blank": " \n",
        "nothing": "",
    },
    "chinese.txt": {
        "enough": _chinese(80),
        "a line": "我爱你。\n",
        "a word": "爱\n",
        "no Chinese": "a b c\n",
        "a blank": " \n",
        "nothing": "",
    },
    "pairs.tsv": {"enough": _pairs(60), "a line": "a b\tB A\n", "a word": "a\tA\n", "nothing": ""},
    "labels.txt": {
        "enough": _labelled(60),
        "a line": "__label__early a b c d\n",
        "a word": "__label__early a\n",
        "two words": "__label__early a\n__label__late h\n",
        "a label": "__label__early\n",
        "nothing": "",
    },
    "classes.tsv": {
        "enough": _classes(60),
        "a line": "text\tlabel\na b c d\tearly\n",
        "two words": "text\tlabel\na\tearly\nh\tlate\n",
        "a heading": "text\tlabel\n",
        "nothing": "",
    },
    "related.tsv": {
        "enough": _related(60),
        "a line": "first\tsecond\tlabel\na b\tc\tother\n",
        "two words": "first\tsecond\tlabel\na\ta\tsame\na\tb\tother\n",
        "a heading": "first\tsecond\tlabel\n",
        "nothing": "",
    },
    "lengths.tsv": {
        "enough": _lengths(60),
        "a line": "text\tlabel\na b c d\t4\n",
        "two words": "text\tlabel\na\t1\nh h\t2\n",
        "no number": "text\tlabel\na\tone\nh h\ttwo\n",
        "a heading": "text\tlabel\n",
        "nothing": "",
    },
    "tags.txt": {
        "enough": _tags(60),
        "a line": "a B-X\nb I-X\n",
        "one tag": "a O\nb O\n",
        "a word": "a B-X\n\nb O\n",
        "nothing": "",
    },
    "questions.json": {
        "enough": _questions(60),
        "one": _questions(1),
        "two": _questions(2),
        "no answers": '{"data": []}',
        "nothing": "",
    },
    "relations.json": {
        "enough": _relations(40),
        "one": _document('[{"h": 0, "t": 1, "r": "before", "evidence": []}]'),
        "no relation": _document(),
        "an entity": _document(entities=1),
        "none": "[]",
        "nothing": "",
    },
    "choices.json": {"enough": _choices(60), "one": _choices(1), "none": "[]", "nothing": ""},
}

# --- verbs ----------------------------------------------------------------------------------------------------------


def two(model: Any, texts: list[str]) -> list[Any]:
    """The texts, or with each of them another one where the model takes pairs."""
    return [(text, "a b") for text in texts] if getattr(model, "two", False) else texts


ANSWERS: dict[str, Callable[[Any], Any]] = {  # what each verb says; of a new verb here first
    "nearest": lambda model: list(model.most_similar(model.index_to_key[0])),
    "analogy": lambda model: list(model.analogy(*(model.index_to_key * 3)[:3])),
    "similarity": lambda model: float(model.similarity(*(model.index_to_key * 2)[:2])),
    "score": lambda model: [*model.score(["a b c", "h unseen", ""])],
    "next": lambda model: model.next("a b"),
    "generate": lambda model: [*model.stream("a b", max_tokens=5)],
    "fill": lambda model: model.fill("a [MASK] c"),
    "convert": lambda model: model.convert(["woaini", "wo3 ai4 ni3。", "zgrm", "abc 7", ""], n_best=3),
    "annotate": lambda model: model.annotate(["我爱你，", "龘 a", ""]),
    "translate": lambda model: [*model.stream(["a b", "h"], beam_size=2)],
    "classify": lambda model: model.predict(two(model, ["a b c", "h unseen", ""]), -1),
    "tag": lambda model: model.tag(["a b c", "h unseen", ""]),
    "answer": lambda model: model.answer([("a", "a b c"), ("h unseen", "c d e f g h " * 9)], 3),
    "choose": lambda model: model.choose([("a b c", "", ["a", "h"]), ("h unseen", "a", ["c", "d", "e"])]),
    "extract": lambda model: model.extract(json.loads(_relations(3)), threshold=0.0),
    "rate": lambda model: model.rate(two(model, ["a b c", "h unseen", ""])),
    "embed": lambda model: model.embed(["a b c", "h unseen", ""]).tolist(),
}

# --- systems --------------------------------------------------------------------------------------------------------

_SWEEP = {"threads": 1, "epochs": 2, "vector_size": 8, "min_count": 1}
_LOOP = {"threads": 1, "epochs": 2, "min_count": 1, "learning_rate": 0.02}
_LANGUAGE = _LOOP | {"kind": "whitespace", "batch_tokens": 24, "segment_length": 6}
_PINYIN = _LOOP | {"batch_tokens": 60, "longest": 20}
_CBHG = {"encoder": "cbhg", "widths": 3, "highway_layers": 1, "num_heads": 6, "num_layers": 3}
_LAYERS = {"hidden_size": 16, "num_layers": 2, "num_heads": 2}
_TRANSLATION = _LOOP | {"kind": "words", "batch_tokens": 40, "max_length": 40}
_TUNING = {"threads": 1, "epochs": 2, "learning_rate": 0.02, "batch_size": 16}
_NO_BASE = ({"start": None}, "starts from a trained encoder")
_WRONG_LOOP = (({"momentum": 0.5}, "momentum has no effect"), ({"schedule": "cosin"}, "did you mean 'cosine'"))

EXAMPLES = {
    "word2vec": Example(
        data="text.txt",
        settings=_SWEEP,
        wrong=(({"negative": 0}, "nothing to learn from"), ({"softmax": True}, "an objective of its own")),
    ),
    "glove": Example(data="text.txt", settings=_SWEEP, wrong=(({"x_max": 0}, "x_max=0: expected"),)),
    "ppmi-svd": Example(
        data="text.txt",
        settings={"threads": 1, "vector_size": 4, "min_count": 1},
        wrong=(({"vector_size": 40}, "needs a vocabulary of more than 40 words"),),
    ),
    "fasttext": Example(
        data="text.txt",
        settings=_SWEEP | {"buckets": 50},
        wrong=(({"negative": 0}, "nothing to learn from"), ({"algorithm": "skipgrams"}, "did you mean 'skipgram'")),
    ),
    "fasttext-supervised": Example(
        data="labels.txt",
        settings=_SWEEP | {"buckets": 50, "word_ngrams": 2},
        wrong=(({"loss": "softmaxx"}, "did you mean 'softmax'"),),
    ),
    "classifier": Example(
        data="labels.txt",
        settings={"epochs": 2, "buckets": 50},
        wrong=(
            ({"solver": "closed"}, "epochs has no effect with solver=closed"),
            ({"word_ngrams": 0}, "leave no features"),
        ),
    ),
    "ngram": Example(
        data="text.txt",
        settings={"order": 3},
        wrong=(({"k": 0.5}, "k=0.5 has no effect"), ({"prune": "1"}, "expected|give 0")),
    ),
    "pinyin-ngram": Example(
        data="chinese.txt",
        settings={"order": 3, "listed": False, "least": 1},
        wrong=(
            ({"phrases": 1}, "takes no phrases"),
            ({"character_weight": 0, "word_weight": 0, "list_weight": 0}, "nothing is scored"),
        ),
    ),
    "pinyin": Example(
        data="chinese.txt",
        settings=_PINYIN | _LAYERS | {"reversed_share": 0.2, "known_share": 0.2, "max_length": 20},
        forms={"post-norm": {}, "pre-norm": {"norm": "pre", "ffn_size": 20}},
        wrong=(
            ({"num_heads": 3}, "not a multiple"),
            ({"reversed_share": 0.9}, "leave no sentence"),
            ({"tone_dropout": 2}, "tone_dropout=2: expected"),
        ),
    ),
    "pinyin-letters": Example(
        data="chinese.txt",
        settings=_PINYIN | {"hidden_size": 12, "num_heads": 3, "num_layers": 2},
        forms={"transformer": {}, "cbhg": _CBHG, "no convolution": {"convolution": 0}},
        wrong=(
            ({"encoder": "cbhg"}, "are for encoder=transformer"),
            ({"widths": 3}, "are for encoder=cbhg"),
            ({"convolution": 4}, "even"),
            (_CBHG | {"hidden_size": 13}, "odd"),
        ),
    ),
    "nnlm": Example(
        data="text.txt",
        settings=_LANGUAGE | {"order": 5, "embedding_size": 6, "hidden_size": 10},
        forms={
            "plain": {},
            "direct": {"direct": True, "order": 3},
            "only direct": {"direct": True, "hidden_size": 0},
            "bigrams": {"order": 2},
        },
        wrong=(({"hidden_size": 0}, "add direct=true"), *_WRONG_LOOP),
    ),
    "rnnlm": Example(
        data="text.txt",
        settings=_LANGUAGE | {"hidden_size": 12, "num_layers": 2, "dropout": 0.2},
        forms={
            "lstm": {},
            "gru, tied": {"cell": "gru", "tied": True, "num_layers": 1},
            "rnn": {"cell": "rnn", "embedding_size": 7, "init_range": 0.2},
        },
        wrong=(
            ({"tied": True, "embedding_size": 3}, "must be equal"),
            ({"boundaries": "masked"}, "rnnlm reads one stream"),
        ),
    ),
    "gpt": Example(
        data="text.txt",
        settings=_LANGUAGE | _LAYERS | {"max_length": 12, "accumulation": 2},
        forms={
            "gpt-1": {"norm": "post", "attention_dropout": 0.1},
            "gpt-2": {},
            "gpt-3": {"window": 2, "ffn_size": 20, "num_layers": 3},
            "untied": {"tied": False, "activation": "silu", "epsilon": 1e-3},
        },
        wrong=(
            ({"hidden_size": 10, "num_heads": 4}, "not a multiple"),
            ({"num_layers": 1, "window": 4}, "no effect"),
            ({"segment_length": 13}, "segment_length=13 is more than max_length=12"),
        ),
    ),
    "transformer-xl": Example(
        data="text.txt",
        settings=_LANGUAGE | _LAYERS | {"ffn_size": 20, "memory_length": 12},
        forms={
            "plain": {},
            "pre-norm": {"norm": "pre", "shared_biases": False, "attention_dropout": 0.1},
            "adaptive": {"cutoffs": (7, 15), "div_value": 2},
            "adaptive of one table": {"cutoffs": (7, 15), "embedding_size": 6, "tied_projections": False},
        },
        wrong=(
            ({"num_heads": 3}, "not a multiple"),
            ({"hidden_size": 9, "num_heads": 3}, "odd"),
            ({"cutoffs": (5, 3)}, "rising"),
            ({"div_value": 2}, "are for cutoffs"),
            ({"cutoffs": (5, 9), "div_value": 100}, "no column"),
            ({"boundaries": "masked"}, "transformer-xl reads one stream"),
        ),
    ),
    "bert": Example(
        data="documents.txt",
        settings=_LOOP
        | _LAYERS
        | {"kind": "whitespace", "batch_tokens": 48, "max_length": 12, "accumulation": 2, "vocab_size": 20}
        | {"heads": ("mlm", "pair"), "pooler": "tanh", "pairs": "next", "short_length": 8, "short_share": 0.5},
        forms={
            "post-norm": {},
            "pre-norm": {"norm": "pre", "attention_dropout": 0.1, "activation": "gelu_tanh"},
            "roberta": {"segments": 0, "heads": ("mlm",), "pooler": "none"},
            "electra": {"heads": ("replaced",), "embedding_size": 6, "pooler": "none"},
            "ernie": {"task_types": 3, "ffn_size": 20},
            "narrow embeddings": {"embedding_size": 6},
            "untied": {"tied": False},
            "classes": {"heads": ("classification",), "labels": ("a", "b", "c")},
            "efficient": {"positions": "relative", "buckets": 4, "norm": "nested", "gated": True},
            "nested": {"norm": "nested", "activation": "gelu_tanh"},
        },
        wrong=(
            ({"hidden_size": 10, "num_heads": 4}, "not a multiple"),
            ({"pooler": "none"}, "add pooler=tanh"),
            ({"pairs": "none", "short_length": None, "short_share": 0.9}, "not trained with pairs=none"),
            ({"short_length": 13}, "more than max_length=12"),
            ({"boundaries": "masked"}, "never joins documents"),
            ({"buckets": 8}, "buckets has no effect"),
            ({"gated": True}, "add norm=nested"),
        ),
    ),
    "ernie": Example(
        data="documents.txt",
        settings=_LOOP
        | _LAYERS
        | {"kind": "whitespace", "batch_tokens": 48, "max_length": 12, "vocab_size": 20}
        | {"tasks": ("characters", "phrases"), "phrases_min_count": 1, "accumulation": 2},
        wrong=(
            ({"tasks": ("characters", "phrase")}, "no pre-training task is called 'phrase'; did you mean 'phrases'"),
            ({"tasks": ("phrases", "phrases")}, "names a task twice"),
            ({"tasks": ("entities",)}, "nothing says what the entities are"),
            ({"tasks": ("phrases", "dialogue")}, "has no dialogues"),
            ({"tasks": ("phrases", "reordering"), "pooler": "none"}, "add pooler=tanh"),
            ({"heads": ("pair",), "pooler": "tanh"}, "cannot predict masked tokens"),
            ({"average": 2}, "the last parameters are taken"),
            ({"minutes": 1}, "set budget"),
            ({"budget": 3, "stages": "continual", "rehearsal": 3}, "leaves nothing of budget=3"),
            ({"rehearsal": 2}, "no effect with stages=sequential"),
            ({"shares": (1, 2)}, "no effect with stages=sequential"),
            ({"stages": "table"}, "needs the table"),
            ({"stages": "table", "table": ("2+3", "0+4")}, "= 4 batches, not the 5 of the task characters"),
            ({"stages": "mixed", "shares": (1,)}, "shares has 1 numbers"),
            ({"budget": 1, "epochs": 5}, "epochs=5 are more than the 2 batches"),
        ),
    ),
    "ernie-2": Example(
        data="documents.txt",
        settings=_LOOP
        | _LAYERS
        | {"kind": "whitespace", "batch_tokens": 60, "max_length": 12, "vocab_size": 20, "task_types": 5}
        | {"sentences": "lines", "phrases_min_count": 1, "epochs": 8}
        | {"tasks": ("phrases", "token-document", "reordering", "distance", "relevance")},
        wrong=(
            ({"task_types": 2}, "too few for 5 tasks"),
            ({"reordering_parts": 6}, "less than or equal to 5"),
            ({"budget": 5}, "6 are needed at least"),
        ),
    ),
    "elmo": Example(
        data="text.txt",
        settings=_LANGUAGE
        | {"character_size": 4, "filters": (4, 6), "hidden_size": 8, "cell_size": 12, "max_characters": 8}
        | {"predicted": 9, "sampled": 5, "accumulation": 2, "vocab_size": 20},
        wrong=(
            ({"filters": (0,)}, "not all 0"),
            ({"filters": (1,) * 9}, "9 widths"),
            ({"cutoffs": (5, 3)}, "rising"),
            ({"cutoffs": (5, 9), "sampled": None}, "below 9"),
            ({"cutoffs": (5,)}, "sampled=5 and cutoffs"),
            ({"sampled": 9}, "sampled=9 of 9"),
            ({"kind": "bpe"}, "reads words"),
            ({"boundaries": "masked"}, "elmo reads one stream"),
        ),
    ),
    "ssan": Example(
        data="relations.json",
        settings=_TUNING | {"entity_size": 6, "distance_size": 3, "batch_size": 8},
        start="bert",
        wrong=(
            _NO_BASE,
            ({"structure": "none", "structured": "1"}, "structured has no effect"),
            ({"structured": "3"}, "has 2 layers"),
            ({"features": False}, "has no effect with features=false"),
            ({"max_length": 13}, "more than the 12 tokens"),
        ),
    ),
    "finetuned-classification": Example(
        data="classes.tsv",
        settings=_TUNING | {"class_weight": "balanced"},
        start="bert",
        wrong=(
            _NO_BASE,
            ({"top_layers": 1}, "top_layers has no effect with mode=full"),
            ({"layer": 1}, "layer has no effect with mode=full"),
            ({"mode": "frozen", "layer": 9, "class_weight": "none"}, "layer=9: the encoder has"),
            ({"crf": True}, "crf=True has no effect on finetuned-classification"),
            ({"max_length": 13}, "more than the 12 tokens"),
            ({"mode": "top", "top_layers": 9, "class_weight": "none"}, "top_layers=9: the encoder has"),
        ),
    ),
    "finetuned-pair": Example(
        data="related.tsv",
        settings=_TUNING | {"unfreeze": 1, "layer_decay": 0.9},
        start="gpt",
        wrong=(_NO_BASE, ({"answer_length": 5}, "answer_length=5 has no effect on finetuned-pair")),
    ),
    "finetuned-regression": Example(
        data="lengths.tsv",
        settings=_TUNING,
        start="elmo",
        wrong=(
            _NO_BASE,
            ({"class_weight": "balanced"}, "class_weight=balanced has no effect"),
            ({"pooling": "pooler"}, "no pooler"),
        ),
    ),
    "finetuned-tagging": Example(
        data="tags.txt",
        settings=_TUNING | {"crf": True, "max_length": 8, "stride": 3},
        start="bert",
        wrong=(_NO_BASE, ({"class_weight": "balanced"}, "has no effect with crf=true")),
    ),
    "finetuned-span": Example(
        data="questions.json",
        settings=_TUNING | {"stride": 2, "answer_length": 4, "mode": "lora", "lora_rank": 2},
        start="bert",
        wrong=(_NO_BASE, ({"pooling": "mean"}, "pooling=mean has no effect")),
    ),
    "finetuned-choice": Example(
        data="choices.json",
        settings=_TUNING | {"mode": "frozen"},
        start="bert",
        wrong=(_NO_BASE, ({"scratch": True}, "leave out mode=frozen")),
    ),
    "seq2seq": Example(
        data="pairs.tsv",
        settings=_TRANSLATION
        | {"embedding_size": 8, "hidden_size": 12, "num_layers": 1, "dropout": 0.2}
        | {"scheduled_sampling": "linear", "sampling_steps": 20, "patience": 9},
        forms={
            "gru bahdanau additive": {},
            "lstm bahdanau scaled_dot": {
                "encoder": "lstm",
                "scorer": "scaled_dot",
                "num_layers": 2,
                "bidirectional": False,
            },
            "rnn bahdanau concat": {
                "encoder": "rnn",
                "scorer": "concat",
                "bidirectional": False,
                "reverse_source": True,
            },
            "cnn bahdanau cosine": {"encoder": "cnn", "scorer": "cosine", "num_layers": 2},
            "gru luong additive": {"attention": "luong"},
            "lstm luong bilinear": {"encoder": "lstm", "attention": "luong", "scorer": "bilinear", "num_layers": 2},
            "cnn luong dot": {"encoder": "cnn", "attention": "luong", "scorer": "dot", "kernel_size": 2},
            "gru every_step": {"context": "every_step", "num_layers": 2},
            "cnn every_step": {"encoder": "cnn", "context": "every_step"},
            "lstm first_state": {
                "encoder": "lstm",
                "context": "first_state",
                "bidirectional": False,
                "reverse_source": True,
            },
            "rnn first_state": {"encoder": "rnn", "context": "first_state"},
        },
        wrong=(
            ({"encoder": "cnn", "bidirectional": False}, "leave bidirectional on"),
            ({"context": "first_state", "scorer": "dot"}, "has no attention"),
        ),
    ),
    "transformer": Example(
        data="pairs.tsv",
        settings=_TRANSLATION
        | {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "ffn_size": 24, "dropout": 0.2}
        | {"warmup": 10, "average": 2, "accumulation": 2},
        forms={
            "sinusoidal": {},
            "pre-norm": {"norm": "pre", "activation": "gelu", "decoder_layers": 1, "attention_bias": False},
            "learned": {"positions": "learned", "attention_dropout": 0.1, "activation_dropout": 0.1},
            "shaw": {"positions": "shaw", "max_distance": 2, "decoder_layers": 2},
            "no positions": {"positions": "none"},
            "window": {"window": 1},
            "shaw in a window": {"positions": "shaw", "window": 2, "norm": "pre"},
        },
        wrong=(
            ({"num_heads": 3}, "not a multiple"),
            ({"max_distance": 4}, "max_distance has no effect"),
            ({"scheduled_sampling": "linear"}, "scheduled_sampling needs a decoder that reads token by token"),
        ),
    ),
}


def named_like(name: str) -> list[str]:
    """Returns the systems that differ from one in their settings alone, itself among them."""
    one = find_system(name)
    return [other.name for other in systems().values() if (other.task, other.model) == (one.task, one.model)]


def without_example(examples: Mapping[str, Example]) -> list[str]:
    """Returns the systems that neither have an example nor are presets of one that has."""
    covered = {preset for name in examples for preset in named_like(name)}
    return [name for name in systems() if name not in covered]
