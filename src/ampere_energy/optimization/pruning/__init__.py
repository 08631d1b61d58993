"""Pruning to a budget of joules: which channels a model loses so that a training step costs what was promised.

In come a model and a profile; out comes a smaller model, its estimate and, where a device is at hand, its measurement.
"""
