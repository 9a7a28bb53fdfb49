"""Transformers, GPTs and BERTs for CTranslate2, an engine without Python and torch, in float32 or int8.

The export is a folder that ``ctranslate2.Translator(folder)``, of a GPT ``ctranslate2.Generator(folder)``, or of a BERT
``ctranslate2.Encoder(folder)``, opens: ``model.bin``, ``config.json``, the vocabularies, and beside them the
tokenizers, which the engine does not need but its user does.

| of ours | what the engine gets |
|---|---|
| √M·E[x] | ``scale_embeddings`` |
| EOS of the sources, BOS of the targets | ``add_source_eos``, ``decoder_start_token`` |
| sinusoids in the paper's layout | a table, since its own are in Tensor2Tensor's; of zeros for no positions |
| Shaw et al. 2018, eq. 3 and 4 | ``relative_position_keys`` and ``relative_position_values``, scaled by 1/√D as here |
| the attention of a step: mean over the heads of the last layer | ``alignment_layer`` -1, ``alignment_heads`` 0 (all) |
| of a BERT: vectors of segments | ``embeddings`` 1, which are added; one alone, or a task's, is added to positions |
| of a BERT: its heads | nothing; it returns states and the vector of the pooler |

Source: the specifications in the package ``ctranslate2.specs``; https://opennmt.net/CTranslate2/.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wenmai.core.errors import SettingError, install_hint
from wenmai.core.folder import sealed_folder, writing_json
from wenmai.formats.format import Format, Trained, require_free
from wenmai.formats.huggingface.bert import framed_tokenizer
from wenmai.formats.huggingface.encoder_forms import unknown_setting

if TYPE_CHECKING:
    from torch import Tensor, nn

    from wenmai.models.bert import Bert
    from wenmai.models.gpt import Gpt
    from wenmai.models.transformer import Transformer
    from wenmai.nn.embeddings import Positions
    from wenmai.nn.multihead import MultiHead
    from wenmai.nn.names import ActivationName
    from wenmai.nn.transformer import DecoderLayer, EncoderLayer, FeedForward, GatedFeedForward
    from wenmai.text.tokenizer import Tokenizer

__all__ = ["FORMATS", "write_ctranslate2", "write_encoder", "write_generator"]

_LONGEST = 1024  # tokens of a source that the engine reads by default: so many positions are written at least


def write_ctranslate2(folder: str | Path, model: "nn.Module", *, source: "Tokenizer", target: "Tokenizer") -> None:
    """Writes a Transformer as a folder for CTranslate2, whole or not at all.

    Args:
        folder: Where; it must not exist, or be empty.
        model: A :class:`wenmai.models.transformer.Transformer` without ``window``.
        source: Tokenizer of the source.
        target: Tokenizer of the target; the same object where they are joint.

    Raises:
        SettingError: if the engine has no such model, or the package is not installed.
        RunError: if the folder is not empty.
    """
    transformer = _expressible(model)
    specs = _specifications()
    folder = require_free(folder)
    spec = _filled(specs, transformer)
    for tokenizer, register in (
        (source, spec.register_source_vocabulary),
        (target, spec.register_target_vocabulary),
    ):
        tokenizer.require_portable()
        register([tokenizer.token(number) for number in range(tokenizer.vocab_size)])
    spec.config.bos_token = spec.config.decoder_start_token = target.token(target.bos_id)
    spec.config.eos_token = target.token(target.eos_id)
    spec.config.unk_token = target.token(target.unk_id)
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = transformer.decoder.layers[0].ffn_residual.norm.eps  # type: ignore[union-attr]
    spec.validate()
    spec.optimize()  # a matrix that is used twice is written once
    with sealed_folder(folder, replace=False) as temporary:
        spec.save(str(temporary))
        if source is target:
            source.save(temporary / "tokenizer.json")
        else:
            source.save(temporary / "source-tokenizer.json")
            target.save(temporary / "target-tokenizer.json")


def write_generator(folder: str | Path, model: "nn.Module", tokenizer: "Tokenizer") -> None:
    """Writes a GPT as a folder for CTranslate2, whole or not at all.

    Args:
        folder: Where; it must not exist, or be empty.
        model: A :class:`wenmai.models.gpt.Gpt` with ``norm=pre`` and without ``window``.
        tokenizer: Its tokenizer; EOS stands before every text.

    Raises:
        SettingError: if the engine has no such model, or the package is not installed.
        RunError: if the folder is not empty.
    """
    gpt = _expressible_gpt(model)
    specs = _specifications()
    folder = require_free(folder)
    spec = _filled_gpt(specs, gpt)
    spec.register_vocabulary(_tokens(tokenizer, gpt.vocab_size))
    spec.config.bos_token = spec.config.eos_token = tokenizer.token(tokenizer.eos_id)
    spec.config.unk_token = tokenizer.token(tokenizer.unk_id)
    spec.config.layer_norm_epsilon = gpt.decoder.norm.eps
    spec.validate()
    spec.optimize()
    with sealed_folder(folder, replace=False) as temporary:
        spec.save(str(temporary))
        tokenizer.save(temporary / "tokenizer.json")


def write_encoder(folder: str | Path, model: "nn.Module", tokenizer: "Tokenizer") -> None:
    """Writes a BERT as a folder for CTranslate2, whole or not at all; its heads are left out.

    Args:
        folder: Where; it must not exist, or be empty.
        model: A :class:`wenmai.models.bert.Bert` whose embeddings are as wide as its layers.
        tokenizer: Its tokenizer; the one that is written puts the special tokens around texts.

    Raises:
        SettingError: if the engine has no such model, or the package is not installed.
        RunError: if the folder is not empty.
    """
    bert = _expressible_bert(model)
    specs = _specifications()
    folder = require_free(folder)
    spec = _filled_bert(specs, bert)
    spec.register_vocabulary(_tokens(tokenizer, bert.vocab_size))
    spec.config.unk_token = tokenizer.token(tokenizer.unk_id)
    spec.config.layer_norm_epsilon = bert.config.epsilon
    spec.validate()
    spec.optimize()
    with sealed_folder(folder, replace=False) as temporary:
        spec.save(str(temporary))
        framed = framed_tokenizer(tokenizer, segments=bert.config.segments)
        writing_json(temporary / "tokenizer.json", framed)


def _tokens(tokenizer: "Tokenizer", vocab_size: int) -> list[str]:
    """The names of all rows of a table."""
    tokenizer.require_portable()
    return [
        f"<unused{number}>"
        if number >= tokenizer.vocab_size or number in tokenizer.nameless
        else tokenizer.token(number)
        for number in range(vocab_size)
    ]


def _expressible_bert(model: "nn.Module") -> "Bert":
    """Returns the model if the engine has such models."""
    from wenmai.models.bert import Bert

    if not isinstance(model, Bert):
        raise SettingError(f"CTranslate2 has no {type(model).__name__} models; it takes Transformers, GPTs and BERTs")
    if (setting := unknown_setting(model.config)) is not None:
        raise SettingError(f"CTranslate2 has no BERT with {setting}; onnx takes more settings")
    if model.projection is not None:
        raise SettingError(
            f"CTranslate2 has no BERT with embedding_size={model.config.embedding_size} beside "
            f"hidden_size={model.config.hidden_size}; only those of one size can be exported"
        )
    return model


def _filled_bert(specs: Any, model: "Bert") -> Any:  # noqa: ANN401
    config = model.config
    common = import_module("ctranslate2.specs.common_spec")
    several = config.segments > 1
    described = import_module("ctranslate2.specs.transformer_spec").TransformerEncoderSpec(
        config.num_layers,
        config.num_heads,
        pre_norm=config.norm == "pre",
        activation=_activation(config.activation),
        layernorm_embedding=True,
        num_source_embeddings=2 if several else 1,
        embeddings_merge=common.EmbeddingsMerge.ADD,
    )
    pooling = {"pooling_layer": model.pooler is not None}
    if model.pooler is not None:
        pooling["pooling_activation"] = (
            common.Activation.Tanh if config.pooler == "tanh" else _activation(config.pooler)  # type: ignore[arg-type]
        )
    spec = specs.TransformerEncoderModelSpec(described, **pooling)
    described.scale_embeddings = False
    described.embeddings[0].weight = _numbers(model.embedding.weight)
    assert model.positions is not None
    positions = _numbers(model.positions.weight)
    if several and model.segments is not None:
        described.embeddings[1].weight = _numbers(model.segments.weight)
    elif model.segments is not None:
        positions = positions + _numbers(model.segments.weight)
    if model.task_types is not None:
        positions = positions + _numbers(model.task_types.weight[:1])
    described.position_encodings.encodings = positions
    _fill_norm(described.layernorm_embedding, model.embeddings.norm)
    if config.norm == "pre":
        _fill_norm(described.layer_norm, model.encoder.norm)
    for target, layer in zip(described.layer, model.encoder.layers, strict=True):
        _fill_common(target, layer)  # type: ignore[arg-type]
    if model.pooler is not None:
        _fill_linear(spec.pooler_dense, model.pooler)
    return spec


def _expressible_gpt(model: "nn.Module") -> "Gpt":
    """Returns the model if the engine has such models."""
    from wenmai.models.gpt import Gpt

    if not isinstance(model, Gpt):
        raise SettingError(f"CTranslate2 has no {type(model).__name__} models; it takes Transformers, GPTs and BERTs")
    if model.config.norm == "post":
        raise SettingError("CTranslate2 has no GPT with norm=post (GPT-1); only those with norm=pre can be exported")
    _refuse_window(model.config.window)
    return model


def _activation(name: "ActivationName") -> Any:  # noqa: ANN401
    """The engine's number of an activation."""
    names = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "silu": "SWISH"}
    return import_module("ctranslate2.specs.common_spec").Activation[names[name]]


