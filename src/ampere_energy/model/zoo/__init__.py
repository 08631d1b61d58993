"""The paper's families: width ranges without torch (`families`), builders with it (`convnets`)."""
