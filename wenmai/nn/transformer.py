"""Encoder and decoder layers of the Transformer and their stacks (Vaswani et al. 2017, figure 1)."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.nn.biases import Structure
from wenmai.nn.cache import DecoderCache, KeyValue
from wenmai.nn.dropout import dropout
from wenmai.nn.linear import Linear
from wenmai.nn.masks import Mask
from wenmai.nn.multihead import MultiHead, rows_at
from wenmai.nn.names import ActivationName
from wenmai.nn.unpadded import Unpadded, unpadded

__all__ = [
    "ACTIVATIONS",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "GatedFeedForward",
    "NestedNorm",
    "NormName",
    "PostNorm",
    "PreNorm",
]

NormName = Literal["post", "pre", "nested"]

_EPSILON = 1e-6
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}
"""The functions of feed-forward networks, by name."""


class FeedForward(nn.Module):
    """f(x W_1 + b_1) W_2 + b_2 at each position (Vaswani et al. 2017, eq. 2).

    Args:
        hidden_size: M.
        ffn_size: F.
        activation: f; ``gelu_tanh`` is GPT's form of gelu, x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
        dropout: Of the output of f, while training.
    """

    def __init__(
        self, hidden_size: int, ffn_size: int, *, activation: ActivationName = "relu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.dropout = dropout
        self.inner = Linear(hidden_size, ffn_size)
        self.outer = Linear(ffn_size, hidden_size)
        for linear in (self.inner, self.outer):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns (..., M) of (..., M)."""
        inner = self.activation(self.inner(hidden))  # (..., F)
        if self.training and self.dropout:
            inner = dropout(inner, self.dropout)
        outer: Tensor = self.outer(inner)
        return outer


