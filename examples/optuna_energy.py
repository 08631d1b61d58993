"""An Optuna study that gains an energy objective: the three lines marked so.

ampere profile examples/optuna_energy.py:net --widths 16,32 --input 10,1,28,28 --device cpu --budget 60s --out net.json
python examples/optuna_energy.py net.json
"""

import sys

import optuna
import torch
from torch import nn

from ampere_energy import energy_objective, load  # one: joules of a module, from a profile


def net(first: int, second: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, first, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(first, second, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4),
        nn.Flatten(), nn.Linear(second * 9, 4),
    )  # fmt: skip


def images(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise with a bright spot in one of four corners, which is the class."""
    labels = torch.randint(4, (count,))
    pictures = torch.randn(count, 1, 28, 28)
    for picture, label in zip(pictures, labels.tolist(), strict=True):
        row, column = divmod(label, 2)
        picture[0, 14 * row + 5 : 14 * row + 9, 14 * column + 5 : 14 * column + 9] += 1.0
    return pictures, labels


def accuracy(model: nn.Module) -> float:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(40):
        pictures, labels = images(10)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()
    pictures, labels = images(200)
    with torch.no_grad():
        return (model(pictures).argmax(1) == labels).float().mean().item()


def objective(trial: optuna.Trial) -> tuple[float, float]:
    model = net(trial.suggest_int("first", 1, 16), trial.suggest_int("second", 1, 32))
    return accuracy(model), joules(model)  # two: the second value


if __name__ == "__main__":
    torch.manual_seed(0)
    joules = energy_objective(load(sys.argv[1]), (10, 1, 28, 28), iterations=40)  # three: what it is made from
    study = optuna.create_study(directions=["maximize", "minimize"])
    study.optimize(objective, n_trials=int(sys.argv[2]) if len(sys.argv) > 2 else 20)
    for trial in study.best_trials:
        print(f"accuracy {trial.values[0]:.2f}, {trial.values[1]:.4f} J: {trial.params}")
