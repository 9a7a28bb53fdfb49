"""How much of a GPU's arithmetic a training uses."""

import re

import torch
from torch import nn

__all__ = ["flops_share"]

_PEAK = {  # dense bfloat16 products a second, from data sheets, by words of the device's name, the most specific first
    "H200 NVL": 836e12,
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100 NVL": 836e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L40": 181e12,
    "L4": 121e12,
    "RTX 4090": 165e12,
    "A10": 125e12,
}
_FLOAT32_SHARE = 0.5  # TensorFloat-32 runs at half of it


def flops_share(module: nn.Module, tokens_per_second: float, device: torch.device, half: bool) -> float | None:
    """Returns the model FLOPs utilisation, 0 to 1: 6 operations for each parameter and token (Kaplan et al. 2020).

    None on a CPU, or for a GPU whose peak is not known here.
    """
    if device.type != "cuda":
        return None
    words = set(re.split(r"\W+", torch.cuda.get_device_name(device)))
    peak = next((value for known, value in _PEAK.items() if words.issuperset(known.split())), None)
    if peak is None:
        return None
    numbers = sum(parameter.numel() for parameter in module.parameters())
    return 6 * numbers * tokens_per_second / (peak * (1.0 if half else _FLOAT32_SHARE))
