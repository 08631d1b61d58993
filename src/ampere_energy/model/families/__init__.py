"""The paper's families of models: their widths without torch (`catalogue`), their builders with it (the others)."""
