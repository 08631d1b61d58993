"""Large-count studies: run in full by `make study`, in part by the tests."""
