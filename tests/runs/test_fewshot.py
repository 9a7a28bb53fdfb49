"""Zero-, one- and few-shot evaluation: prompts, what does not fit, and three ways to judge options."""

import json
import math
import random

import pytest

from wenmai.core.errors import RunError, SettingError
from wenmai.data.datasets import ChoiceExample, Dataset, PairExample, TextExample, datasets
from wenmai.data.prompts import PROMPTS, template_of
from wenmai.measures.language import SentenceScore
from wenmai.measures.options import NORMALISATIONS, judged, measure_options
from wenmai.runs.fewshot import evaluate_few_shot, few_shot

LOG2 = math.log(2)


class Stub:
    """A language model of known likelihoods that reads a number of words at most, and remembers what it was asked.

    Every word of an option costs ln 2; the option that ``likes`` names for the last line of the prompt nothing. Behind
    the neutral prompt a word costs as many times ln 2 as it has letters.
    """

    def __init__(self, likes=lambda line: "", room=None, unknown=()):
        self.likes, self.room, self.unknown = likes, room, unknown
        self.asked = []

    def continuations(self, prompt, options):
        if prompt in ("Answer:", "答案："):
            return [[-LOG2 * len(word) for word in option.split()] for option in options]
        self.asked.append(prompt)
        liked = self.likes(prompt.rpartition("\n")[2])
        return [[0.0 if option.strip() == liked else -LOG2 for _ in option.split()] for option in options]

    def overlong(self, prompt, options):
        if self.room is None:
            return 0
        return max(0, len(prompt.split()) + max(len(option.split()) for option in options) - self.room)

    def score(self, texts, *, context=None):
        assert context == "fresh"
        for text in texts:
            words = text.split()
            unknown = len([word for word in words if word in self.unknown])
            yield SentenceScore(text=text, log_prob=0.0, tokens=len(words) + 1, oov=unknown)


def made(monkeypatch, name, train, dev):
    """The registered set of that name with other examples."""
    monkeypatch.setattr(Dataset, "read", lambda self, split: iter(train if split == "train" else dev))
    return datasets()[name]


def reviews(*labels):
    return [TextExample(f"film {number} is {label}", label) for number, label in enumerate(labels)]


def names_its_label(line):
    """What a review of :func:`reviews` says of itself."""
    return line.removesuffix(" Sentiment:").rpartition(" ")[2]


# --- prompts ------------------------------------------------------------------------------------------------------


def test_every_label_has_words_of_its_own():
    for name, template in PROMPTS.items():
        dataset = datasets()[name]
        assert set(template.words) == set(dataset.labels)
        assert len(set(template.words.values())) == len(template.words)
        assert (template.between, template.neutral) == (
            (" ", "Answer:") if dataset.language == "en" else ("", "答案：")
        )
        assert "\n" not in template.description


def test_an_example_is_one_line_that_ends_before_its_answer():
    template = template_of(datasets()["rte"])
    example = PairExample("It {rained}.\nAll day.", "It was wet.", "entailment")
    assert template.question(example) == (
        "Premise: It {rained}. All day. Hypothesis: It was wet. True or false? Answer:"
    )
    assert template.options(example) == (" true", " false")
    assert template.answer(example) == 0
    assert template.solved(example).endswith(" Answer: true")
    choice = ChoiceExample(("男：喝茶吗？", "女：好。"), "女的喝什么？", ("水", "茶"), 1)
    c3 = template_of(datasets()["c3"])
    assert c3.solved(choice) == "对话：男：喝茶吗？ 女：好。 问题：女的喝什么？ 答案：茶"
    assert c3.prompt(["a", "b"], "c") == "回答每段对话的问题。\na\nb\nc"


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["trec", "thucnews", "mrpc", "sick", "ocnli", "ernie-match", "dream", "c3"])
def test_real_examples_become_lines(shared_data, monkeypatch, name):
    monkeypatch.setenv("WENMAI_DATA_MIRROR", str(shared_data))
    result = few_shot(Stub(), datasets()[name], shots=2, limit=5)
    assert result.examples == 5
    assert len(result.sample.split("\n")) == 4


# --- what the model is asked --------------------------------------------------------------------------------------


