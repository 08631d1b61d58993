"""The `ampere` command: its errors, its exit codes, and Ctrl-C from the first moment on.

Little is imported before `main` runs, so that whoever stops the command while it starts is told so in one line.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
import threading
import traceback
import warnings
from typing import Any, NoReturn

from ampere_energy.errors import INTERRUPTED, AmpereError, DeviceError

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
    arguments = [a for a in sys.argv[1:] if a != "--debug"] or ["--help"]
    stopped: list[int] = []

    def stop(number: int, _: Any) -> NoReturn:
        stopped.append(number)
        raise KeyboardInterrupt

    usual = threading.current_thread() is threading.main_thread()
    usual = usual and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if usual:
            signal.signal(signal.SIGINT, stop)
        code = _run(_vary_alone(arguments), debug)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last resort: a bug of ours, said in one line
        what = f"unexpected {type(error).__name__}: {error} ({REPORT})"
        # A library may make an error of its own of Ctrl-C.
        code = INTERRUPTED if stopped else _fail(what, AmpereError.exit_code, debug)
    finally:
        if usual:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if code == INTERRUPTED:
        _fail(f"interrupted{_GOES_ON.get(arguments[0], '')}", code, debug=False)
    sys.exit(code)


def _run(arguments: list[str], debug: bool) -> int:
    """The command's exit code; what is wrong was said."""
    warnings.showwarning = _one_line_warning
    from ampere_energy.cli.app import UsageError, app
    from ampere_energy.cli.output import drop_output, use_any_encoding, written_out

    use_any_encoding()
    if swallowed := _swallowed(arguments):
        return _fail(swallowed, 2, debug)
    try:
        code = app(args=arguments, prog_name="ampere", standalone_mode=False)
        written_out()
    except AmpereError as error:
        return _fail(str(error), error.exit_code, debug)
    except UsageError as error:
        return _fail(_with_remedy(error, arguments), 2, debug)
    except BrokenPipeError:
        drop_output()
        return READER_LEFT
    except SystemExit as error:
        if isinstance(error.__context__, BrokenPipeError):  # how typer ends where its reader left
            return READER_LEFT
        # A user's own function, which some commands call in this process.
        what = f"the code that was called ends the program (SystemExit: {error.code}); call it by itself"
        return _fail(what, 2, debug)
    except OSError as error:
        return _fail(*_of_file(error), debug)
    except MemoryError:
        what = "out of memory; give a smaller batch or model, or end other programs"
        return _fail(what, DeviceError.exit_code, debug)
    return code if isinstance(code, int) else 0


def _of_file(error: OSError) -> tuple[str, int]:
    """What a file, a folder or the output refused, and the exit code."""
    from ampere_energy.cli.output import drop_output

    drop_output()
    what = f"{error.filename} cannot be used" if error.filename else "a file or the output cannot be read or written"
    return f"{what} ({error.strerror or error}); see to its folder and the space left, or name another", 2


def _vary_alone(arguments: list[str]) -> list[str]:
    """`--vary` by itself, which has no value of its own, with an empty one."""
    alone = [a == "--vary" and "=" not in after for a, after in itertools.pairwise([*arguments, ""])]
    return [f"{a}=" if bare else a for a, bare in zip(arguments, alone, strict=True)]


def _swallowed(arguments: list[str]) -> str | None:
    """What is wrong where one option stands where another's value should: `--out --json`."""
    from ampere_energy.cli.app import commands

    command = commands
    for word in arguments:
        command = getattr(command, "commands", {}).get(word, command)
    options = {name: option for option in command.params for name in option.opts if name.startswith("-")}
    for name, value in itertools.pairwise(arguments):
        named = value.startswith("--") and value[2:3].isalpha()
        if named and name in options and not getattr(options[name], "is_flag", False):
            return f"{name} is followed by {value}, which is an option; give {name} its value, or leave it out"
    return None


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
    from ampere_energy.cli.output import complain

    with contextlib.suppress(OSError):  # what is said here is said twice at most, and never fails
        if debug:
            traceback.print_exc()
    complain(message)
    return code


def _one_line_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    from ampere_energy.cli.output import complain

    complain(f"warning: {message}")
