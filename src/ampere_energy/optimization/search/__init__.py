"""Searching networks of a family or factory: good by the user's own score, cheap by the profile's estimate.

In come a space of widths and structures, a score and profiles; out come the networks that nothing beats.
"""
