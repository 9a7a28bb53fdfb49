"""RNNLM: a language model that carries a recurrent state along the text.

| what | source |
|---|---|
| h_t = f(x_t, h_{t-1}), P = softmax(W h_t + b) | Mikolov et al. 2010, https://doi.org/10.21437/Interspeech.2010-343 |
| LSTM layers | Sundermeyer, Schlüter, Ney 2012, https://doi.org/10.21437/Interspeech.2012-65 |
| dropout of embeddings, between layers, before the output | Zaremba, Sutskever, Vinyals 2014, arXiv:1409.2329, eq. 7 |
| truncated back-propagation: the state is carried, its gradient is not | the same, section 4.1 |
| output matrix tied to the embeddings | Press, Wolf 2017, https://aclanthology.org/E17-2025 |

The layers are those of :mod:`wenmai.nn.recurrent`. Differs from Zaremba et al.: where ``init_range`` is none, recurrent
matrices begin orthogonal and LSTMs with open forget gates.
"""

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from wenmai.models.settings import RnnlmConfig
from wenmai.nn.dropout import Dropout
from wenmai.nn.language import LanguageState, NextToken, refuse_documents
from wenmai.nn.recurrent import Recurrent
from wenmai.nn.softmax import Softmax

__all__ = ["Rnnlm", "RnnlmConfig", "RnnlmState"]

_EMBEDDING_RANGE = 0.1


class RnnlmState:
    """The state of the layers.

    Args:
        hidden: (L, B, S): the state of each layer; behind an LSTM's hidden state stands its memory cell.
    """

    def __init__(self, hidden: Tensor) -> None:
        self.hidden = hidden

    @property
    def batch_size(self) -> int:
        """Rows."""
        return self.hidden.shape[1]

    def select(self, rows: Tensor) -> None:
        """Replaces the rows by ``rows`` (K,) int64 of them."""
        self.hidden = self.hidden[:, rows]

    def detach(self) -> None:
        """Ends gradients here."""
        self.hidden = self.hidden.detach()

    def tensors(self) -> dict[str, Tensor]:
        """Returns the states of the layers."""
        return {"hidden": self.hidden}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Becomes the state whose :meth:`tensors` these are.

        Raises:
            ValueError: if they are of another model.
        """
        layers, _, size = self.hidden.shape
        hidden = tensors.get("hidden")
        if hidden is None or len(tensors) > 1 or hidden.dim() != 3 or hidden.shape[::2] != (layers, size):
            raise ValueError(f"a state of {layers} layers of {size} was expected, not one of {', '.join(tensors)}")
        self.hidden = hidden


class Rnnlm(NextToken):
    """The recurrent language model.

    Args:
        config: Layers.
        vocab_size: V.
        bos_id: BOS, before every text.
    """

    kind: ClassVar[str] = "rnnlm"
    config_class: ClassVar[type] = RnnlmConfig
    stateful: ClassVar[bool] = True
    masks_documents: ClassVar[bool] = False
    layered: ClassVar[bool] = True

    def __init__(self, config: RnnlmConfig, *, vocab_size: int, bos_id: int) -> None:
        super().__init__(vocab_size=vocab_size, bos_id=bos_id)
        self.config = config
        embedding_size = config.embedding_size or config.hidden_size
        self.embedding = nn.Embedding(vocab_size, embedding_size)
        self.layers = Recurrent(
            config.cell,
            input_size=embedding_size,
            hidden_size=config.hidden_size,
            num_layers=config.num_layers,
            dropout=config.dropout,
        )
        tied_to = self.embedding if config.tied else None
        self.output = Softmax(vocab_size, config.hidden_size, bias=True, tied_to=tied_to)
        self.dropout = Dropout(config.dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform in ±init_range (Zaremba et al. 2014, section 4.1), or the default of each part."""
        nn.init.uniform_(self.embedding.weight, -_EMBEDDING_RANGE, _EMBEDDING_RANGE)
        if self.config.init_range is not None:
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -self.config.init_range, self.config.init_range)

    def start(self, batch_size: int, *, capacity: int | None = None) -> RnnlmState:
        """Returns the initial state: zeros."""
        weight = self.embedding.weight
        return RnnlmState(weight.new_zeros(self.config.num_layers, batch_size, self.layers.state_size))

    def forward(self, tokens: Tensor, state: LanguageState | None = None, *, documents: Tensor | None = None) -> Tensor:
        """Returns the states (B, T, M) of the last layer."""
        refuse_documents(self, documents)
        state = self.start(tokens.shape[0]) if state is None else state
        assert isinstance(state, RnnlmState)
        state.detach()
        words = self.dropout(F.embedding(tokens, self.embedding.weight))
        outputs, state.hidden = self.layers(words, state=state.hidden)
        hidden: Tensor = self.dropout(outputs)
        return hidden

    @property
    def state_size(self) -> int:
        """M, that of the layers or of the embeddings, whichever is larger."""
        return int(max(self.config.hidden_size, self.embedding.embedding_dim))

    def hidden_states(self, tokens: Tensor) -> list[Tensor]:
        """Returns the embeddings and the states of each layer, (B, T, M); narrower ones are filled up with zeros."""
        words = F.embedding(tokens, self.embedding.weight)
        return [F.pad(one, (0, self.state_size - one.shape[2])) for one in (words, *self.layers.by_layer(words))]