def _filled_gpt(specs: Any, model: "Gpt") -> Any:  # noqa: ANN401  of a package without types
    spec = specs.TransformerDecoderModelSpec.from_config(
        model.config.num_layers, model.config.num_heads, pre_norm=True, activation=_activation(model.config.activation)
    )
    described = spec.decoder
    described.scale_embeddings = False
    described.embeddings.weight = _numbers(model.embedding.weight)
    described.projection.weight = _numbers(model.output.weight)
    described.position_encodings.encodings = _numbers(model.positions.weight)
    _fill_norm(described.layer_norm, model.decoder.norm)
    for target, layer in zip(described.layer, model.decoder.layers, strict=True):
        _fill_common(target, layer)  # type: ignore[arg-type]
    return spec


def _expressible(model: "nn.Module") -> "Transformer":
    """Returns the model if the engine has such models."""
    from wenmai.models.transformer import Transformer

    if not isinstance(model, Transformer):
        raise SettingError(f"CTranslate2 has no {type(model).__name__} models; it takes Transformers, GPTs and BERTs")
    _refuse_window(model.config.window)
    return model


def _refuse_window(window: int | None) -> None:
    if window is not None:
        raise SettingError(
            f"CTranslate2 cannot restrict attention as window={window} does; only models with window=none can be "
            "exported"
        )


