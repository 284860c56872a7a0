"""The notebooks run from top to bottom: on the golden store, and on one with a replay whose truth was planted."""

import os
from pathlib import Path

import nbformat
import pytest
from golden import build
from nbclient import NotebookClient

from mentor_audit.simulate import write
from mentor_audit.simulate.worlds import WORLDS

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


def outputs_of(name: str, store: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("MENTOR_AUDIT_STORE", str(store))
    monkeypatch.setenv("IPYTHONDIR", str(store.parent / "ipython"))
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": os.fspath(NOTEBOOKS)}}).execute()
    return [str(output) for cell in notebook.cells for output in cell.get("outputs", [])]


def test_one_failed_attempt_runs_on_the_golden_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "store")
    texts = outputs_of("01_one_failed_attempt.ipynb", tmp_path / "store", monkeypatch)
    assert any("golden-mentor-s1" in text for text in texts)
    assert any("fix s2" in text for text in texts)
    assert any("rescued_fraction" in text for text in texts)


def test_was_it_the_diagnosis_finds_a_planted_correctness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(WORLDS["correctness"], tmp_path / "store")
    texts = outputs_of("02_was_it_the_diagnosis.ipynb", tmp_path / "store", monkeypatch)
    pairs = next(text for text in texts if "mentor - wrong" in text)
    assert "mentor - scrubbed" in pairs and "failures" in pairs
    assert any("is_fitting" in text for text in texts)
    assert any("Gain explained by correct diagnoses" in text for text in texts)
    assert any("scrubbed - wrong" in text and "correctness" in text for text in texts)


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_output(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        assert not cell.get("outputs"), "clear the outputs: they hold one machine's paths"
