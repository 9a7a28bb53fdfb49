"""The share of a GPU's arithmetic follows from its name, the parameters and the speed."""

import pytest
import torch
from torch import nn

from wenmai.training.utilisation import flops_share

GPU = torch.device("cuda")


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA A100-SXM4-80GB", 312e12),
        ("NVIDIA A10", 125e12),
        ("NVIDIA L4", 121e12),
        ("NVIDIA L40", 181e12),
        ("NVIDIA L40S", 362e12),
        ("NVIDIA GeForce RTX 4090", 165e12),
    ],
)
def test_six_operations_a_parameter_and_token_over_the_peak_of_the_gpu(name, peak, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: name)
    module = nn.Linear(10, 10)  # 110 parameters
    assert flops_share(module, 1e12, GPU, True) == pytest.approx(6 * 110 * 1e12 / peak)
    assert flops_share(module, 1e12, GPU, False) == pytest.approx(2 * 6 * 110 * 1e12 / peak)


def test_nothing_is_said_of_a_processor_or_an_unknown_gpu(monkeypatch):
    assert flops_share(nn.Linear(2, 2), 1.0, torch.device("cpu"), True) is None
    for name in ("NVIDIA A10G", "Some GPU of tomorrow"):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        assert flops_share(nn.Linear(2, 2), 1.0, GPU, True) is None
