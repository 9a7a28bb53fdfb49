"""What masked language models say of texts: pseudo-log-likelihoods, and what could stand at a mask.

Salazar, Liang, Nguyen, Kirchhoff, "Masked Language Model Scoring", ACL 2020, https://aclanthology.org/2020.acl-main.240:
PLL(W) = Σ_t log P(w_t | W without w_t), each token masked in turn (equation 1). It is not the logarithm of a
probability of W.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wenmai.core.errors import SettingError
from wenmai.core.tensors import require_numbers
from wenmai.inference.framing import Framer, centred, joined
from wenmai.nn.encoder import TextEncoder, predicting

__all__ = ["mask_probabilities", "pseudo_log_probs", "require_predictions"]

Scores = npt.NDArray[np.float64]


def require_predictions(module: TextEncoder) -> Any:  # noqa: ANN401  a head with `transform` and `output`
    """Returns the head that predicts tokens.

    Raises:
        SettingError: if the encoder has none.
    """
    if "mlm" not in module.heads:
        has = ", ".join(module.heads) or "no head"
        raise SettingError(f"the encoder does not predict tokens (heads: {has}); it can embed, but not score or fill")
    return module.heads["mlm"]


def pseudo_log_probs(
    module: TextEncoder, framer: Framer, rows: Sequence[Sequence[int]], *, mask_id: int
) -> list[Scores]:
    """Returns log P of each token given all others of its text.

    Of a text that is longer than the model reads, each token is predicted from a window with as many tokens on both
    sides of it, or with more on one side near an end of the text.

    Args:
        module: The network, in evaluation mode.
        framer: Makes its rows.
        rows: Texts as tokens, without special ones.
        mask_id: The token that hides another one.

    Returns:
        Natural logarithms, (T,) float64 for each text.
    """
    head = require_predictions(module)
    tokens, starts, sizes = joined(rows)
    text = np.repeat(np.arange(len(rows)), sizes)
    place = np.arange(len(tokens)) - starts[text]
    begins, widths = centred(place, sizes[text], framer.room)
    found = np.zeros(len(tokens))
    with torch.inference_mode():
        for batch in framer.batches(tokens, starts[text] + begins, widths):
            hidden_at = 1 + (place - begins)[batch.rows]
            batch.ids[np.arange(len(hidden_at)), hidden_at] = mask_id
            states = _states_at(module, batch.fed(module.device), hidden_at[:, None])[:, 0]  # (B, M)
            targets = torch.from_numpy(tokens[batch.rows].astype(np.int64)).to(module.device)
            log_probs = head.output.target_log_probs(head.transform(states), targets)
            found[batch.rows] = log_probs.cpu().double().numpy()
    require_numbers(not np.isnan(found).any())
    return np.split(found, np.cumsum(sizes)[:-1]) if len(rows) else []


def mask_probabilities(module: TextEncoder, framer: Framer, row: Sequence[int], places: Sequence[int]) -> Tensor:
    """Returns the probabilities of tokens at some places of a text, (K, V) float64.

    Args:
        module: The network, in evaluation mode.
        framer: Makes its rows.
        row: The text as tokens, some of which are the mask.
        places: The K places.
    """
    head = require_predictions(module)
    tokens = np.array(row, np.int32)
    wanted = np.array(places, np.int64)
    fits = len(row) <= framer.room  # one row for all masks
    centres = wanted[:1] if fits else wanted
    begins, widths = centred(centres, np.full(len(centres), len(row)), framer.room)
    found = torch.zeros(len(wanted), module.vocab_size, dtype=torch.float64)
    with torch.inference_mode():
        for batch in framer.batches(tokens, begins, widths):
            at = 1 + (wanted[None] if fits else (wanted - begins)[batch.rows, None])  # (B, K)
            states = _states_at(module, batch.fed(module.device), at).flatten(0, 1)
            masks = np.arange(len(wanted)) if fits else batch.rows
            found[torch.from_numpy(masks)] = head(states).double().softmax(-1).cpu()
    require_numbers(not bool(found.isnan().any()))
    return found


def _states_at(module: TextEncoder, fed: tuple[Tensor, Tensor | None], places: npt.NDArray[np.int64]) -> Tensor:
    """Returns the states (B, K, M) that tokens at places (B, K) are predicted from."""
    tokens, mask = fed
    wanted = predicting(torch.from_numpy(places), shifted=module.config.shifted)
    hidden: Tensor = module(tokens, mask=mask, places=wanted.to(tokens.device))
    return hidden
