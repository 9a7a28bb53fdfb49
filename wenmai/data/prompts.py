"""Prompts: how a language model sees the examples of a data set, and the words that stand for its labels.

A prompt is lines: the task, solved examples, and the question, which ends before its answer. Every example is one line,
so that an answer is on the line of its question, however a model treats line ends. Labels are meaningful words, in
lower case, which more vocabularies have.

Source: Brown et al. 2020, "Language Models are Few-Shot Learners", section 2.4 and appendix G.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wenmai.core.errors import SettingError
from wenmai.data.datasets import Dataset

__all__ = ["PROMPTS", "PromptTemplate", "template_of"]


@dataclass(frozen=True, kw_only=True)
class PromptTemplate:
    """How the examples of a data set are written.

    Attributes:
        description: The task, in a line.
        form: An example up to its answer; names of its fields in braces.
        words: Label to the words that stand for it; empty where each example has answers of its own.
        between: The text between the form and the answer.
        neutral: An empty prompt, for the probability of an answer by itself.
    """

    description: str
    form: str
    words: Mapping[str, str] = field(default_factory=dict)
    between: str = " "
    neutral: str = "Answer:"

    def question(self, example: Any) -> str:  # noqa: ANN401  of any kind
        """Returns an example as a line that ends before its answer."""
        fields = {name: " ".join(value) if name == "turns" else value for name, value in example._asdict().items()}
        return _line(self.form.format_map(fields))

    def options(self, example: Any) -> tuple[str, ...]:  # noqa: ANN401
        """Returns the answers to choose from, as they follow the question."""
        found: Sequence[str] = tuple(self.words.values()) or example.options
        return tuple(self.between + _line(option) for option in found)

    def answer(self, example: Any) -> int:  # noqa: ANN401
        """Returns the index of the right answer in :meth:`options`."""
        return list(self.words).index(example.label) if self.words else int(example.answer)

    def solved(self, example: Any) -> str:  # noqa: ANN401
        """Returns an example as a line with its answer."""
        return self.question(example) + self.options(example)[self.answer(example)]

    def prompt(self, solved: Sequence[str], question: str) -> str:
        """Returns the text before an answer: description, solved examples and question, a line each."""
        return "\n".join([self.description, *solved, question])


def template_of(dataset: Dataset) -> PromptTemplate:
    """Returns the prompt of a data set.

    Raises:
        SettingError: if there is none.
    """
    if dataset.name in PROMPTS:
        return PROMPTS[dataset.name]
    why = "is for tagging, which has no answers to choose from" if dataset.task == "tagging" else "has no prompt"
    raise SettingError(f"data:{dataset.name} {why}; --few-shot is for {', '.join(PROMPTS)}")


def _line(text: str) -> str:
    return " ".join(text.split())


def _chinese(description: str, form: str, words: Mapping[str, str] | None = None) -> PromptTemplate:
    return PromptTemplate(description=description, form=form, words=words or {}, between="", neutral="答案：")


_POLES = {"negative": "negative", "positive": "positive"}
_SAME = {"0": "不同", "1": "相同"}

PROMPTS: dict[str, PromptTemplate] = {
    "ag-news": PromptTemplate(
        description="Name the topic of each article: world, sports, business or technology.",
        form="Article: {text} Topic:",
        words={"World": "world", "Sports": "sports", "Business": "business", "Sci/Tech": "technology"},
    ),
    "sst2": PromptTemplate(
        description="Say whether each review is negative or positive.", form="Review: {text} Sentiment:", words=_POLES
    ),
    "imdb": PromptTemplate(
        description="Say whether each review is negative or positive.", form="Review: {text} Sentiment:", words=_POLES
    ),
    "trec": PromptTemplate(
        description="Say what type of answer each question asks for: abbreviation, description, entity, person, "
        "location or number.",
        form="Question: {text} Type:",
        words={
            "ABBR": "abbreviation",
            "DESC": "description",
            "ENTY": "entity",  # codespell:ignore enty
            "HUM": "person",
            "LOC": "location",
            "NUM": "number",
        },
    ),
    "chnsenticorp": _chinese(
        "判断每条评论的情感是负面还是正面。", "评论：{text} 情感：", {"negative": "负面", "positive": "正面"}
    ),
    "thucnews": _chinese(
        "判断每个标题的类别：财经、房产、股票、教育、科技、社会、时政、体育、游戏或娱乐。",
        "标题：{text} 类别：",
        {
            "finance": "财经",
            "realty": "房产",
            "stocks": "股票",
            "education": "教育",
            "science": "科技",
            "society": "社会",
            "politics": "时政",
            "sports": "体育",
            "game": "游戏",
            "entertainment": "娱乐",
        },
    ),
    "rte": PromptTemplate(
        description="Say whether the hypothesis follows from the premise: true or false.",
        form="Premise: {first} Hypothesis: {second} True or false? Answer:",
        words={"entailment": "true", "not_entailment": "false"},
    ),
    "mrpc": PromptTemplate(
        description="Say whether the two sentences mean the same: yes or no.",
        form="First: {first} Second: {second} The same? Answer:",
        words={"not_equivalent": "no", "equivalent": "yes"},
    ),
    "sick": PromptTemplate(
        description="Say whether the hypothesis is true, false or neither, given the premise.",
        form="Premise: {first} Hypothesis: {second} True, false or neither? Answer:",
        words={"entailment": "true", "neutral": "neither", "contradiction": "false"},
    ),
    "ocnli": _chinese(
        "根据前提，判断假设是正确、错误还是未知。",
        "前提：{first} 假设：{second} 正确、错误还是未知？答案：",
        {"entailment": "正确", "neutral": "未知", "contradiction": "错误"},
    ),
    "ernie-match": _chinese(
        "判断两个问题的意思相同还是不同。", "问题一：{first} 问题二：{second} 相同还是不同？答案：", _SAME
    ),
    "ernie-match-triples": _chinese(
        "判断两个问题的意思相同还是不同。", "问题一：{first} 问题二：{second} 相同还是不同？答案：", _SAME
    ),
    "dream": PromptTemplate(
        description="Answer the question about each dialogue.", form="Dialogue: {turns} Question: {question} Answer:"
    ),
    "c3": _chinese("回答每段对话的问题。", "对话：{turns} 问题：{question} 答案："),
}
