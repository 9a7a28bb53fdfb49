"""Fine-tuning: what is read of texts, and what is minimised."""

import math

import numpy as np
import pytest
import torch

import wenmai
from tests.tasks.finetuning.trained import PLAIN, loss_of, vectors_of
from wenmai.core.errors import CorpusError
from wenmai.core.registry import find_system
from wenmai.data.examples import open_examples
from wenmai.inference.families import backbone_like
from wenmai.inference.finetuned_network import fitted
from wenmai.runs.planning import plan

# --- rows -----------------------------------------------------------------------------------------------------------


def test_bert_reads_texts_between_its_marks(base):
    backbone = backbone_like(base("bert").model)
    tokenizer = backbone.tokenizer
    row = backbone.framed([7, 8], [9])
    assert row.tokens == [tokenizer.cls_id, 7, 8, tokenizer.sep_id, 9, tokenizer.sep_id]
    assert backbone.begins(row) == (1, 4)
    fed = backbone.fed([row, backbone.framed([7])])
    assert fed.segments.tolist() == [[0, 0, 0, 0, 1, 1], [0] * 6]
    assert fed.real.sum(1).tolist() == [6, 3]
    assert fed.places[:, 0].tolist() == [0, 0]


def test_gpt_has_three_tokens_more_which_say_where_texts_are(begin):
    model = begin("pair", "gpt").fine_tuned
    size, known = model.module.encoder.vocab_size, model.backbone.tokenizer.vocab_size
    assert size == known + 3
    start, delimiter, extract = range(known, size)
    row = model.backbone.framed([1, 2], [3])
    assert row.tokens == [start, 1, 2, delimiter, 3, extract]
    assert model.backbone.place(row) == 5


def test_the_state_of_gpts_last_token_sees_no_padding(begin):
    model = begin("pair", "gpt").fine_tuned
    alone, together = [("a b", "c")], [("a b", "c"), ("a b c d e", "f g h")]
    np.testing.assert_allclose(model.probabilities(alone)[0], model.probabilities(together)[0], rtol=1e-5)


def test_elmo_reads_two_texts_one_by_one_and_compares_them(begin):
    model = begin("pair", "elmo").fine_tuned
    (item,) = model.items([("a b", "c")])
    assert [row.tokens for row in item.rows] == [["a", "b"], ["c"]]
    u, v = torch.randn(2, model.backbone.size)
    found = model.compared(torch.stack([u, v]), 2)
    torch.testing.assert_close(found[0], torch.cat([u, v, (u - v).abs(), u * v]))


@pytest.mark.parametrize(
    ("sizes", "room", "left"),
    [
        ([3, 9], 8, [3, 5]),
        ([9, 9], 8, [4, 4]),
        ([9, 12], 7, [3, 4]),
        ([12, 4], 7, [3, 4]),
        ([5000, 5000], 509, [254, 255]),
        ([2, 3], 8, [2, 3]),
        ([1, 30], 8, [1, 7]),
        ([12], 8, [8]),
    ],
)
def test_of_texts_that_are_too_long_the_longest_is_cut_first(sizes, room, left):
    assert [len(one) for one in fitted([list(range(size)) for size in sizes], room, "head")] == left


def test_beginning_and_end_of_a_long_text_are_kept():
    assert fitted([list(range(100))], 8, "both") == [[0, 1, *range(94, 100)]]
    assert fitted([list(range(100))], 8, "head") == [list(range(8))]


def test_texts_that_were_cut_are_counted(begin):
    job = begin("classification", "bert", max_length=8)
    longer = sum(len(one.text.split()) > 6 for one in job._data.train)
    assert job._train.cut == longer
    assert all(item.width <= 8 for item in job._train.items)
    texts = "text\tlabel\n" + "a b c d e f g h a b c\tearly\n" * 9 + "h\tlate\n" * 9
    _, (note,) = begin("classification", "bert", texts, max_length=8, valid_share=0).changes(None)
    assert note.startswith("9 of 18 examples are longer than the 8 tokens that the model reads, and were cut")


# --- losses -------------------------------------------------------------------------------------------------------


def test_balanced_classes_count_as_if_they_were_equally_frequent(begin):
    job = begin("classification", "bert", class_weight="balanced", valid_share=0)
    model, labels = job.fine_tuned, [one.label for one in job._data.train]
    head = model.module.head.double()
    table = [head(vector)[0].log_softmax(-1).detach() for vector in vectors_of(job, range(6))]
    model.module.head.float()
    found = loss_of(job, range(6))
    targets = [model.labels.index(label) for label in labels[:6]]
    weights = [len(labels) / (2 * labels.count(label)) for label in labels[:6]]
    terms = [-row[target].item() for row, target in zip(table, targets, strict=True)]
    assert float(found.nll) == pytest.approx(sum(terms), rel=1e-4)
    assert float(found.total) == pytest.approx(sum(w * t for w, t in zip(weights, terms, strict=True)), rel=1e-4)


