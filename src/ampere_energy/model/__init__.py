"""What is trained: a model read into blocks, each block's kind and widths, and the training settings.

In comes a torch module, or the name of a function that makes one; out come blocks as plain data, and modules built from
them again. `families` are the paper's models.
"""
