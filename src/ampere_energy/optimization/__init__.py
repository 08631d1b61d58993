"""Spending less: models pruned to a budget of joules, and searches over widths and structures."""
