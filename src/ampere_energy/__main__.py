"""`python -m ampere_energy` is `ampere`."""

from ampere_energy.cli import main

if __name__ == "__main__":
    main()
