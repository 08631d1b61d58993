"""What the measurements say about costs: the joint Gaussian-process fit, and the paper's one process a kind.

In come observations (`observations`: which blocks ran, seconds, joules); out come the expected cost of any network of
those blocks and how sure that is. Read `joint` for the notation and the equations, then `physical_mean`, `kernels`,
`linearisation`, `fitting` and `posterior`; `host_overhead` and `whole_step` make steps of blocks. No device, no torch.
"""