def _specifications() -> Any:  # noqa: ANN401  a package without types
    try:
        return import_module("ctranslate2.specs")
    except ImportError as error:
        raise SettingError(
            f"this format needs ctranslate2, which cannot be imported ({error}); {install_hint('ctranslate2')}"
        ) from None


def _filled(specs: Any, model: "Transformer") -> Any:  # noqa: ANN401
    """Returns the engine's description of a model, filled with its parameters."""
    config = model.config
    spec = specs.TransformerSpec.from_config(
        (len(model.encoder.layers), len(model.decoder.layers)),
        config.num_heads,
        with_relative_position=config.positions == "shaw",
        pre_norm=config.norm == "pre",
        activation=_activation(config.activation),
        alignment_layer=-1,
        alignment_heads=0,
    )
    table = _numbers(model.embedding)
    source = model.source_embedding
    spec.encoder.embeddings[0].weight = table if source is None else _numbers(source)
    spec.decoder.embeddings.weight = table
    spec.decoder.projection.weight = table
    if config.positions != "shaw":
        spec.encoder.position_encodings.encodings = _positions(model, model.source_positions)
        spec.decoder.position_encodings.encodings = _positions(model, model.target_positions)
    if config.norm == "pre":
        _fill_norm(spec.encoder.layer_norm, model.encoder.norm)
        _fill_norm(spec.decoder.layer_norm, model.decoder.norm)
    for described, layer in zip(spec.encoder.layer, model.encoder.layers, strict=True):
        _fill_common(described, layer)  # type: ignore[arg-type]
    for described, layer in zip(spec.decoder.layer, model.decoder.layers, strict=True):
        _fill_common(described, layer)  # type: ignore[arg-type]
        _fill_attention(described.attention, layer.memory_attention)  # type: ignore[arg-type]
        _fill_norm(described.attention.layer_norm, layer.memory_residual.norm)
    return spec


