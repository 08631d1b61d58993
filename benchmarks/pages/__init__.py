"""What writes docs/results and docs/figures from committed data."""
