"""The process that reads users' models: `python -m ampere_energy.model.reader`, driven by `model.reading`.

A request names one of our own functions and the model it is called with; the answer is what the function gives, as
plain data. Whatever the model's code does to its process ends with it.
"""

from __future__ import annotations

import importlib
import sys
import traceback
import warnings
from typing import Any

from ampere_energy.child_process import error_answer, opened
from ampere_energy.errors import AmpereError, ModelError, words_of
from ampere_energy.model import torch_settings
from ampere_energy.model.source import ModelRef
from ampere_energy.serialization import decode, encode


def main() -> None:
    """Answers requests until the parent closes."""
    channel = opened()
    warnings.showwarning = _one_line
    channel.reply({})
    usual = torch_settings.current()  # torch is imported while the parent does other things
    channel.serve(lambda request: _answer(request, usual))


def _answer(request: dict[str, Any], usual: torch_settings.Settings) -> dict[str, Any]:
    torch_settings.restore(usual)
    ref = decode(ModelRef, request["ref"], "the request")
    module, _, name = request["function"].partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
        return {"found": encode(function(ref, *request["more"]))}
    except AmpereError as error:
        return error_answer(error)
    except SystemExit as error:
        return error_answer(
            ModelError(f"{ref} ends the program (SystemExit: {error.code})", "call the model by itself")
        )
    except Exception as error:  # noqa: BLE001 - a bug of ours, which the parent reports as such
        said = f"{type(error).__name__}: {words_of(error)}"
        return {"unexpected": said, "trace": traceback.format_exc()}
    except BaseException as error:  # noqa: BLE001 - whatever else the model's own code raises
        return error_answer(
            ModelError(f"{ref} raised {type(error).__name__}: {words_of(error)}", "call the model by itself")
        )


def _one_line(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"ampere: warning: {message}", file=sys.stderr)


if __name__ == "__main__":
    main()
