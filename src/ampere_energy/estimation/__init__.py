"""What training a model will cost: which profile answers for it, and what that profile says.

In come a parsed model and profiles; out come joules and seconds with an interval, and what was known, scaled to another
batch or guessed. `estimate` is one model, `many` thousands of candidates. Nothing here touches a device or torch.
"""
