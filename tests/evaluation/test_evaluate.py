from __future__ import annotations

from dataclasses import replace

import pytest

from ampere_energy.campaign.rules import Rules
from ampere_energy.campaign.run import profile
from ampere_energy.cost_model.host_overhead import Host
from ampere_energy.errors import RequestError
from ampere_energy.evaluation.baselines import by_time, by_work
from ampere_energy.evaluation.evaluate import evaluate, score
from ampere_energy.measurement.devices.simulated import SimulatedDevice
from ampere_energy.model.families.catalogue import family
from ampere_energy.model.source import model_ref
from ampere_energy.reporting.as_json import evaluation_json
from benchmarks.specs import spec_of


def test_unseen_members_are_predicted_and_measured() -> None:
    device = SimulatedDevice(0.01)
    learnt = profile(spec_of("cnn5"), device=device)
    members = [model_ref("cnn5", widths=w) for w in family("cnn5").sample(12, seed=5)]
    trials = evaluate(members, learnt, device)
    assert [t.widths for t in trials.networks] == [m.widths for m in members]
    total = score(trials, "ampere")
    assert total.mape == pytest.approx(sum(abs(t.error("ampere")) for t in trials.networks) / 12)
    assert total.mape < 0.06
    assert abs(total.bias) <= total.mape <= total.p90
    assert total.spearman is not None
    assert total.spearman > 0.9
    assert 0.003 < trials.floor < 0.02
    assert not trials.aligned
    assert score(trials, "flops").mape > 2 * total.mape
    (record,) = evaluation_json([trials])
    assert record["scores"]["ampere"]["mape"] == total.mape
    assert record["floor"] == trials.floor
    assert record["widths"] == "any"
    assert len(record["members"]) == 12

    assert learnt.nets is not None
    (part,) = by_work(learnt.nets, [spec_of("cnn5").blocks[:1]])["flops"]
    assert 0 < part < trials.networks[0].measured_j, "kinds that are not asked about do not matter"

    with pytest.raises(RequestError, match="this is simulated"):
        evaluate(members[:1], learnt, SimulatedDevice(0.02))


def test_methods_by_work_know_that_a_captured_whole_would_have_waited_for_the_host() -> None:
    spec = spec_of("lenet5")
    busy = profile(spec, device=SimulatedDevice(0.01), rules=Rules(points=6, precision=1e-6)).nets
    assert busy is not None
    slow_s = 1e3 * max(o.time_s for o in busy.observations)
    host = Host(slow_s, tuple({s.structure: 0.0 for s in busy.subjects}.items()), 0.01, 0.0)
    waits = replace(busy, host=host, idle_w=10.0)
    assert by_work(waits, [spec.blocks])["flops_affine"] == [pytest.approx(10.0 * slow_s, rel=0.02)]
    assert by_work(busy, [spec.blocks])["flops_affine"][0] < slow_s
    assert by_time(waits, [slow_s]) == [pytest.approx(10.0 * slow_s, rel=0.02)], "mostly idle, as networks are"
    assert by_time(busy, [1.0])[0] > 20.0
