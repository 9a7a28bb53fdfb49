"""ONNX files, which ONNX Runtime and other engines run without Python or torch.

A GPT is one graph with caches, a BERT or a labeller of pinyin one with its heads. A translator is two: its encoder, and
of a Transformer its decoder with caches.
"""

import json
import logging
import tempfile
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import Doc

from wenmai.core.errors import SettingError, install_hint
from wenmai.core.folder import writing
from wenmai.formats.format import FINE_TUNED, Format, Trained, is_a
from wenmai.formats.huggingface.encoder_forms import unknown_setting

if TYPE_CHECKING:
    from torch import nn

__all__ = ["FORMATS", "OnnxConfig", "Part", "write_onnx"]

Part = Literal["encoder", "decoder"]
Quantisation = Literal["none", "int8"]
_SETTINGS = ("positions", "buckets", "gated", "shifted")  # beyond those of every export of encoders


@dataclass(frozen=True, kw_only=True, slots=True)
class OnnxConfig:
    """What is written."""

    part: Annotated[
        Part | None,
        Doc(
            "of a translator: its encoder or its decoder; of a bert: encoder leaves out its heads; "
            "none: of a translator the encoder, of a bert all"
        ),
    ] = None
    quantise: Annotated[
        Quantisation, Doc("bert: int8 writes matrices in 8 bits, and multiplies in 8 bits; smaller, and less exact")
    ] = "none"


def write_onnx(
    path: str | Path, model: "nn.Module", *, part: Part | None = None, quantise: Quantisation = "none"
) -> None:
    """Writes a GPT, a BERT, a labeller of pinyin, or a part of a translator, as one ONNX file, whole or not at all.

    Args:
        path: The file.
        model: A :class:`wenmai.models.gpt.Gpt`, :class:`wenmai.models.bert.Bert`,
            :class:`wenmai.nn.labelling.Labeller`, :class:`wenmai.models.transformer.Transformer` or
            :class:`wenmai.models.seq2seq.Seq2Seq`.
        part: Of a translator; none: the encoder. Of a BERT ``encoder`` leaves out its heads.
        quantise: Of a BERT: ``int8`` writes matrices in 8 bits, by the dynamic quantisation of ONNX Runtime.

    Raises:
        SettingError: if the model is of another kind, has no such part, or is larger than such a file may be (2 GiB),
            or the package onnx, or for ``quantise`` onnxruntime, is not installed.
    """
    from wenmai.formats.onnx import contextual, decoders, encoders, labellers
    from wenmai.formats.onnx.graph import Graph
    from wenmai.models.bert import Bert
    from wenmai.models.gpt import Gpt
    from wenmai.models.seq2seq import Seq2Seq
    from wenmai.models.transformer import Transformer
    from wenmai.nn.labelling import Labeller

    if quantise != "none" and not isinstance(model, Bert):
        raise SettingError(f"quantise={quantise} is for bert; leave it out for {type(model).__name__}")
    properties: dict[str, object] = {}
    if isinstance(model, Bert):
        if part == "decoder":
            raise SettingError("a bert has no decoder; leave out part=decoder")
        if (setting := unknown_setting(model.config, _SETTINGS, norms=("post", "pre", "nested"))) is not None:
            raise SettingError(f"there is no ONNX form of a bert with {setting}")
        graph = Graph()
        title, outputs = "bert", contextual.bert(graph, model, heads=part is None)
        properties = {"labels": json.dumps(model.config.labels, ensure_ascii=False)} if model.config.labels else {}
    elif isinstance(model, Gpt):
        if part is not None:
            raise SettingError(f"a gpt is one ONNX file, without parts; leave out part={part}")
        graph = Graph()
        title, outputs, properties = "gpt", decoders.gpt(graph, model), {"bos_token_id": model.bos_id}
    elif isinstance(model, Transformer):
        graph = Graph()
        title = part or "encoder"
        build = decoders.transformer_decoder if title == "decoder" else encoders.transformer_encoder
        outputs = build(graph, model)
    elif isinstance(model, Seq2Seq):
        if part == "decoder":
            raise SettingError("there is no ONNX form of the decoder of seq2seq; part=encoder has one")
        graph = Graph()
        title, outputs = "encoder", encoders.recurrent_encoder(graph, model)
    elif isinstance(model, Labeller):
        if part is not None:
            raise SettingError(f"{model.kind} is one ONNX file, without parts; leave out part={part}")
        graph = Graph()
        title, outputs = model.kind, labellers.labeller(graph, model)
    else:
        raise SettingError(
            f"there is no ONNX form of {type(model).__name__}; gpt, bert, pinyin, transformer and the encoder of "
            "seq2seq have one"
        )
    content = graph.serialised(title, outputs, {"max_length": model.config.max_length, **properties})
    if quantise == "int8":
        content = _quantised(content)
    with writing(path) as file:
        file.write(content)


def _quantised(content: bytes) -> bytes:
    """Returns a graph whose matrices are int8, each column with a scale; activations are quantised as it runs."""
    try:
        quantise = import_module("onnxruntime.quantization").quantize_dynamic
    except ImportError as error:
        raise SettingError(
            f"quantise=int8 needs onnxruntime, which cannot be imported ({error}); {install_hint('onnx')}"
        ) from None
    root, silent = logging.getLogger(), lambda record: record.levelno > logging.WARNING
    with tempfile.TemporaryDirectory() as folder:
        plain, small = Path(folder, "plain.onnx"), Path(folder, "int8.onnx")
        plain.write_bytes(content)
        root.addFilter(silent)  # it advises to fuse nodes first, and names what has no numbers to quantise
        try:
            quantise(plain, small, per_channel=True, nodes_to_exclude=_without_matrix(content))
        finally:
            root.removeFilter(silent)
        return small.read_bytes()


def _without_matrix(content: bytes) -> list[str]:
    """The nodes with a constant that is no matrix of floats: vectors of distances by head, and whole numbers."""
    onnx = import_module("onnx")
    graph = onnx.load_from_string(content).graph
    others = {one.name for one in graph.initializer if len(one.dims) != 2 or one.data_type != onnx.TensorProto.FLOAT}
    return [node.name for node in graph.node if node.op_type in ("Gather", "MatMul") and others & {*node.input}]


def _export(path: Path, run: Trained) -> None:
    settings = run.settings or OnnxConfig()
    model = run.model.module
    if is_a(type(run.model), FINE_TUNED):
        model = run.model.published()
        if "null_threshold" in run.model.numbers:
            run.note(f"{path}: has no place for the threshold of no answer, which is left out")
    write_onnx(path, model, part=settings.part, quantise=settings.quantise)


FORMATS = (
    Format(
        name="onnx",
        summary=(
            "a GPT, a BERT with its heads, a labeller of pinyin, or the encoder or decoder of a translator, as one "
            "ONNX file for ONNX Runtime and other engines"
        ),
        models=(
            FINE_TUNED,
            "wenmai.models.bert:Bert",
            "wenmai.models.gpt:Gpt",
            "wenmai.models.pinyin:Pinyin",
            "wenmai.models.pinyin_letters:PinyinLetters",
            "wenmai.models.seq2seq:Seq2Seq",
            "wenmai.models.transformer:Transformer",
        ),
        write=_export,
        settings=OnnxConfig,
    ),
)
