"""Your own model: any function that returns a torch.nn.Module.

ampere parse    examples/my_model.py:small_net --input 32,3,32,32
ampere profile  examples/my_model.py:small_net --input 32,3,32,32 --device cpu --budget 60s --out mine.json
ampere estimate examples/my_model.py:small_net --input 32,3,32,32 --profile mine.json --iterations 10000
"""

import torch
from torch import nn
from torch.nn import functional


class SmallNet(nn.Module):
    def __init__(self, first: int, second: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, first, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(first)
        self.conv2 = nn.Conv2d(first, second, 3, padding=1)
        self.classify = nn.Linear(second, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.norm1(self.conv1(x))), 2)
        x = functional.relu(self.conv2(x))
        return self.classify(functional.adaptive_avg_pool2d(x, 1).flatten(1))


def small_net(first: int = 16, second: int = 32) -> nn.Module:
    """With `--widths 8,24` the factory is called as small_net(8, 24)."""
    return SmallNet(first, second)