def test_numbers_are_learnt_as_deviations_and_given_as_they_are(begin):
    job = begin("regression", "bert", valid_share=0)
    model, values = job.fine_tuned, np.array([one.score for one in job._data.train])
    assert model.numbers["mean"] == pytest.approx(values.mean())
    outputs = np.array([float(one[0]) for one in model.outputs(job._train.items)])
    expected = np.square(outputs - (values - values.mean()) / values.std())
    assert float(loss_of(job, range(5)).nll) == pytest.approx(expected[:5].sum(), rel=1e-4)
    rated = model.rate([one.first for one in job._data.train])
    np.testing.assert_allclose(rated, values.mean() + values.std() * outputs, rtol=1e-4)


def test_a_head_goes_on_with_numbers_of_another_scale(base, data, tmp_path):
    rows = [f"{'a b c d'[: 2 * n % 7 + 1]}\t{100 + n % 7}" for n in range(60)]
    first = wenmai.finetune(
        base("bert"), data("regression", "\n".join(["text\tlabel", *rows])), task="regression", out=tmp_path / "one",
        quiet=True, valid_share=0, **PLAIN
    )  # fmt: skip
    path = tmp_path / "other.tsv"
    path.write_text("\n".join(["text\tlabel", *(row.replace("\t10", "\t90") for row in rows)]))
    recipe, opened = plan("finetuned-regression", path, start=first.path, valid_share=0, **PLAIN)
    known = find_system(recipe.system).load()
    read = known.source.read(recipe, opened.source, lambda done, total: None, first.read_base())
    going_on = known.begin(recipe, read, first.read_base()).fine_tuned
    assert going_on.numbers["mean"] > 800
    texts = ["a b", "c", "a b c d"]
    np.testing.assert_allclose(going_on.rate(texts), first.model.rate(texts), rtol=1e-4)


def test_a_head_that_does_not_go_on_is_noted(base, tmp_path, capsys):
    rows = [("a b", "x"), ("c d", "y"), ("b b", "x"), ("d", "y")]
    others = [(text, {"y": "z"}.get(label, label)) for text, label in rows]

    def tune(start, examples, name, **settings):
        chosen = {"task": "classification", "out": tmp_path / name, "quiet": True, "valid_share": 0}
        run = wenmai.finetune(start, examples, **chosen, **PLAIN | settings)
        return (
            run,
            "the head of the run is not used, a new one learns: it was trained with other labels"
            in capsys.readouterr().err,
        )

    first, noted = tune(base("bert"), rows, "first")
    assert not noted
    again, noted = tune(first.path, rows, "again", learning_rate=1e-12)
    assert not noted
    for one, other in zip(first.model.module.head.parameters(), again.model.module.head.parameters(), strict=True):
        np.testing.assert_allclose(one.detach(), other.detach(), atol=1e-6)
    assert tune(first.path, others, "others")[1]
    assert not tune(first.path, others, "scratch", scratch=True)[1]


def test_one_text_and_two_are_not_mixed(begin, tmp_path):
    job = begin("regression", "bert")
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"a b\tb {one}\t{place}\n" for place, one in enumerate("abcd")))
    with pytest.raises(CorpusError, match="'a b' comes with another text, but the model takes one"):
        [job.fine_tuned.gold(one) for one in open_examples(path, "regression")]


def test_gpt_also_predicts_the_tokens_of_its_texts(begin):
    job = begin("classification", "gpt", lm_weight=0.25)
    assert job.loss_weights == {"task": 1.0, "lm": 0.25}
    (row,) = job._train.items[3].rows
    losses = loss_of(job, [3])
    encoder = job.fine_tuned.module.encoder
    with torch.no_grad():
        logits = encoder.output(encoder(torch.tensor([row.tokens]))).double().log_softmax(-1)[0]
    expected = -sum(logits[place, token].item() for place, token in enumerate(row.tokens[1:]))
    assert float(losses["lm"].nll) == pytest.approx(expected, rel=1e-4)
    assert job.counts(np.array([3])) == {"task": 1, "lm": len(row.tokens) - 1}
    assert begin("classification", "gpt", lm_weight=0).loss_weights == {"loss": 1.0}


def test_begin_and_end_of_an_answer_have_one_loss(begin):
    job = begin("span", "bert", valid_share=0, max_length=10, stride=2)
    part, model = job._train, job.fine_tuned
    place = next(n for n, item in enumerate(part.items) if len(item.rows) > 1 and (0, 0) not in part.targets[n][:1])
    (logits,) = model.outputs([part.items[place]])
    terms, low = [], 0
    for row, target in zip(part.items[place].rows, part.targets[place], strict=True):
        some = torch.from_numpy(logits[low : low + 1 + len(row.places)]).double().log_softmax(0)
        low += 1 + len(row.places)
        terms += [-0.5 * (some[target[0], 0] + some[target[1], 1]).item()]
    found = loss_of(job, [place])
    assert float(found.nll) == pytest.approx(sum(terms), rel=1e-4)
    assert found.targets == len(terms)


def test_options_compete_with_each_other(begin):
    job = begin("choice", "bert", valid_share=0)
    model = job.fine_tuned
    item, answer = job._train.items[0], job._data.train[0].answer
    scores = [model.module.head(vectors.float()).item() for vectors in vectors_of(job, [0])[0].split(1)]
    expected = math.log(sum(map(math.exp, scores))) - scores[answer]
    assert len(item.rows) == len(scores) == 3
    assert float(loss_of(job, [0]).nll) == pytest.approx(expected, rel=1e-4)
