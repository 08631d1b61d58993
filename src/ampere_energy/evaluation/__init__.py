"""How good estimates are: networks that no campaign ran, predicted by several methods and really measured.

In come a profile and a device, or a folder of records; out go predictions beside measurements. `baselines` are the
other methods, `experiment` records everything a comparison needs, and `recorded` reads it again without hardware.
"""
