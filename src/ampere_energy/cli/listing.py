"""What there is: families, devices, profiles, a model's blocks, and a page about a profile or an evaluation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ampere_energy import files
from ampere_energy.cli.options import (
    Accumulate,
    AsJson,
    ChannelsLast,
    Input,
    Model,
    ModeName,
    OptimizerName,
    PrecisionName,
    Widths,
)
from ampere_energy.cli.output import err, say, show, write
from ampere_energy.cli.requests import ref_of, spec_of
from ampere_energy.cli.settings import given
from ampere_energy.errors import FileError, RequestError
from ampere_energy.profiles.collection import existing_path, is_bundle, load, load_profile, profile_path, saved_profiles


def models(as_json: AsJson = False) -> None:
    """Lists the built-in families."""
    from ampere_energy.model.families.catalogue import FAMILIES
    from ampere_energy.reporting.families import families_json, families_table

    families = list(FAMILIES.values())
    show(as_json, lambda: families_json(families), lambda: families_table(families))


def devices(as_json: AsJson = False) -> None:
    """Lists what this machine can train on and which energy meters it can read, and if not, why."""
    from ampere_energy.measurement.devices import compute_devices
    from ampere_energy.measurement.meters import survey
    from ampere_energy.reporting.devices import devices_json, devices_table

    with err.status("trying the meters"):
        found, meters = compute_devices(), survey()
    show(as_json, lambda: devices_json(found, meters), lambda: devices_table(found, meters))


def profiles(context: typer.Context, as_json: AsJson = False) -> None:
    """Lists your saved profiles, and those that come with AMPERE; `merge` makes one of several."""
    if context.invoked_subcommand is not None:
        return
    from ampere_energy.profiles.bundles.catalogue import bundles, entries
    from ampere_energy.reporting.profiles import profiles_json, profiles_table

    saved, bundled = saved_profiles(), {bundle: entries(bundle) for bundle in bundles()}
    show(as_json, lambda: profiles_json(saved, bundled), lambda: profiles_table(saved, bundled))


def merge(
    names: Annotated[list[str], typer.Argument(metavar="PROFILE PROFILE …", help="Profiles of one device.")],
    out: Annotated[str, typer.Option("--out", help="The name or file of the profile that knows what all of them do.")],
    as_json: AsJson = False,
) -> None:
    """Makes one profile of several of the same device, meter and settings; none of them is changed."""
    if len(set(names)) < 2:
        raise RequestError(f"merge {' '.join(names)}", "name at least two profiles")
    path = profile_path(out)
    if files.exists(path):
        raise FileError(f"{path} exists", "choose another --out")
    from ampere_energy.profiles.merge import merged
    from ampere_energy.reporting.as_json import profile_json
    from ampere_energy.reporting.tables import profile_table

    with err.status("fitting all measurements at once"):
        learnt = merged([load_profile(name) for name in names])
    learnt.save(path)
    show(as_json, lambda: profile_json(learnt, str(path)), lambda: profile_table(learnt))
    say(f"profile {path}")


def parse(
    model: Model,
    input: Input = None,
    widths: Widths = "",
    optimizer: OptimizerName = "sgd",
    mode: ModeName = "eager",
    precision: PrecisionName = "fp32",
    channels_last: ChannelsLast = False,
    accumulate: Accumulate = 1,
    as_json: AsJson = False,
) -> None:
    """Shows a model's blocks, kinds, widths, parameters and training FLOPs."""
    spec = spec_of(ref_of(model, input, widths, given(optimizer, mode, precision, channels_last, accumulate).usual))
    from ampere_energy.reporting.as_json import spec_json
    from ampere_energy.reporting.tables import spec_table

    show(as_json, lambda: spec_json(spec), lambda: spec_table(spec))


def report(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE|EVALUATION", help="A profile, one of a bundle (BUNDLE/NAME), or what evaluate printed."
        ),
    ],
    page: Annotated[Path | None, typer.Option("--out", help="The page [default: NAME.html here].")] = None,
) -> None:
    """Writes one HTML page about a profile, or about what `ampere evaluate --json` printed; it opens offline."""
    from ampere_energy.reporting.evaluated_sets import is_evaluation, read_sets
    from ampere_energy.reporting.profile_page import profile_page
    from ampere_energy.reporting.report import evaluation_page

    bundle, _, name = subject.partition("/")
    if is_bundle(bundle) and not files.is_file(Path(subject)):
        _report(profile_page(load(subject)), page or Path(f"{name}.html"))
        return
    path = existing_path(subject)
    page = page or Path(f"{path.name.removesuffix('.json')}.html")
    if os.path.realpath(page) == os.path.realpath(path):
        raise RequestError(f"--out {page} is the file the page is about", "choose another --out")
    _report(evaluation_page(read_sets(path)) if is_evaluation(path) else profile_page(load_profile(subject)), page)


def _report(text: str, page: Path) -> None:
    write(page, text)
    say(f"report {page}")
