"""What measures on a card or a processor: each module is a command that records into a file or a folder of `data/`."""
