"""``config.json`` of encoders: read as settings of a BERT here, refused where it says other equations, and written."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wenmai.core.errors import FormatError, SettingError
from wenmai.formats.huggingface.encoder_forms import POOLED, SUFFIXES, Form, Pooler
from wenmai.formats.huggingface.folder import TANH, Place

if TYPE_CHECKING:
    from wenmai.models.bert import BertConfig
    from wenmai.nn.names import ActivationName, HeadName

__all__ = ["SPELLINGS", "Found", "offset_of", "pooler_of", "read_config", "written_config"]

_log = logging.getLogger(__name__)

SPELLINGS: "dict[ActivationName, tuple[str, ...]]" = {
    "gelu": ("gelu", "gelu_python"),
    "gelu_tanh": TANH,
    "relu": ("relu",),
    "silu": ("silu", "swish"),
}
"""Our activation to its names there, the one that is written first."""

_REQUIRED = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
_SHORTEST = 4  # of BertConfig.max_length


class Found:
    """What was read.

    Attributes:
        config: The settings.
        vocab_size: V.
        offset: Positions there before the first of ours.
    """

    def __init__(self, config: "BertConfig", vocab_size: int, offset: int) -> None:
        self.config = config
        self.vocab_size = vocab_size
        self.offset = offset


def offset_of(form: Form, pad_id: int) -> int:
    """Returns how many vectors of positions are before that of the first token."""
    return pad_id + 1 if form.offset else 0


def pooler_of(form: Form, heads: "tuple[HeadName, ...]") -> Pooler | None:
    """Returns where the pooler of a model with these heads is, if it has one."""
    return next((form.poolers[head] for head in heads if head in form.poolers), form.pooler)


def read_config(path: Path, content: Mapping[str, Any], form: Form, places: Mapping[str, Place]) -> Found:
    """Reads the settings of a model, whose heads are told by its tensors.

    Args:
        path: Of ``config.json``, for messages.
        content: What it says.
        form: The family.
        places: The tensors that are there.

    Raises:
        FormatError: if a value is none, or means other equations than those here.
    """
    from wenmai.models.bert import BertConfig

    for key, value in _REQUIRED.items():
        if content.get(key, value) not in (value, None):
            raise FormatError(f"{path}: {key}={content[key]!r}: an encoder here has {value!r}, nothing else")
    sizes = {ours: content.get(key, usual) for ours, (key, usual) in form.sizes.items()}
    for ours, value in sizes.items():
        if type(value) is not int or value < 1:
            raise FormatError(f"{path}: {form.sizes[ours][0]}={value!r}: expected a whole number from 1 on")
    heads = _heads(path, content, form, places)
    activation = _activation(path, content, form, heads)
    offset, key = _offset(path, content, form), form.sizes["max_length"][0]
    longest = sizes.pop("max_length") - offset
    if longest < _SHORTEST:
        raise FormatError(f"{path}: {key}={longest + offset}: expected at least {_SHORTEST + offset}")
    vocab_size, embedding = sizes.pop("vocab_size"), sizes.pop("embedding_size", None)
    tied = content.get("tie_word_embeddings", True)
    if type(tied) is not bool:
        raise FormatError(f"{path}: tie_word_embeddings={tied!r}: expected true or false")
    try:
        config = BertConfig(
            **({"segments": 0} | sizes),
            max_length=longest,
            embedding_size=None if embedding == sizes["hidden_size"] else embedding,
            task_types=_tasks(path, content) if "task_types.weight" in form.names else 0,
            epsilon=1e-12 if form.epsilon is None else _number(path, content, form.epsilon, 1e-12),
            activation=activation,
            pooler=_pooler(path, content, form, heads, places),  # type: ignore[arg-type]
            heads=heads,
            labels=_labels(path, content, form, heads, places, sizes["hidden_size"]),
            tied=tied,
            dropout=_number(path, content, form.rates["dropout"], 0.1, rate=True),
            attention_dropout=_number(path, content, form.rates["attention_dropout"], 0.1, rate=True),
        )
    except SettingError as error:
        raise FormatError(f"{path}: {error}") from None
    return Found(config, vocab_size, offset)


def _number(path: Path, content: Mapping[str, Any], key: str, usual: float, *, rate: bool = False) -> float:
    value = content.get(key, usual)
    if type(value) not in (int, float) or not (0 <= value < 1 if rate else 0 < value < 1):
        wanted = "a number from 0 to below 1" if rate else "a number between 0 and 1"
        raise FormatError(f"{path}: {key}={value!r}: expected {wanted}")
    return float(value)


def _offset(path: Path, content: Mapping[str, Any], form: Form) -> int:
    pad = content.get("pad_token_id", 1) if form.offset else 0
    if type(pad) is not int or pad < 0:
        raise FormatError(f"{path}: pad_token_id={pad!r}: expected an id, behind which positions begin")
    return offset_of(form, pad)


def _tasks(path: Path, content: Mapping[str, Any]) -> int:
    used, size = content.get("use_task_id", False), content.get("task_type_vocab_size", 3)
    if type(used) is not bool:
        raise FormatError(f"{path}: use_task_id={used!r}: expected true or false")
    if type(size) is not int or size < 1:
        raise FormatError(f"{path}: task_type_vocab_size={size!r}: expected a whole number from 1 on")
    return size if used else 0


def _activation(path: Path, content: Mapping[str, Any], form: Form, heads: "tuple[HeadName, ...]") -> "ActivationName":
    named = content.get(form.activation, "gelu")
    known = {theirs: ours for ours, spelled in SPELLINGS.items() for theirs in spelled}
    if not isinstance(named, str) or named not in known:
        raise FormatError(f"{path}: {form.activation}={named!r}: an encoder here has one of {', '.join(known)}")
    if "mlm" in heads and not form.free_heads and known[named] != "gelu":
        raise FormatError(
            f"{path}: {form.activation}={named!r}: the head of {form.title}ForMaskedLM has gelu all the same, and here "
            "both have one activation"
        )
    return known[named]


# --- heads ----------------------------------------------------------------------------------------------------------


def _heads(path: Path, content: Mapping[str, Any], form: Form, places: Mapping[str, Place]) -> "tuple[HeadName, ...]":
    """Tells the heads by the tensors, and by the class where several have the same names."""
    named = content.get("architectures") or []
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise FormatError(f"{path}: architectures={named!r}: expected a list of names of classes")
    found: list[HeadName] = []
    shared: dict[str, list[HeadName]] = {}
    for head, names in form.heads.items():
        marker = names["weight"] if "weight" in names else f"{names['dense']}.weight"
        if marker in places:
            shared.setdefault(marker, []).append(head)
    for possible in shared.values():
        wanted = [head for head in possible if any(name.endswith(SUFFIXES.get(head, "-")) for name in named)]
        # Without the name of a class, a pooler tells a head for texts from one for tokens.
        pooled = [head for head in possible if head in POOLED and _has_pooler(form, head, places)]
        others = [head for head in possible if head not in POOLED]
        found += (wanted or pooled or others or possible)[:1]
    lacking = [name for name in named for head, end in SUFFIXES.items() if name.endswith(end) and head not in found]
    if lacking:
        _log.warning("%s: names %s, but the folder has no such head; only the encoder is read", path, lacking[0])
    if content.get("problem_type") not in (None, "single_label_classification", "regression"):
        _log.warning("%s: problem_type=%s is not kept; the logits are the same", path, content["problem_type"])
    return tuple(found)


def _has_pooler(form: Form, head: "HeadName", places: Mapping[str, Place]) -> bool:
    pooler = pooler_of(form, (head,))
    return pooler is not None and f"{pooler.name}.weight" in places


def _pooler(
    path: Path, content: Mapping[str, Any], form: Form, heads: "tuple[HeadName, ...]", places: Mapping[str, Place]
) -> str:
    pooler = pooler_of(form, heads)
    needed = any(head in POOLED for head in heads)
    if pooler is None or not (needed or f"{pooler.name}.weight" in places):
        return "none"
    if not pooler.name.startswith("sequence_summary"):
        return pooler.activation
    for key, value in {"summary_type": "first", "summary_use_proj": True}.items():
        if content.get(key, value) != value:
            raise FormatError(f"{path}: {key}={content[key]!r}: an encoder here has {value!r}, nothing else")
    named = content.get("summary_activation", "gelu")
    if named not in ("gelu", "tanh", "relu"):
        raise FormatError(f"{path}: summary_activation={named!r}: an encoder here has gelu, tanh or relu")
    return str(named)


def _labels(
    path: Path,
    content: Mapping[str, Any],
    form: Form,
    heads: "tuple[HeadName, ...]",
    places: Mapping[str, Place],
    width: int,
) -> tuple[str, ...]:
    head = next((head for head in heads if head in ("classification", "token-classification")), None)
    if head is None:
        return ()
    place = places[form.heads[head]["weight"]]
    if len(place.shape) != 2 or place.shape[1] != width:  # so that a file has room for the rows that it claims
        raise FormatError(f"{place.path}: {place.name} has the shape {place.shape}, expected (labels, {width})")
    rows = place.shape[0]
    named, numbered = content.get("id2label"), content.get("label2id")
    if named is None and isinstance(numbered, dict) and {*map(str, numbered.values())} == {*map(str, range(rows))}:
        named = {str(number): name for name, number in numbered.items()}
    if named is None:
        return tuple(f"LABEL_{number}" for number in range(rows))
    if not isinstance(named, dict) or named.keys() != {str(number) for number in range(rows)}:
        raise FormatError(f"{path}: id2label: expected the names of {rows} labels, as the tensors have them")
    labels = {}
    for number in range(rows):
        label = named[str(number)]
        text, shown = str(label), repr(str(label)[:60])
        if not isinstance(label, str | int | float) or not _is_label(text):
            raise FormatError(f"{path}: id2label: {shown} is no label; expected a line of text without tabs")
        if text in labels:
            raise FormatError(f"{path}: id2label: {shown} stands for two labels; expected one each")
        labels[text] = number
    return tuple(labels)


def _is_label(text: str) -> bool:
    """Whether a label is a line of text without tabs, which every file of labels can hold."""
    return text.splitlines() == [text] and bool(text.strip()) and "\t" not in text


# --- written --------------------------------------------------------------------------------------------------------


def written_config(
    form: Form, config: "BertConfig", *, vocab_size: int, architecture: str, roles: Mapping[str, int]
) -> dict[str, Any]:
    """Returns what ``config.json`` says of a model.

    Args:
        form: The family.
        config: The settings.
        vocab_size: V.
        architecture: The class.
        roles: Ids of the tokens for padding and around texts.
    """
    pad_id = roles["pad"]
    values = {
        "vocab_size": vocab_size,
        "hidden_size": config.hidden_size,
        "num_layers": config.num_layers,
        "num_heads": config.num_heads,
        "ffn_size": config.ffn_size or 4 * config.hidden_size,
        "max_length": config.max_length + offset_of(form, pad_id),
        "segments": config.segments or 1,
        "embedding_size": config.embedding_size or config.hidden_size,
    }
    head: dict[str, Any] = {
        "model_type": form.types[0],
        "architectures": [architecture],
        **{key: values[ours] for ours, (key, _) in form.sizes.items()},
        form.activation: SPELLINGS[config.activation][0],
        **{theirs: getattr(config, ours) for ours, theirs in form.rates.items()},
        "initializer_range": 0.02,
        "tie_word_embeddings": config.tied,
        "pad_token_id": pad_id,
        "bos_token_id": roles["cls"],
        "eos_token_id": roles["sep"],
    }
    if form.epsilon is not None:
        head[form.epsilon] = config.epsilon
    if config.task_types:
        head |= {"use_task_id": True, "task_type_vocab_size": config.task_types}
    pooler = pooler_of(form, config.heads)
    if pooler is not None and pooler.name.startswith("sequence_summary"):
        head |= {"summary_type": "first", "summary_use_proj": True, "summary_activation": config.pooler}
    if config.labels:
        if wrong := [label for label in config.labels if not _is_label(label)]:
            raise SettingError(
                f"the label {wrong[0][:60]!r} cannot be exported; a label there is a line of text without tabs"
            )
        head["id2label"] = {str(number): label for number, label in enumerate(config.labels)}
        head["label2id"] = {label: number for number, label in enumerate(config.labels)}
    return head