def test_solved_examples_are_drawn_by_the_seed_and_never_the_one_that_is_asked(monkeypatch):
    train = reviews(*["positive", "negative"] * 10)
    dataset = made(monkeypatch, "sst2", train, train[:6])
    template = template_of(dataset)
    prompts = {}
    for seed in (1, 1, 2):
        model = Stub()
        few_shot(model, dataset, shots=3, seed=seed)
        assert prompts.setdefault(seed, model.asked) == model.asked
        for prompt, example in zip(model.asked, train, strict=False):
            first, *solved, last = prompt.split("\n")
            assert first == template.description
            assert last == template.question(example)
            assert len(set(solved)) == 3
            assert set(solved) <= {template.solved(one) for one in train if one != example}
    assert prompts[1] != prompts[2]
    assert len({prompt.rpartition("\n")[0] for prompt in prompts[1]}) == 6  # anew for each
    few_shot(limited := Stub(), dataset, shots=3, limit=2)
    assert len(limited.asked) == 2
    assert limited.asked == [prompt for prompt in prompts[1] if prompt in limited.asked]
    few_shot(zero := Stub(), dataset, shots=0)
    assert zero.asked[0] == f"{template.description}\n{template.question(train[0])}"


def test_examples_are_left_out_from_the_front_until_the_prompt_fits(monkeypatch):
    long = TextExample("film " + "very " * 10 + "good", "positive")
    dataset = made(monkeypatch, "sst2", reviews("positive", "negative"), [*reviews("negative"), long])
    few_shot(whole := Stub(), dataset, shots=2)
    words = len(whole.asked[0].split())  # 8 of the description, 7 of each solved example, 6 of the one asked
    assert words == 28
    expected = {37: (0, 0, 0), 36: (1, 1, 0), 29: (2, 1, 0), 28: (3, 2, 0), 22: (3, 2, 1), 20: (4, 2, 1), 10: (4, 2, 2)}
    for room, counted in expected.items():
        result = few_shot(model := Stub(room=room), dataset, shots=2)
        assert (result.left_out, result.shortened, result.cut) == counted, room
        lines = whole.asked[0].split("\n")
        assert model.asked[0].split("\n") == [lines[0], *lines[1 + (room < 29) + (room < 22) :]]


# --- figures ------------------------------------------------------------------------------------------------------


def test_three_ways_to_judge_are_those_of_hand():
    found = judged([[-1.0], [-0.75, -0.75]], [[-2.0], [-3.0, -1.0]])
    assert found == {"raw": [-1.0, -1.5], "per_token": [-1.0, -0.75], "relative": [1.0, 2.5]}
    impossible = judged([[-math.inf], []], [[-math.inf], []])
    assert impossible == {name: [-math.inf, -math.inf] for name in NORMALISATIONS}


def test_accuracy_by_each_of_them(monkeypatch):
    def asked(answer):
        return ChoiceExample(("M: Hm.",), "What?", ("tea", "black tea", "a little tea"), answer)

    train = [asked(1), asked(1), asked(0)]
    result = few_shot(Stub(), made(monkeypatch, "dream", train, [asked(0), asked(1), asked(2), asked(2)]), shots=1)
    raw, per_token, relative = result.figures
    # raw: 1, 2 and 3 ln 2 for the options, the first is best; by token all are equal; alone the third costs most
    assert (raw.accuracy, raw.ties) == (0.25, 0)
    assert (per_token.accuracy, per_token.ties) == (0.25, 4)
    assert (relative.accuracy, relative.ties) == (0.5, 0)
    assert all(one.low <= one.accuracy <= one.high for one in result.figures)
    assert raw.macro_f1 is None
    assert (result.majority, result.options) == (0.25, 3)
    assert result.chance == pytest.approx(1 / 3)


def test_labels_have_an_f1_and_a_majority(monkeypatch):
    dev = reviews("positive", "positive", "negative", "positive")
    dataset = made(monkeypatch, "sst2", reviews("negative", "negative", "positive"), dev)
    result = few_shot(Stub(names_its_label, unknown={"negative"}), dataset, shots=1)
    assert [(one.normalisation, one.accuracy, one.macro_f1, one.ties) for one in result.figures] == [
        ("raw", 1.0, 1.0, 0),
        ("per_token", 1.0, 1.0, 0),
        ("relative", 1.0, 1.0, 0),
    ]
    assert (result.majority, result.chance, result.unknown_options) == (0.25, 0.5, 1)
    always = few_shot(Stub(lambda line: "positive"), dataset, shots=1).figures[0]
    assert always.accuracy == 0.75
    assert always.macro_f1 == pytest.approx((6 / 7 + 0) / 2)
    assert json.loads(json.dumps(result.as_dict()))["figures"][0]["accuracy"] == 1.0
    assert "accuracy 1.0000 [0.5101, 1.0000]  macro F1 1.0000" in str(result)


