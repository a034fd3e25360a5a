"""Training of a small net with PyTorch, where that is installed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from osml.lab.trials.live.jobs.job import Job


def _command(directory: Path, threads: int) -> list[str]:
    del directory
    return [sys.executable, "-m", "osml.lab.trials.live.jobs.torch_training", str(threads)]


JOB = Job(
    "torch-training", sys.executable, "python3", _command, modules=("torch",), user=None,
    extra=("osml-training", "train"),
)  # fmt: skip


def _train(threads: int) -> None:
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    optimiser = torch.optim.SGD(net.parameters(), 0.01)
    images, digits = torch.randn(4096, 256), torch.randint(10, (4096,))
    while True:
        for first in range(0, 4096, 128):
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(images[first : first + 128]), digits[first : first + 128])
            loss.backward()
            optimiser.step()


if __name__ == "__main__":
    _train(int(sys.argv[1]))