class GatedFeedForward(nn.Module):
    """LN(f(x W_g) ⊙ x W_1) W_2 at each position (Shazeer 2020, eq. 6), with the inner norm of NormFormer.

    Args:
        hidden_size: M.
        ffn_size: F.
        activation: f; with ``gelu_tanh`` this is GEGLU.
        epsilon: Of the layer norm.
    """

    def __init__(self, hidden_size: int, ffn_size: int, *, activation: ActivationName, epsilon: float) -> None:
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.inner = Linear(hidden_size, 2 * ffn_size, bias=False)
        self.norm = nn.LayerNorm(ffn_size, eps=epsilon, elementwise_affine=False)
        self.outer = Linear(ffn_size, hidden_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """Returns (..., M) of (..., M)."""
        inner, gate = self.inner(hidden).chunk(2, -1)
        outer: Tensor = self.outer(self.norm(inner * self.activation(gate)))
        return outer


class PostNorm(nn.Module):
    """LN(x + dropout(f(x))): the paper's order. Diverges without warm-up."""

    def __init__(self, hidden_size: int, *, dropout: float = 0.0, epsilon: float = _EPSILON) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size, eps=epsilon)
        self.dropout = dropout

    def forward(self, hidden: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Returns (B, T, M) of (B, T, M)."""
        return self.add(hidden, sublayer(self.inputs(hidden)))

    def inputs(self, hidden: Tensor) -> Tensor:
        """Returns the input of the sub-layer."""
        return hidden

    def add(self, hidden: Tensor, output: Tensor) -> Tensor:
        """Returns (B, T, M) of what went in and what the sub-layer made of it, (B, T, M) each."""
        if self.training and self.dropout:
            output = dropout(output, self.dropout)
        normed: Tensor = self.norm(hidden + output)
        return normed


class PreNorm(PostNorm):
    """x + dropout(f(LN(x))): Tensor2Tensor's later order; a stack of it ends with one more LN."""

    def inputs(self, hidden: Tensor) -> Tensor:
        """Returns the input of the sub-layer: normed."""
        normed: Tensor = self.norm(hidden)
        return normed

    def add(self, hidden: Tensor, output: Tensor) -> Tensor:
        """Returns (B, T, M) of what went in and what the sub-layer made of it, (B, T, M) each."""
        return hidden + (dropout(output, self.dropout) if self.training and self.dropout else output)


class NestedNorm(PreNorm):
    """x + dropout(LN(f(LN(x)))): a norm before the sub-layer, and one behind it (NormFormer; Shleifer et al. 2021)."""

    def __init__(self, hidden_size: int, *, dropout: float = 0.0, epsilon: float = _EPSILON) -> None:
        super().__init__(hidden_size, dropout=dropout, epsilon=epsilon)
        self.after = nn.LayerNorm(hidden_size, eps=epsilon)

    def add(self, hidden: Tensor, output: Tensor) -> Tensor:
        """Returns (B, T, M) of what went in and what the sub-layer made of it, (B, T, M) each."""
        return super().add(hidden, self.after(output))


_RESIDUALS: dict[NormName, type[PostNorm]] = {"post": PostNorm, "pre": PreNorm, "nested": NestedNorm}


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward; with a causal mask, the layer of a decoder without a memory.

    Args:
        attention: Over the sequence itself.
        ffn: The feed-forward network; a gated one has its second norm inside.
        norm: Position of the layer norm.
        dropout: Of the outputs of sub-layers, while training.
        epsilon: Of the layer norms.
    """

    def __init__(
        self,
        attention: MultiHead,
        ffn: FeedForward | GatedFeedForward,
        *,
        norm: NormName,
        dropout: float,
        epsilon: float = _EPSILON,
    ) -> None:
        super().__init__()
        residual = _RESIDUALS[norm]
        self.attention = attention
        self.attention_residual = residual(attention.hidden_size, dropout=dropout, epsilon=epsilon)
        self.ffn = ffn
        residual = PreNorm if isinstance(ffn, GatedFeedForward) and norm == "nested" else residual
        self.ffn_residual = residual(attention.hidden_size, dropout=dropout, epsilon=epsilon)

    def forward(
        self,
        hidden: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        structure: Structure | None = None,
        cache: KeyValue | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Runs the layer.

        Args:
            hidden: (B, T, M).
            memory: (B, S - T, M), the layer's inputs at earlier positions, where no cache holds them.
            mask: Over all S positions.
            structure: Of the S positions, for the bias of attention.
            cache: Of earlier positions; continued.
            places: (B, K) int64, the positions whose outputs are wanted; None: all.

        Returns:
            (B, T, M), or (B, K, M).
        """
        if places is not None:
            return self._at(hidden, places, mask, structure)
        if memory is not None:
            memory = self.attention_residual.inputs(memory)
        hidden = self.attention_residual(
            hidden, lambda x: self.attention(x, memory, mask=mask, structure=structure, cache=cache)
        )
        output: Tensor = self.ffn_residual(hidden, self.ffn)
        return output

    def _at(self, hidden: Tensor, places: Tensor, mask: Mask | Tensor | None, structure: Structure | None) -> Tensor:
        read = self.attention_residual.inputs(hidden)
        attended = self.attention(read, mask=mask, structure=structure, places=places)
        wanted = self.attention_residual.add(rows_at(hidden, places), attended)
        output: Tensor = self.ffn_residual(wanted, self.ffn)
        return output

    def project_memory(self, memory: Tensor) -> Tensor:
        """Returns keys and values (2, B, H, S, D) of the layer's inputs at earlier positions, (B, S, M)."""
        return self.attention.project_memory(self.attention_residual.inputs(memory))

    def parts(self) -> list[tuple[Tensor, Tensor | None, Tensor, Tensor | None, Tensor, Tensor]]:
        """Returns the parameters of self-attention and of the feed-forward network, as :class:`DecoderLayer` does."""
        return [
            _chain(self.attention.qkv, self.attention.output, self.attention_residual),
            _chain(self.ffn.inner, self.ffn.outer, self.ffn_residual),
        ]


class DecoderLayer(nn.Module):
    """Causal self-attention, attention over the memory, then feed-forward.

    Args:
        attention: Over the sequence itself.
        memory_attention: Over the encoder's output.
        ffn: The feed-forward network.
        norm: Position of the layer norm.
        dropout: Of the outputs of sub-layers, while training.
    """

    def __init__(
        self, attention: MultiHead, memory_attention: MultiHead, ffn: FeedForward, *, norm: NormName, dropout: float
    ) -> None:
        super().__init__()
        residual = _RESIDUALS[norm]
        self.attention = attention
        self.attention_residual = residual(attention.hidden_size, dropout=dropout)
        self.memory_attention = memory_attention
        self.memory_residual = residual(attention.hidden_size, dropout=dropout)
        self.ffn = ffn
        self.ffn_residual = residual(attention.hidden_size, dropout=dropout)

    def forward(
        self,
        hidden: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        memory_mask: Mask | Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """Returns (B, T, M) of (B, T, M); ``memory`` (B, S, M) is not needed where a cache holds its projections."""
        own, kept = (None, None) if cache is None else (cache.own, cache.memory)
        hidden = self.attention_residual(hidden, lambda x: self.attention(x, mask=mask, cache=own))
        hidden = self.memory_residual(hidden, lambda x: self.memory_attention(x, memory, mask=memory_mask, cache=kept))
        output: Tensor = self.ffn_residual(hidden, self.ffn)
        return output

    def parts(self) -> list[tuple[Tensor, Tensor | None, Tensor, Tensor | None, Tensor, Tensor]]:
        """Returns the parameters of self-attention, of attention over the memory, and of the feed-forward network.

        Each is: weight and bias of the first product, of the last, and of the layer norm.
        """
        return [
            _chain(self.attention.qkv, self.attention.output, self.attention_residual),
            _chain(self.memory_attention.query, self.memory_attention.output, self.memory_residual),
            _chain(self.ffn.inner, self.ffn.outer, self.ffn_residual),
        ]


def _chain(
    first: Linear, last: Linear, residual: PostNorm
) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None, Tensor, Tensor]:
    norm = residual.norm
    return first.weight, first.bias, last.weight, last.bias, norm.weight, norm.bias


def _final_norm(layers: nn.ModuleList, hidden_size: int, epsilon: float = _EPSILON) -> nn.Module:
    """The layer norm that ends a stack of pre-norm layers; a post-norm layer ends with its own."""
    pre = any(isinstance(module, PreNorm) for module in layers.modules())
    return nn.LayerNorm(hidden_size, eps=epsilon) if pre else nn.Identity()


class Encoder(nn.Module):
    """A stack of encoder layers."""

    def __init__(self, layers: Iterable[EncoderLayer], *, hidden_size: int, epsilon: float = _EPSILON) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = _final_norm(self.layers, hidden_size, epsilon)

    def forward(
        self,
        hidden: Tensor,
        *,
        mask: Mask | Tensor | None = None,
        structure: Structure | None = None,
        caches: Sequence[KeyValue] | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Returns (B, S, M) of (B, S, M), or (B, K, M) at some positions.

        Args:
            hidden: The embedded sequence.
            mask: Which positions attend to which, in every layer.
            structure: Of the sequence, for the biases of all layers.
            caches: One for each layer, which are appended to.
            places: (B, K) int64, the positions whose outputs are wanted: the last layer leaves out the others.
        """
        layers, texts = list(self.layers), self._unpadded(hidden, mask) if caches is None else None
        if texts is not None:
            row, rest = texts.joined(hidden), len(layers) - (places is not None)  # places are those of a padded batch
            for layer in layers[:rest]:
                row = layer(row, mask=texts.mask)
            hidden, layers = texts.padded(row), layers[rest:]
        for index, layer in enumerate(layers):
            cache = None if caches is None else caches[index]
            wanted = places if index == len(layers) - 1 else None
            hidden = layer(hidden, mask=mask, structure=structure, cache=cache, places=wanted)
        output: Tensor = self.norm(hidden)
        return output

    def states(
        self, hidden: Tensor, *, mask: Mask | Tensor | None = None, structure: Structure | None = None
    ) -> list[Tensor]:
        """Returns what the first layer reads and what each layer makes of it, (B, S, M) each; arguments as above."""
        found, texts = [hidden], self._unpadded(hidden, mask)
        if texts is not None:
            hidden, mask = texts.joined(hidden), texts.mask
        for layer in self.layers:
            hidden = layer(hidden, mask=mask, structure=structure)
            found.append(hidden if texts is None else texts.padded(hidden))
        found[-1] = self.norm(found[-1])
        return found

    @property
    def unpads(self) -> bool:
        """Whether attention depends on nothing but the text, so that the texts of a batch may be side by side."""
        attentions = [layer.attention for layer in self.layers if isinstance(layer, EncoderLayer)]
        plain = [one.relative is None and one.window is None for one in attentions]
        return len(plain) == len(self.layers) and all(plain)

    def _unpadded(self, hidden: Tensor, mask: Mask | Tensor | None) -> Unpadded | None:
        return unpadded(hidden, mask) if not self.training and self.unpads else None


class Decoder(nn.Module):
    """A stack of decoder layers."""

    def __init__(self, layers: Iterable[DecoderLayer], *, hidden_size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = _final_norm(self.layers, hidden_size)

    def forward(
        self,
        hidden: Tensor,
        memory: Tensor | None = None,
        *,
        mask: Mask | Tensor | None = None,
        memory_mask: Mask | Tensor | None = None,
        caches: Sequence[DecoderCache] | None = None,
    ) -> Tensor:
        """Returns (B, T, M) of (B, T, M); ``caches``, one for each layer, are appended to."""
        for index, layer in enumerate(self.layers):
            cache = None if caches is None else caches[index]
            hidden = layer(hidden, memory, mask=mask, memory_mask=memory_mask, cache=cache)
        output: Tensor = self.norm(hidden)
        return output
