"""What is trained: layers, blocks, kinds, variants, and the families of the paper."""
