"""Networks that give images or boxes: segmentation, compression, generation, detection, super-resolution."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


def _double_conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class _UNet(nn.Module):
    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(depth + 1)]
        self.down = nn.ModuleList(_double_conv(a, b) for a, b in zip([3, *widths], widths, strict=False))
        pairs = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in pairs)
        self.merge = nn.ModuleList(_double_conv(2 * b, b) for _, b in pairs)
        self.out = nn.Conv2d(width, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for level, block in enumerate(self.down):
            x = block(x if level == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([up(x), skips.pop()], dim=1))
        return self.out(x)


def unet(width: int = 8, depth: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """U-Net that halves the image `depth` times and comes back through skip connections."""
    return _UNet(width, depth), (torch.randn(4, 3, 64, 64),)


def conv_autoencoder(width: int = 16, depth: int = 3, kernel: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Strided convolutions down, transposed convolutions up; the output is the image."""
    widths = [3, *(width * 2**level for level in range(depth))]
    layers: list[nn.Module] = []
    for level in range(depth):
        layers += [nn.Conv2d(widths[level], widths[level + 1], kernel, 2, kernel // 2), nn.LeakyReLU(0.1)]
    for level in reversed(range(depth)):
        a, b = widths[level + 1], widths[level]
        layers += [nn.ConvTranspose2d(a, b, kernel, 2, kernel // 2, output_padding=1), nn.LeakyReLU(0.1)]
    layers[-1] = nn.Sigmoid()
    return nn.Sequential(*layers), (torch.rand(24, 3, 48, 48),)


class _VAE(nn.Module):
    def __init__(self, width: int, latent: int, depth: int) -> None:
        super().__init__()
        body: list[nn.Module] = [nn.Flatten(), nn.Linear(784, width), nn.ReLU()]
        back: list[nn.Module] = [nn.Linear(latent, width), nn.ReLU()]
        for _ in range(depth - 1):
            body += [nn.Linear(width, width), nn.ReLU()]
            back += [nn.Linear(width, width), nn.ReLU()]
        self.encoder = nn.Sequential(*body)
        self.mean = nn.Linear(width, latent)
        self.log_variance = nn.Linear(width, latent)
        self.decoder = nn.Sequential(*back, nn.Linear(width, 784))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.encoder(x)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        rebuilt = F.binary_cross_entropy_with_logits(self.decoder(code), x.flatten(1))
        return rebuilt - 0.5 * torch.mean(1 + log_variance - mean.square() - log_variance.exp())


def variational_autoencoder(width: int = 512, latent: int = 32, depth: int = 2) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Fully connected VAE on 28×28 images; forward returns the negative evidence bound."""
    return _VAE(width, latent, depth), (torch.rand(128, 1, 28, 28),)


class _Discriminator(nn.Module):
    def __init__(self, width: int, depth: int, kernel: int) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, width, kernel, 2, kernel // 2), nn.LeakyReLU(0.2, inplace=True)]
        channels = width
        for _ in range(depth - 1):
            layers += [
                nn.Conv2d(channels, 2 * channels, kernel, 2, kernel // 2, bias=False),
                nn.BatchNorm2d(2 * channels),
                nn.LeakyReLU(0.2, inplace=True),
            ]
            channels *= 2
        self.body = nn.Sequential(*layers)
        self.score = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, real: Tensor, fake: Tensor) -> Tensor:
        return F.relu(1 - self.score(self.body(real))).mean() + F.relu(1 + self.score(self.body(fake))).mean()


def gan_discriminator(width: int = 16, depth: int = 3, kernel: int = 5) -> tuple[nn.Module, dict[str, Tensor]]:
    """Patch discriminator called on real and on generated images; forward returns the hinge loss."""
    return _Discriminator(width, depth, kernel), {
        "real": torch.randn(8, 3, 64, 64),
        "fake": torch.randn(8, 3, 64, 64).tanh(),
    }


class _Detector(nn.Module):
    def __init__(self, width: int, scales: int, depth: int, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.BatchNorm2d(width), nn.SiLU())
        self.stages = nn.ModuleList()
        for _ in range(scales):
            layers: list[nn.Module] = [nn.Conv2d(width, width, 3, 2, 1), nn.BatchNorm2d(width), nn.SiLU()]
            for _ in range(depth):
                layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.SiLU()]
            self.stages.append(nn.Sequential(*layers))
        self.lateral = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(scales))
        self.head = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU())  # shared by all scales
        self.classes = nn.Conv2d(width, classes, 1)
        self.boxes = nn.Conv2d(width, 4, 1)

    def forward(self, images: Tensor, boxes: Tensor, labels: Tensor) -> Tensor:
        x = self.stem(images)
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        pyramid, above = [], None
        for level, lateral in zip(levels[::-1], list(self.lateral)[::-1], strict=True):
            here = lateral(level)
            above = here if above is None else here + F.interpolate(above, scale_factor=2.0, mode="nearest")
            pyramid.append(self.head(above))
        scores = torch.cat([self.classes(p).flatten(2).transpose(1, 2) for p in pyramid], dim=1)
        places = torch.cat([self.boxes(p).flatten(2).transpose(1, 2) for p in pyramid], dim=1)
        # Every box trains the place that is nearest to it; all other places are trained as background.
        nearest = torch.cdist(boxes, places.detach()).argmin(dim=-1)
        chosen = places.gather(1, nearest.unsqueeze(-1).expand(-1, -1, 4))
        wanted = torch.zeros_like(scores).scatter(
            1,
            nearest.unsqueeze(-1).expand(-1, -1, scores.shape[-1]),
            F.one_hot(labels, scores.shape[-1]).to(scores.dtype),
        )
        return F.binary_cross_entropy_with_logits(scores, wanted) + F.smooth_l1_loss(chosen, boxes)


def detector(width: int = 32, scales: int = 3, depth: int = 1) -> tuple[nn.Module, dict[str, Tensor]]:
    """Single-stage detector with a feature pyramid of `scales` levels; forward returns its loss."""
    inputs = {
        "images": torch.randn(4, 3, 96, 96),
        "boxes": torch.rand(4, 6, 4),
        "labels": torch.randint(0, 5, (4, 6)),
    }
    return _Detector(width, scales, depth), inputs


class _SuperResolution(nn.Module):
    def __init__(self, width: int, depth: int, kernel: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, kernel, padding=kernel // 2)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, kernel, padding=kernel // 2),
                nn.PReLU(),
                nn.Conv2d(width, width, kernel, padding=kernel // 2),
            )
            for _ in range(depth)
        )
        self.up = nn.Sequential(nn.Conv2d(width, 12, kernel, padding=kernel // 2), nn.PixelShuffle(2))

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        for block in self.blocks:
            y = y + 0.1 * block(y)
        return self.up(y) + F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)


def super_resolution(width: int = 24, depth: int = 3, kernel: int = 3) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Residual blocks at the small size, then a pixel shuffle to twice the size."""
    return _SuperResolution(width, depth, kernel), (torch.rand(4, 3, 32, 32),)
