from __future__ import annotations

import re

import pytest
from studies.additive import spec_of

from ampere_energy.errors import RequestError
from ampere_energy.fit.campaign import profile
from ampere_energy.measure.devices.simulated import SimulatedDevice
from ampere_energy.model.source import model_ref
from ampere_energy.model.zoo.families import family
from ampere_energy.predict.evaluate import evaluate, score
from ampere_energy.show.plainly import evaluation_json
from ampere_energy.show.report import evaluation_report


def test_unseen_members_are_predicted_and_measured() -> None:
    device = SimulatedDevice(0.01)
    learnt = profile(spec_of("cnn5"), device=device)
    members = [model_ref("cnn5", widths=w) for w in family("cnn5").sample(12, seed=5)]
    trials = evaluate(members, learnt, device)
    assert [t.member for t in trials] == members
    total = score(trials)
    assert total.mape == pytest.approx(sum(abs(t.error) for t in trials) / 12)
    assert total.mape < 0.06
    assert abs(total.bias) <= total.mape <= total.p90
    assert total.spearman is not None
    assert total.spearman > 0.9
    assert 0.003 < total.floor < 0.02
    (record,) = evaluation_json(family("cnn5"), trials, learnt)
    assert record["scores"]["ampere"]["mape"] == total.mape
    assert record["floor"] == total.floor

    page = evaluation_report(trials, learnt)
    assert len(re.findall("<circle", page)) == 12
    assert len(re.findall('class="bar"', page)) == 12 * 5
    assert "SIMULATED" in page
    assert not re.search(r"https?://|src=|@import", page)  # opens offline

    with pytest.raises(RequestError, match="this is simulated"):
        evaluate(members[:1], learnt, SimulatedDevice(0.02))
