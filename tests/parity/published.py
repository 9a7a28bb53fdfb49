"""What random models of ``transformers`` for tasks read, examples of the tasks, and how close ours are to them."""

import json

from wenmai.data.typed import Answer, ChoiceExample, SpanExample
from wenmai.formats.huggingface.bert import framed_tokenizer

TEXTS = ["one two three", "four five six, seven", "eight nine ten"]
SIZES = {
    "vocab_size": 90,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 40,
    "max_position_embeddings": 40,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
LABELS = {"ForSequenceClassification": ["cold", "warm", "hot"], "ForTokenClassification": ["O", "B-LOC", "I-LOC"]}
QUESTIONS = [  # question, text, answer
    (TEXTS[0], "four five six seven", "five six"),
    ("nine ten", "one two three four", "four"),
    ("six", "ten nine eight", "ten nine"),
]
SPANS = [
    SpanExample(str(number), "", text, question, (Answer(answer, text.index(answer)),))
    for number, (question, text, answer) in enumerate(QUESTIONS)
]
CHOICES = [ChoiceExample((TEXTS[number],), "one", ("two", "five six", "nine ten eight"), number) for number in range(3)]
CLOSE = {"rtol": 0, "atol": 1e-5}


def marked(tokenizer):
    """Their tokenizer, with the marks around texts."""
    import transformers as theirs

    made = theirs.PreTrainedTokenizerFast(tokenizer_object=_inner(tokenizer))
    made.pad_token = tokenizer.token(tokenizer.pad_id)
    return made


def _inner(tokenizer):
    import tokenizers

    return tokenizers.Tokenizer.from_str(json.dumps(framed_tokenizer(tokenizer, segments=2)))


def fed(tokenizer, *texts):
    """What their model takes."""
    found = marked(tokenizer)(*texts, padding=True, return_tensors="pt", return_token_type_ids=True)
    return {key: found[key] for key in ("input_ids", "attention_mask", "token_type_ids")}
