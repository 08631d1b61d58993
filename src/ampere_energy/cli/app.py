"""The `ampere` program: all commands, and its global options."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ampere_energy import __version__
from ampere_energy.cli.estimate import estimate
from ampere_energy.cli.evaluate import evaluate
from ampere_energy.cli.listing import devices, merge, models, parse, profiles, report
from ampere_energy.cli.measure import measure
from ampere_energy.cli.profile import profile
from ampere_energy.cli.prune import prune
from ampere_energy.cli.search import search

app = typer.Typer(
    help="What training a neural network on a device will cost, in joules, seconds and battery, before you run it.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
UsageError: Any = typer.BadParameter.__mro__[1]  # typer carries a click of its own and does not name this one


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ampere {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback for errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """`ampere_energy.cli.main.main` accepts `--debug` anywhere on the line."""


of_profiles = typer.Typer(rich_markup_mode=None)
of_profiles.callback(invoke_without_command=True)(profiles)
of_profiles.command()(merge)
for command in (models, devices, parse, profile, estimate, measure, evaluate, search, prune, report):
    app.command()(command)
app.add_typer(of_profiles, name="profiles")
commands: Any = typer.main.get_command(app)
"""All commands with their options."""
