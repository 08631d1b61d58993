"""Attacks on the command line and its files: kills, faults, hostile models, damaged files, odd command lines."""
