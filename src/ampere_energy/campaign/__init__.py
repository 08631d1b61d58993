"""What to measure next, and the loop that measures it.

In come a parsed model and a device; out come a log of measurements and a profile. `adaptive` is the default campaign:
`opening` is its fixed design, `batch_planner` and `acquisition` choose what follows. `paper` is the paper's campaign.
`run` drives either of them and refines a profile for one model; `additions` teaches a profile what came later.
"""
