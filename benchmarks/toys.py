"""The toy trainings of the fingerprints: every system, their texts, and the questions to the models."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["TRAININGS", "Training", "questions", "write_texts"]


@dataclass(frozen=True)
class Training:
    """One training.

    Attributes:
        system: The system.
        settings: Its settings; ``WORK`` is the folder of all runs, each of which has the name of its training.
        corpus: The name of one of the texts.
        start: The training that it continues.
        resumed: Train once more, interrupted after the first record, and see whether the files are the same.
        exports: Formats, each with the name of the file or folder to write.
    """

    system: str
    settings: str
    corpus: str = "text.txt"
    start: str | None = None
    resumed: bool = False
    exports: Mapping[str, str] = field(default_factory=dict)


# --- what is trained ------------------------------------------------------------------------------------------------

_PASSES = "threads=1 epochs=2 vector_size=16 min_count=2"
_BUCKETS = f"{_PASSES} buckets=2000"
_LABELS = "threads=1 vector_size=8 buckets=1000 word_ngrams=2 data.valid=WORK/labels-test.txt"
_TORCH = "threads=1 device=cpu epochs=4 batch_tokens=512 warmup=4 learning_rate=0.01"
_SMALL = f"{_TORCH} hidden_size=16 num_layers=2 vocab_size=300"
_NNLM = f"{_TORCH} hidden_size=16 embedding_size=12"
_GPT = f"{_SMALL} num_heads=2 max_length=32"
_XL = f"{_SMALL} num_heads=2 ffn_size=32 memory_length=16 segment_length=16"
_BERT = f"{_SMALL} num_heads=2 max_length=32 min_count=1"
_ELMO = f"{_TORCH} hidden_size=8 cell_size=16 filters=4,8 segment_length=8"
_PAIRS = "epochs=15 hidden_size=32"
_RECURRENT = f"{_SMALL} {_PAIRS} num_layers=1 embedding_size=12"
_TRANSFORMER = f"{_SMALL} {_PAIRS} num_heads=2 ffn_size=32 schedule=cosine"
_ENGINE = {"ctranslate2": "engine"}
_FASTTEXT = {"fasttext": "model.bin"}
_WORD2VEC = {"word2vec": "vectors.txt", "word2vec-binary": "vectors.bin"}

_SUPERVISED = {
    "softmax": "",
    "hs": "loss=hs",
    "ova": "loss=ova",
    "ns": "loss=ns",
    "deterministic": "deterministic=true",
    "subwords": "min_ngram=2 max_ngram=4",
    "pretrained": "vector_size=16 pretrained=WORK/word2vec-sgns",
}
_CLASSIFIER = {
    "softmax": "",
    "logistic": "buckets=0 method=logistic weighting=binary",
    "perceptron": "buckets=0 method=perceptron weighting=counts",
    "least-squares": "buckets=0 method=least-squares",
    "closed": "buckets=0 method=least-squares solver=closed",
    "vectors": "features=WORK/word2vec-sgns weighting=sif",
}
_SEQ2SEQ = {
    "luong": "attention=luong scorer=bilinear encoder=lstm",
    "dot": "attention=luong scorer=dot encoder=rnn bidirectional=false",
    "first-state": "context=first_state bidirectional=false reverse_source=true",
    "every-step": "context=every_step num_layers=2",
    "hard": "selection=hard",
    "drawn": "selection=sampled",
    "local-m": "selection=local-m window=2",
    "local-p": "selection=local-p window=2 attention=luong",
    "cnn": "encoder=cnn",
    "sampling": "scheduled_sampling=linear sampling_steps=8 validate_bleu=true",
}
_TUNING = "threads=1 device=cpu epochs=2 learning_rate=0.01"
_RELATIONS = f"{_TUNING} entity_size=8 batch_size=2"
_FINE_TUNED = (
    ("finetuned-classification", "finetuned-classification", "classes.tsv", "bert", "layer_decay=0.9 unfreeze=1"),
    ("finetuned-classification-frozen", "finetuned-classification", "classes.tsv", "gpt", "mode=frozen"),
    ("finetuned-pair", "finetuned-pair", "related.tsv", "gpt", "class_weight=balanced"),
    ("finetuned-regression", "finetuned-regression", "lengths.tsv", "elmo", ""),
    ("finetuned-tagging", "finetuned-tagging", "tags.txt", "bert", "crf=true max_length=10 stride=4"),
    ("finetuned-span", "finetuned-span", "questions.json", "bert", "max_length=16 stride=6"),
    ("finetuned-choice", "finetuned-choice", "choices.json", "bert", "mode=lora lora_rank=2"),
)
_POSITIONS = {
    "learned": "positions=learned max_length=64 norm=pre",
    "shaw": "positions=shaw max_distance=4 activation=gelu",
    "none": "positions=none window=4",
    "two-vocabularies": "joint=false decoder_layers=1 attention_bias=false",
}

TRAININGS = {
    "word2vec-sgns": Training("word2vec-sgns", _PASSES, resumed=True, exports=_WORD2VEC),
    "word2vec-sghs": Training("word2vec-sghs", _PASSES),
    "word2vec-cbow-ns": Training("word2vec-cbow-ns", _PASSES),
    "word2vec-cbow-hs": Training("word2vec-cbow-hs", _PASSES),
    "word2vec-own-negatives": Training("word2vec", f"{_PASSES} shared_negatives=false"),
    "word2vec-deterministic": Training("word2vec", f"{_PASSES} deterministic=true"),
    "word2vec-deterministic-cbow": Training("word2vec", f"{_PASSES} deterministic=true algorithm=cbow"),
    "word2vec-softmax": Training("word2vec", f"{_PASSES} softmax=true negative=0"),
    "word2vec-true-gradient": Training("word2vec", f"{_PASSES} algorithm=cbow true_gradient=true"),
    "word2vec-phrases": Training("word2vec", f"{_PASSES} segment=words phrases=1 phrase_threshold=1 lowercase=true"),
    "word2vec-continued": Training("word2vec", "threads=1 epochs=2 old_rate=0.5", "more.txt", "word2vec-sgns"),
    "glove": Training("glove", f"{_PASSES} epochs=5", resumed=True),
    "glove-both": Training("glove", f"{_PASSES} output=both weighting=none"),
    "ppmi-svd": Training("ppmi-svd", "threads=1 vector_size=16 min_count=2"),
    "fasttext-skipgram": Training("fasttext-skipgram", _BUCKETS, resumed=True, exports=_FASTTEXT),
    "fasttext-cbow": Training("fasttext-cbow", _BUCKETS),
    "fasttext-hierarchical": Training("fasttext", f"{_BUCKETS} hierarchical=true"),
    "fasttext-continued": Training("fasttext", "threads=1 epochs=2", "more.txt", "fasttext-skipgram"),
    **{
        f"fasttext-supervised-{name}": Training(
            "fasttext-supervised",
            f"{_LABELS} {more}",
            "labels.txt",
            resumed=not more,
            exports={} if more else _FASTTEXT,
        )
        for name, more in _SUPERVISED.items()
    },
    **{
        f"classifier-{name}": Training("classifier", more, "labels.txt", resumed=not more)
        for name, more in _CLASSIFIER.items()
    },
    "ngram": Training("ngram", "order=3", exports={"arpa": "model.arpa"}),
    "ngram-kneser-ney": Training("ngram", "order=3 smoothing=kneser-ney"),
    "ngram-absolute": Training("ngram", "order=3 smoothing=absolute"),
    "ngram-add-k": Training("ngram", "order=3 smoothing=add-k k=0.1"),
    "ngram-mle": Training("ngram", "order=3 smoothing=mle"),
    "ngram-pruned": Training("ngram", "order=3 prune=0,0,1"),
    "ngram-characters": Training("ngram", "order=5 segment=characters"),
    "nnlm": Training("nnlm", f"{_NNLM} boundaries=masked", resumed=True),
    "nnlm-direct": Training("nnlm", f"{_NNLM} direct=true"),
    "rnnlm": Training("rnnlm", _SMALL, resumed=True),
    "rnnlm-gru": Training("rnnlm", f"{_SMALL} cell=gru tied=true"),
    "rnnlm-rnn": Training("rnnlm", f"{_SMALL} cell=rnn init_range=0.1 optimiser=sgd momentum=0.9 schedule=constant"),
    "gpt": Training("gpt", _GPT, resumed=True, exports={**_ENGINE, "huggingface": "huggingface"}),
    "gpt-post": Training("gpt", f"{_GPT} norm=post"),
    "gpt-window": Training("gpt", f"{_GPT} window=8 attention_dropout=0.1 optimiser=adamw weight_decay=0.1"),
    "gpt-masked": Training("gpt", f"{_GPT} boundaries=masked"),
    "gpt-averaged": Training("gpt", f"{_GPT} average=2 accumulation=2 kind=characters"),
    "gpt-continued": Training("gpt", f"{_TORCH} data.grow=20", "more.txt", "gpt"),
    "transformer-xl": Training("transformer-xl", _XL, resumed=True),
    "transformer-xl-adaptive": Training("transformer-xl", f"{_XL} cutoffs=50,100 div_value=2"),
    "transformer-xl-pre": Training("transformer-xl", f"{_XL} norm=pre shared_biases=false"),
    "bert": Training("bert", _BERT, resumed=True, exports={"huggingface": "huggingface"}),
    "bert-pairs": Training("bert", f"{_BERT} pairs=order heads=mlm,pair pooler=tanh short_length=16 dupe_factor=2"),
    "bert-documents": Training("bert", f"{_BERT} boundaries=masked masking=whole-word norm=pre"),
    "bert-efficient": Training("bert-efficient", f"{_BERT} ffn_size=24 buckets=8 masking=span", resumed=True),
    "ernie": Training("ernie", f"{_BERT} tasks=characters,phrases phrases_from=mined", resumed=True),
    "ernie-2": Training(
        "ernie-2", f"{_BERT} tasks=phrases,token-document,reordering,capitalisation task_types=4", resumed=True
    ),
    "elmo": Training("elmo", _ELMO, resumed=True),
    "elmo-sampled": Training("elmo", f"{_ELMO} predicted=100 sampled=20 highway_layers=2"),
    "seq2seq": Training("seq2seq", _RECURRENT, "pairs.tsv", resumed=True),
    **{f"seq2seq-{name}": Training("seq2seq", f"{_RECURRENT} {more}", "pairs.tsv") for name, more in _SEQ2SEQ.items()},
    "transformer": Training("transformer", _TRANSFORMER, "pairs.tsv", resumed=True, exports=_ENGINE),
    **{
        f"transformer-{name}": Training("transformer", f"{_TRANSFORMER} {more}", "pairs.tsv")
        for name, more in _POSITIONS.items()
    },
    "transformer-continued": Training("transformer", _TORCH, "more.tsv", "transformer"),
    **{
        name: Training(system, f"{_TUNING} {more}", corpus, start, resumed=True)
        for name, system, corpus, start, more in _FINE_TUNED
    },
    "ssan": Training("ssan", _RELATIONS, "relations.json", "bert", resumed=True),
    "ssan-adaptive": Training(
        "ssan", f"{_RELATIONS} structure=decomposed structured=2 loss=adaptive features=false", "relations.json", "bert"
    ),
}


# --- texts ----------------------------------------------------------------------------------------------------------

_SYLLABLES = ("ba", "do", "fi", "ka", "lu", "me", "no", "pi", "ra", "su", "te", "vo")
_WORDS = [first + second for first in _SYLLABLES for second in _SYLLABLES]
_TOPICS = ("Sky", "Sea", "Land")


def write_texts(folder: Path) -> None:
    """Writes the texts, the same ones always: words of a topic stand together, frequent ones first in the list."""
    draw = random.Random(7)

    def sentence(topic: int, words: Sequence[str] = _WORDS) -> list[str]:
        """Words that are followed by one of two others, most of them of the topic."""
        found = [words[topic]]
        for _ in range(int(4 + 8 * draw.random())):
            rank = int(len(words) ** draw.random()) - 1  # Zipf's law
            follower = words.index(found[-1]) * 2 + 1
            found.append(words[(follower if draw.random() < 0.5 else 3 * rank + topic) % len(words)])
        return found

    def text(lines: int, words: Sequence[str] = _WORDS) -> str:
        return "".join(" ".join(sentence(line % len(_TOPICS), words)) + "\n" for line in range(lines))

    def labelled(lines: int) -> str:
        topics = [int(len(_TOPICS) * draw.random()) for _ in range(lines)]
        return "".join(f"__label__{_TOPICS[topic]} {' '.join(sentence(topic))}\n" for topic in topics)

    def pairs(lines: int) -> str:
        """The translation is backwards, with another ending."""
        sources = [sentence(line % len(_TOPICS), _WORDS[:40]) for line in range(lines)]
        return "".join(f"{' '.join(one)}\t{' '.join(word + 'n' for word in reversed(one))}\n" for one in sources)

    newer = [*_WORDS[:60], *(f"{word}la" for word in _WORDS[:40])]
    texts = {
        "text.txt": text(1200),
        "more.txt": text(300, newer),
        "test.txt": text(5) + "unknown words here\n",
        "labels.txt": labelled(300),
        "labels-test.txt": labelled(40),
        "pairs.tsv": pairs(300),
        "more.tsv": pairs(100),
        "pairs-test.tsv": pairs(8),
        "similarity.tsv": "".join(
            f"{_WORDS[n]}\t{_WORDS[(5 * n) % 40]}\t{10 * draw.random():.2f}\n" for n in range(1, 30)
        ),
        "analogy.txt": ": topics\n" + "".join(" ".join(_WORDS[n : n + 4]) + "\n" for n in range(20)),
    }
    for name, content in (texts | _labelled_texts([sentence(line % len(_TOPICS)) for line in range(120)])).items():
        (folder / name).write_text(content, encoding="utf-8")


def _labelled_texts(sentences: Sequence[Sequence[str]]) -> dict[str, str]:
    """The examples that encoders are fine-tuned on, a file for each task."""
    classes, related, lengths, tags, questions, choices, relations = [], [], [], [], [], [], []
    for number, words in enumerate(sentences):
        text, word = " ".join(words), words[number % len(words)]
        other = " ".join(sentences[number - 1] if number % 2 else reversed(words))
        classes.append(f"{text}\t{_TOPICS[number % len(_TOPICS)]}\n")
        related.append(f"{text}\t{other}\t{'other' if number % 2 else 'same'}\n")
        lengths.append(f"{text}\t{len(words)}\n")
        tags.append("".join(f"{one} {'B-X' if one.startswith('ba') else 'O'}\n" for one in words))
        answers = [{"text": word, "answer_start": text.index(word)}] if number % 4 else []
        asked = {"id": str(number), "question": word, "answers": answers, "is_impossible": not answers}
        questions.append({"context": text, "qas": [asked]})
        relations.append(_related(number, words, sentences[number - 1]))
        options = [words[0], f"{words[0]} {word}", "vovo"]
        choices.append([[text], [{"question": word, "choice": options, "answer": options[0]}], str(number)])
    return {
        "classes.tsv": "text\tlabel\n" + "".join(classes),
        "related.tsv": "first\tsecond\tlabel\n" + "".join(related),
        "lengths.tsv": "text\tlabel\n" + "".join(lengths),
        "tags.txt": "\n".join(tags),
        "questions.json": json.dumps({"data": [{"title": "", "paragraphs": questions}]}),
        "choices.json": json.dumps(choices),
        "relations.json": json.dumps(relations[:40]),
        "asked.txt": f"{_WORDS[0]}\t{' '.join(_WORDS[:30])}\n",
        "options.txt": f"{' '.join(_WORDS[:9])}\t{_WORDS[0]}\t{_WORDS[1]}\t{_WORDS[2]}\n",
    }


def _related(number: int, *sentences: Sequence[str]) -> dict[str, Any]:
    """A document whose entities are words that begin with b or d; its first one comes before the second."""
    mentions: dict[str, list[dict[str, Any]]] = {}
    for place, words in enumerate(sentences):
        for at, word in enumerate(words):
            if word[0] in "bd":
                mention = {"name": word, "sent_id": place, "pos": [at, at + 1], "type": word[0].upper()}
                mentions.setdefault(word, []).append(mention)
    labels = [{"h": 0, "t": 1, "r": "before", "evidence": [0]}] if len(mentions) > 1 else []
    return {"title": str(number), "sents": list(sentences), "vertexSet": [*mentions.values()], "labels": labels}


# --- what is asked --------------------------------------------------------------------------------------------------

_PROMPT = f"{_WORDS[0]} {_WORDS[1]}"
_VECTORS = {
    "nearest": ("nearest", "RUN", _WORDS[3]),
    "analogy": ("analogy", "RUN", *_WORDS[:3]),
    "evaluation": ("evaluate", "RUN", "--similarity", "WORK/similarity.tsv", "--analogy", "WORK/analogy.txt"),
}
_LANGUAGE = {
    "scores": ("score", "RUN", "--file", "WORK/test.txt", "--tokens"),
    "scores alone": ("score", "RUN", "--context", "fresh", "--file", "WORK/test.txt"),
    "next": ("next", "RUN", _PROMPT, "--topn", "5"),
    "greedy": ("generate", "RUN", _PROMPT, "--greedy", "--past-end", "--max-tokens", "20"),
    "drawn": ("generate", "RUN", _PROMPT, "--count", "2", "--top-k", "20", "--max-tokens", "20"),
    "beam": ("generate", "RUN", _PROMPT, "--beam", "3", "--max-tokens", "12"),
    "evaluation": ("evaluate", "RUN", "--on", "WORK/test.txt"),
}
_LABELLING = {
    "labels": ("classify", "RUN", "--file", "WORK/labels-test.txt", "--k", "3"),
    "evaluation": ("evaluate", "RUN", "--on", "WORK/labels-test.txt"),
}
_SOURCES = (f"{_WORDS[0]} {_WORDS[3]} {_WORDS[7]}", " ".join(_WORDS[5:12]))
_TRANSLATING = {
    "beam": ("translate", "RUN", *_SOURCES, "--n-best", "2"),
    "greedy": ("translate", "RUN", *_SOURCES, "--beam", "1"),
    "drawn": ("translate", "RUN", *_SOURCES, "--sample", "--top-k", "20"),
    "coverage": ("translate", "RUN", *_SOURCES, "--length-penalty", "gnmt", "--coverage", "0.2"),
    "evaluation": ("evaluate", "RUN", "--on", "WORK/pairs-test.tsv", "--tokenize", "none"),
}
_ENCODING = {
    "scores": ("score", "RUN", "--file", "WORK/test.txt"),
    "vectors": ("embed", "RUN", "baba bado", "bafi"),
    "words": ("embed", "RUN", "--words", "baba bado"),
    "evaluation": ("evaluate", "RUN", "--on", "WORK/test.txt"),
}
_TEXTS = ("baba bado", "bafi")
_OF_TASKS: dict[str, tuple[tuple[str, ...], str]] = {
    "classification": (("classify", "RUN", *_TEXTS, "--k", "3"), "classes.tsv"),
    "pair": (("classify", "RUN", "baba bado\tbafi", "--k", "2"), "related.tsv"),
    "regression": (("rate", "RUN", *_TEXTS), "lengths.tsv"),
    "tagging": (("tag", "RUN", *_TEXTS), "tags.txt"),
    "span": (("answer", "RUN", "--file", "WORK/asked.txt", "--k", "3"), "questions.json"),
    "choice": (("choose", "RUN", "--file", "WORK/options.txt"), "choices.json"),
}


def _of_task(question: tuple[str, ...], file: str) -> dict[str, tuple[str, ...]]:
    evaluation = ("evaluate", "RUN", "--on", f"WORK/{file}")
    return {"answers": question, "vectors": ("embed", "RUN", *_TEXTS), "evaluation": evaluation}


_QUESTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "word2vec": _VECTORS,
    "glove": _VECTORS,
    "ppmi": _VECTORS,
    "ssan": {
        "relations": ("extract", "RUN", "WORK/relations.json", "--threshold", "0.1"),
        "evidence": ("extract", "RUN", "WORK/relations.json", "--threshold", "0.1", "--evidence", "attention"),
        "evaluation": ("evaluate", "RUN", "--on", "WORK/relations.json"),
    },
    "fasttext-supervised": _LABELLING,
    "fasttext": _VECTORS | {"of an unknown word": ("nearest", "RUN", "babala")},
    "classifier": _LABELLING,
    "seq2seq": _TRANSLATING,
    "bert": _ENCODING | {"masked": ("fill", "RUN", "baba [MASK] bapi")},
    "ernie": _ENCODING | {"masked": ("fill", "RUN", "baba [MASK] bapi")},
    "elmo": _ENCODING,
    "transformer-xl": _LANGUAGE | {"no memory": ("score", "RUN", "--file", "WORK/test.txt", "--memory", "0")},
    "transformer": _TRANSLATING,
    **{f"finetuned-{task}": _of_task(question, file) for task, (question, file) in _OF_TASKS.items()},
}


def questions(system: str) -> dict[str, tuple[str, ...]]:
    """Returns commands that a model of a system answers, by name; ``RUN`` is its run, ``WORK`` the folder of texts."""
    return next((found for name, found in _QUESTIONS.items() if system.startswith(name)), _LANGUAGE)