def test_an_option_equal_to_the_right_one_is_right():
    options = [("six", "five", "five")]
    (raw, *_) = measure_options([judged([[-2.0], [-1.0], [-1.0]], [[0.0]] * 3)], options, [2])
    assert (raw.accuracy, raw.ties) == (1.0, 0)


# --- mistakes -----------------------------------------------------------------------------------------------------


def test_mistakes_are_told(monkeypatch):
    dataset = made(monkeypatch, "sst2", reviews("positive", "negative"), reviews("positive"))
    for shots in (3, -1):
        with pytest.raises(SettingError, match="expected 0 to 2, as many as the training part of data:sst2 has"):
            few_shot(Stub(), dataset, shots=shots)
    with pytest.raises(SettingError, match="expected 0 to 1"):
        few_shot(Stub(), dataset, split="train", shots=2)
    with pytest.raises(SettingError, match="limit of 0"):
        few_shot(Stub(), dataset, shots=1, limit=0)
    with pytest.raises(SettingError, match="data:conll2003 is for tagging"):
        evaluate_few_shot("run", "data:conll2003", shots=1)
    with pytest.raises(SettingError, match=r"data:trec-fine has no prompt; --few-shot is for ag-news, sst2"):
        evaluate_few_shot("run", "trec-fine", shots=1)
    with pytest.raises(SettingError, match="did you mean 'sst2'"):
        evaluate_few_shot("run", "data:sst", shots=1)
    with pytest.raises(RunError):
        evaluate_few_shot("missing", "data:sst2", shots=1)


# --- trained models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("system", "settings", "accuracy"),
    [
        ("rnnlm", ["hidden_size=32", "num_layers=1", "dropout=0", "learning_rate=0.01", "epochs=50"], 0.9),
        ("gpt", ["hidden_size=16", "num_layers=1", "num_heads=2", "max_length=32", "epochs=1"], None),  # of its prompts
        ("ngram", ["order=4"], 0.9),
    ],
)
def test_a_model_that_has_read_solved_examples_solves_others(shell, monkeypatch, system, settings, accuracy):
    template = PROMPTS["sst2"]
    words = {"positive": ["good", "great", "fine"], "negative": ["bad", "poor", "dull"]}
    examples = [
        TextExample(f"the {noun} is {word}", label)
        for noun in ("film", "plot", "cast", "end", "song")
        for label, found in words.items()
        for word in found
    ]
    lines = [template.solved(example) + "\n" for example in examples if example.text != "the song is bad"]
    lines *= 6
    random.Random(1).shuffle(lines)  # so that nothing but the review tells its label
    (shell.folder / "text.txt").write_text("".join(lines))
    if system != "ngram":
        settings = [*settings, "min_count=1", "threads=1", "batch_tokens=128", "segment_length=32",
                    "tokenizer.kind=words"]  # fmt: skip
    shell("train", system, "text.txt", "--out", "run", *[part for one in settings for part in ("--set", one)])
    made(monkeypatch, "sst2", examples, examples[-10:])  # one of them is in no training text
    arguments = ("evaluate", "run", "--on", "data:sst2", "--limit", 10, "--json")
    for shots in (0, 2):
        finished = shell(*arguments, "--few-shot", shots)
        result = json.loads(finished.out.splitlines()[-1])
        assert (result["examples"], result["shots"], result["seed"]) == (10, shots, 1)
        assert accuracy is None or result["figures"][0]["accuracy"] >= accuracy
        assert result["unknown_options"] == 0
        assert (result["shortened"] > 0) == (system == "gpt" and shots > 0)
        assert ("prompts lack" in finished.err) == (result["shortened"] > 0)
    assert "accuracy" in shell(*arguments[:-1], "--few-shot", 1, "--seed", 3).out
    assert "name at least one test set: --on" in shell("evaluate", "run", "--few-shot", 1, code=2).err
    assert "go with --few-shot" in shell("evaluate", "run", "--on", "text.txt", "--limit", 1, code=2).err
    assert "expected 0 to 30" in shell(*arguments, "--few-shot", 31, code=2).err
