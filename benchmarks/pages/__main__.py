"""`make results`: every page of docs/results, then the figures, which takes some minutes."""

from benchmarks.pages import figures, render

if __name__ == "__main__":
    render.write()
    figures.write()