def _positions(model: "Transformer", positions: "Positions") -> NDArray[np.float32]:
    """The vectors of the first positions, (length, M): all that were learned, or as many as the engine may ask for."""
    config = model.config
    longest = config.max_length if config.positions == "learned" else max(config.max_length, _LONGEST)
    table = positions(0, longest)
    return np.zeros((longest, config.hidden_size), np.float32) if table is None else _numbers(table)


def _fill_common(described: Any, layer: "EncoderLayer | DecoderLayer") -> None:  # noqa: ANN401
    """What the layers of encoder and decoder have in common."""
    _fill_attention(described.self_attention, layer.attention)
    _fill_norm(described.self_attention.layer_norm, layer.attention_residual.norm)
    _fill_feed_forward(described.ffn, layer.ffn)
    _fill_norm(described.ffn.layer_norm, layer.ffn_residual.norm)


def _fill_attention(described: Any, attention: "MultiHead") -> None:  # noqa: ANN401
    """Self-attention: [query, key, value], output; over a memory: query, [key, value], output."""
    from wenmai.nn.biases import ShawRelative

    inner = [attention.query, attention.memory] if attention.over_memory else [attention.qkv]
    for target, linear in zip(described.linear, [*inner, attention.output], strict=True):
        _fill_linear(target, linear)
    if isinstance(attention.relative, ShawRelative):
        described.relative_position_keys = _numbers(attention.relative.keys[0])  # (2k+1, D), one for all heads
        described.relative_position_values = _numbers(attention.relative.values[0])


def _fill_feed_forward(described: Any, ffn: "FeedForward | GatedFeedForward") -> None:  # noqa: ANN401
    _fill_linear(described.linear_0, ffn.inner)
    _fill_linear(described.linear_1, ffn.outer)


def _fill_linear(described: Any, linear: Any) -> None:  # noqa: ANN401
    described.weight = _numbers(linear.weight)
    if linear.bias is not None:
        described.bias = _numbers(linear.bias)


def _fill_norm(described: Any, norm: Any) -> None:  # noqa: ANN401
    described.gamma, described.beta = _numbers(norm.weight), _numbers(norm.bias)


def _numbers(tensor: "Tensor") -> NDArray[np.float32]:
    return np.ascontiguousarray(tensor.detach().float().cpu().numpy())


def _export(path: Path, run: Trained) -> None:
    from wenmai.models.bert import Bert  # torch takes time to import
    from wenmai.models.gpt import Gpt

    module = run.model.module
    if isinstance(module, Bert):
        write_encoder(path, module, run.model.tokenizer)
        if heads := module.config.heads:
            run.note(f"{path}: CTranslate2 has no heads of encoders; {', '.join(heads)} is left out")
    elif isinstance(module, Gpt):
        write_generator(path, module, run.model.tokenizer)
    else:
        write_ctranslate2(path, module, source=run.model.source, target=run.model.target)


FORMATS = (
    Format(
        name="ctranslate2",
        summary=(
            "a folder for CTranslate2, which translates with Transformers, generates with GPTs or encodes with BERTs, "
            "in int8 too"
        ),
        models=("wenmai.models.transformer:Transformer", "wenmai.models.gpt:Gpt", "wenmai.models.bert:Bert"),
        write=_export,
    ),
)
