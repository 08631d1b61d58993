"""Judges the tool from outside: models it has never seen, trained by a loop that imports nothing of it."""
