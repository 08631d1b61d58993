"""The Python API: parse, profile, estimate, save, load."""

import torch
from my_model import small_net

import ampere_energy as ampere

spec = ampere.parse(small_net(), torch.zeros(32, 3, 32, 32))
profile = ampere.profile(spec, device="cpu", budget_s=30)
profile.save("build/small_net.json")

estimate = ampere.estimate(spec, ampere.load("build/small_net.json"), iterations=10_000)
low, high = estimate.interval_j
print(f"{estimate.energy_j:.0f} J ({low:.0f} to {high:.0f}) and {estimate.time_s:.0f} s for 10,000 training steps")
print(f"energy is {estimate.provenance} from {estimate.basis} energy: {estimate.meter}")
