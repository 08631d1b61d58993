"""The `ampere` command: its global options, its errors and its exit codes."""

from __future__ import annotations

import contextlib
import itertools
import sys
import warnings
from typing import Annotated, Any, NoReturn

import typer

from ampere_energy import __version__
from ampere_energy.commands.estimating import estimate
from ampere_energy.commands.evaluating import evaluate
from ampere_energy.commands.looking import devices, merge, models, parse, profiles, report
from ampere_energy.commands.measuring import measure
from ampere_energy.commands.output import complain, drop_output, err, use_any_encoding, written_out
from ampere_energy.commands.profiling import INTERRUPTED, profile
from ampere_energy.commands.pruning import prune
from ampere_energy.commands.searching import search
from ampere_energy.errors import AmpereError, DeviceError

app = typer.Typer(
    help="What training a neural network on a device will cost, in joules, seconds and battery, before you run it.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
UsageError: Any = typer.BadParameter.__mro__[1]  # typer carries a click of its own and does not name this one


def _version(asked: bool) -> None:
    if asked:
        print(f"ampere {__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback for errors.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """`main` accepts `--debug` anywhere on the line."""


of_profiles = typer.Typer(rich_markup_mode=None)
of_profiles.callback(invoke_without_command=True)(profiles)
of_profiles.command()(merge)
for command in (models, devices, parse, profile, estimate, measure, evaluate, search, prune, report):
    app.command()(command)
app.add_typer(of_profiles, name="profiles")


READER_LEFT = 141
"""The exit code where what reads the output went away, as a shell says of such a program."""
REPORT = "an error of AMPERE: run again with --debug and report it where you have AMPERE from"
_GOES_ON = {
    "profile": "; nothing measured is lost: where there is a log, go on by the same command with --resume",
    "evaluate": "; with --record, nothing measured is lost: the same command goes on",
    "search": "; with --storage, the same command goes on",
}


def main() -> NoReturn:
    """Runs the command; errors are one line on standard error, with the documented exit code."""
    debug = "--debug" in sys.argv
    arguments = _vary_alone([a for a in sys.argv[1:] if a != "--debug"]) or ["--help"]
    warnings.showwarning = _one_line_warning
    use_any_encoding()
    try:
        code = app(args=arguments, prog_name="ampere", standalone_mode=False)
        written_out()
        if code == INTERRUPTED:
            _fail(f"interrupted{_GOES_ON.get(arguments[0], '')}", code, debug=False)
    except AmpereError as error:
        code = _fail(str(error), error.exit_code, debug)
    except UsageError as error:
        code = _fail(_with_remedy(error, arguments), 2, debug)
    except BrokenPipeError:
        drop_output()
        code = READER_LEFT
    except SystemExit as left:  # how typer ends where its reader left
        if not isinstance(left.__context__, BrokenPipeError):
            raise
        code = READER_LEFT
    except OSError as error:
        code = _fail(*_of_file(error), debug)
    except MemoryError:
        code = _fail(
            "out of memory; give a smaller batch or model, or end other programs", DeviceError.exit_code, debug
        )
    except Exception as error:  # noqa: BLE001 - the last resort: a bug of ours, said in one line
        code = _fail(f"unexpected {type(error).__name__}: {error} ({REPORT})", AmpereError.exit_code, debug)
    sys.exit(code if isinstance(code, int) else 0)


def _of_file(error: OSError) -> tuple[str, int]:
    """What a file, a folder or the output refused, and the exit code."""
    drop_output()
    what = f"{error.filename} cannot be used" if error.filename else "a file or the output cannot be read or written"
    return f"{what} ({error.strerror or error}); see to its folder and the space left, or name another", 2


def _vary_alone(arguments: list[str]) -> list[str]:
    """`--vary` by itself, which has no value of its own, with an empty one."""
    alone = [a == "--vary" and "=" not in after for a, after in itertools.pairwise([*arguments, ""])]
    return [f"{a}=" if bare else a for a, bare in zip(arguments, alone, strict=True)]


def _with_remedy(error: Any, arguments: list[str]) -> str:
    """What is wrong with an option, the value it has on the line, and what it should have."""
    message, asked = error.format_message().rstrip("."), getattr(error, "param", None)
    if asked is None:
        return f"{message}; see {error.ctx.command_path if error.ctx else 'ampere'} --help"
    pairs = itertools.chain(itertools.pairwise(arguments), (a.split("=", 1) for a in arguments if "=" in a))
    given = next((value for option, value in pairs if option in asked.opts), None)
    meant = getattr(asked, "help", None) or "see ampere --help"
    return f"{message}{f', not {given!r}' if given is not None else ''}; it is: {meant[0].lower()}{meant[1:]}"


def _fail(message: str, code: int, debug: bool) -> int:
    with contextlib.suppress(OSError):  # what is said here is said twice at most, and never fails
        if debug:
            err.print_exception()
    complain(message)
    return code


def _one_line_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    complain(f"warning: {message}")
