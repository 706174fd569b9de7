"""Where an objective's options come from: a training recipe, or the audit of another model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import advshift
from advshift import RobustObjective
from advshift.audit import AuditRecord
from advshift.errors import InputError
from advshift.objective.audited import audited_distribution

COUNTS = [60, 30, 10]
RISKS = np.array([0.1, 0.3, 0.6])


@pytest.fixture(scope="module")
def record() -> AuditRecord:
    labels = np.repeat(np.arange(3), COUNTS)
    wrong = np.concatenate([np.arange(count) < risk * count for count, risk in zip(COUNTS, RISKS, strict=True)])
    found: AuditRecord = advshift.audit(labels, np.where(wrong, (labels + 1) % 3, labels), radii=[0.1, 0.5]).record
    return found


def test_a_recipe_gives_the_adversary_and_its_options() -> None:
    objective: Any = RobustObjective("digits-advshift", class_counts=COUNTS)
    assert (objective.adversary.name, objective.adversary.radius) == ("advshift", 0.5)
    assert objective.adversary.initial == "reference"
    own: Any = RobustObjective("digits-advshift", class_counts=COUNTS, radius=0.2, label_smoothing=0.1)
    assert (own.adversary.radius, own.loss.label_smoothing) == (0.2, 0.1)
    assert RobustObjective("digits-erm", class_counts=COUNTS).adversary.name == "erm"


def test_recipes_that_need_more_than_an_objective_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pass class_counts="):
        RobustObjective("digits-advshift", num_classes=3)
    with pytest.raises(InputError, match=r"known adversar|unknown adversary"):
        RobustObjective("digits-advshfit", class_counts=COUNTS)
    folder = tmp_path / "training" / "recipes"
    folder.mkdir(parents=True)
    (folder / "held.toml").write_text('[objective]\nadversary = "exact"\nradius = 0.1\nadversary_data = "held-out"\n')
    (folder / "guess.toml").write_text('[objective]\nadversary = "balanced"\nreference = "estimated"\n')
    monkeypatch.setattr("advshift.objective.recipes.resources.files", lambda _: tmp_path)
    with pytest.raises(InputError, match="other data than the batch"):
        RobustObjective("held", class_counts=COUNTS)
    assert RobustObjective("guess", num_classes=3).reference_momentum is not None


def test_fixed_takes_the_worst_case_of_an_audit(record: AuditRecord, tmp_path: Path) -> None:
    record.write(tmp_path / "audit.json")
    for point in record.models[0].curve[:2]:
        found = audited_distribution(tmp_path / "audit.json", point.radius)
        np.testing.assert_allclose(found, point.distribution, atol=1e-9)
    objective = RobustObjective("fixed", class_counts=COUNTS, audit=tmp_path / "audit.json", radius=0.25)
    reference = np.array(COUNTS) / 100
    ball = {"type": "ineq", "fun": lambda q: 0.25 - float(np.sum(q * np.log(q / reference)))}
    whole = {"type": "eq", "fun": lambda q: q.sum() - 1}
    oracle = minimize(
        lambda q: -q @ RISKS, reference, bounds=[(1e-9, 1)] * 3, constraints=[ball, whole], options={"ftol": 1e-12}
    )
    np.testing.assert_allclose(objective.distribution, oracle.x, atol=1e-4)


def test_audits_that_do_not_fit(record: AuditRecord) -> None:
    with pytest.raises(InputError, match="needs radius="):
        RobustObjective("fixed", class_counts=COUNTS, audit=record)
    with pytest.raises(InputError, match="pass model="):
        RobustObjective("fixed", class_counts=COUNTS, audit=record, radius=1.0, model="other")
    with pytest.raises(InputError, match="3 classes"):
        RobustObjective("fixed", class_counts=[1, 1], audit=record, radius=1.0)
    with pytest.raises(InputError, match="pass its distribution, or audit="):
        RobustObjective("fixed", class_counts=COUNTS, radius=1.0)
    no_set = record.model_copy(update={"uncertainty_set": type(record.uncertainty_set)(name="simplex")})
    with pytest.raises(InputError, match="no single radius"):
        audited_distribution(no_set, 1.0)
    gone = record.models[0].model_copy(update={"classes": record.models[0].classes[:2]})
    with pytest.raises(InputError, match="examples of every class"):
        audited_distribution(record.model_copy(update={"models": [gone]}), 1.0)
