"""Profiles that ship with the package: what each was made of, and which of them covers a model."""
