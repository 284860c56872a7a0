"""The notebook runs from top to bottom on the golden store."""

import os
from pathlib import Path

import nbformat
import pytest
from golden import build
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "01_one_failed_attempt.ipynb"


def test_the_notebook_runs_on_the_golden_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(tmp_path / "store")
    monkeypatch.setenv("MENTOR_AUDIT_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": os.fspath(NOTEBOOK.parent)}})
    client.execute()
    texts = [str(output) for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("golden-mentor-s1" in text for text in texts)
    assert any("fix s2" in text for text in texts)
    assert any("rescued_fraction" in text for text in texts)


def test_the_notebook_is_committed_without_output() -> None:
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert not cell.get("outputs"), "clear the outputs: they hold one machine's paths"
