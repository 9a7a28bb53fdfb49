"""Good samples of the files of data sets, which the fault lab damages; :mod:`benchmarks.faults.readers` reads them."""

import json
import tarfile
from collections.abc import Mapping
from io import BytesIO

__all__ = ["DATA_SETS", "EXAMPLES_OF_TASKS", "MINIMAL_PAIRS"]


def _reviews() -> bytes:
    stream = BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in (("train/pos/1_9.txt", "a fine film<br />indeed"), ("train/neg/2_1.txt", "not so\nfine")):
            member = tarfile.TarInfo(f"imdb/{name}")
            member.size = len(text)
            archive.addfile(member, BytesIO(text.encode()))
    return stream.getvalue().rstrip(b"\0") + b"\0" * 1024


_COLUMNS = (
    "EU NNP B-NP B-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP I-MISC\n\n-DOCSTART- -X- -X- O\n\nPeter NNP I-NP I-PER\n"
)
_ENTITIES = (
    '{"text": "北京大学在北京", "label": {"organization": {"北京大学": [[0, 3]]}, "address": {"北京": [[5, 6]]}}}\n'
)
_CHOICES = [[["W: Hello.", "M: Hi."], [{"question": "Who?", "choice": ["a man", "a dog"], "answer": "a dog"}], "1-2"]]
_JUDGED = '{"sentence1": "他在", "sentence2": "他不在", "label": "contradiction"}\n'

_CONTEXT = "Anna went to Bonn, and caf\u00e9 \U0001f600 to Rome."
_ASKED = {
    "version": "v2.0",
    "data": [
        {
            "title": "A",
            "paragraphs": [
                {
                    "context": _CONTEXT,
                    "qas": [
                        {"id": "1", "question": "Where?", "answers": [{"text": "Bonn", "answer_start": 13}]},
                        {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}

DATA_SETS: dict[str, str | bytes] = {  # by the name of the reader
    "label_and_text": 'label,text\n1,"a fine, ""good"" film"\n2,bad\n1,fine\n',
    "title_and_text": '1,"Title, one","a fine film"\n2,Other,"bad"\n',
    "text_and_label": "a fine film\t1\nbad\t0\n",
    "questions": "NUM:date When was it ?\nHUM:ind Who caf\u00e9 ?\n",
    "reviews": _reviews(),
    "columns": _COLUMNS,
    "spans": _ENTITIES * 2,
    "paraphrases": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\ta b\tb a\n0\t3\t4\tc d\te\n",
    "related": "pair_ID\tA\tB\tscore\tjudgement\n1\ta b\tb a\t4.5\tENTAILMENT\n2\tc\td\t1\tNEUTRAL\n",
    "entailed": "index\tsentence1\tsentence2\tlabel\n0\ta b\tb\tentailment\n1\tc\td\tnot_entailment\n",
    "inferences": _JUDGED,
    "matches": "你好吗\t你好\t1\na\tb\t0\n",
    "triples": "你好吗\t你好\t再见\nq\tp\tn\n",
    "choices": json.dumps(_CHOICES * 2),
    "segmented": "我们  在  北京\n\n北京  大学\n",
    "span_questions": json.dumps(_ASKED),
}

_PAIR = b'{"sentence_good": "he sings", "sentence_bad": "he sing", "UID": "agreement"}\n'

MINIMAL_PAIRS: list[Mapping[str, bytes]] = [
    {"minimal.jsonl": _PAIR * 2},
    {"minimal.tsv": b"good\tbad\nhe sings\the sing\tagreement\n"},
]

_ONE_OF = '{"context": "a talk", "question": "Who?", "options": ["he", "she"], "answer": "B"}\n'
_RECORD = (
    '{"context": "in Rome", "question": "Where?", "id": "7", "answers": {"text": ["Rome"], "answer_start": [3]}}\n'
)
_TAGGED = '{"tokens": ["in", "Rome"], "tags": ["O", "B-LOC"]}\n'

EXAMPLES_OF_TASKS: dict[str, dict[str, str]] = {  # by task: files and their content
    "classification": {
        "classes.tsv": "sentence\tlabel\na fine film\t1\nbad\t0\nfine\t1\n",
        "classes.csv": 'label,review\n1,"a fine, ""good"" film"\n0,bad\n',
        "classes.jsonl": '{"text": "a b", "label": 1}\n{"text": "c", "label": "0"}\n',
        "classes.json": '[{"text": "a b", "label": "1"}, {"text": "c", "label": ["0"]}]',
        "classes.txt": "__label__1 a fine film\nbad __label__0\n",
        "bare.txt": "a fine film\t1\nbad\t0\nfine\t1\n",
    },
    "pair": {
        "pairs.tsv": "index\tsentence1\tsentence2\tlabel\n0\ta b\tb\tentailment\n1\tc\td\tneutral\n",
        "pairs.jsonl": '{"sentence1": "a", "sentence2": "b", "label": "-"}\n' + _JUDGED,
    },
    "regression": {"scores.tsv": "a b\tb a\t4.5\nc\td\t1\n", "scores.csv": "review,stars\nfine,4\nbad,-1e0\n"},
    "tagging": {
        "tags.txt": _COLUMNS,
        "tags.bmes": "\u5317 B-LOC\n\u4eac E-LOC\n\n\u4ed6 O\n",
        "tags.jsonl": _TAGGED + _ENTITIES,
    },
    "span": {"questions.json": json.dumps(_ASKED, indent=1), "questions.jsonl": _RECORD},
    "choice": {
        "choices.json": json.dumps(_CHOICES * 2),
        "choices.jsonl": _ONE_OF * 2,
        "choices.csv": "sent1,sent2,ending0,ending1,label\na,b,c,d,1\n",
    },
}
