"""Studies: `make study` runs them in full and keeps what they find in `benchmarks/results.json`; tests run parts."""
