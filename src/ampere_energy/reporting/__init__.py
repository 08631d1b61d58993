"""What people and programs read: tables, JSON, progress lines, plots as SVG, and the HTML pages.

In come estimates, profiles and evaluations; out goes text. Nothing is computed here that another room could want.
"""
