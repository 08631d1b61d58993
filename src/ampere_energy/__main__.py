"""`python -m ampere_energy` is `ampere`."""

from ampere_energy.cli.main import main

if __name__ == "__main__":
    main()
