"""Arrows point down: what each floor may import, and which third-party library enters where."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "mentor_audit"
GROUND = {"errors", "records", "schema", "config", "protocols"}
FLOORS: dict[str, set[str]] = {
    "errors": set(),
    "records": set(),
    "schema": {"errors", "records"},
    "config": {"errors"},
    "protocols": {"records"},
    "store": GROUND,
    "cost": GROUND,
    "tasks": GROUND,
    "policy": GROUND | {"cost", "tasks"},
    "mentor": GROUND | {"cost", "tasks"},
    "episode": GROUND | {"cost", "mentor"},
    "training": GROUND | {"store", "cost", "tasks", "policy", "mentor", "episode"},
    "suite": GROUND | {"store", "cost", "tasks", "policy", "mentor", "episode", "training"},
    "replay": GROUND | {"store", "cost", "tasks", "policy", "mentor", "episode", "suite"},
    "demo": GROUND | {"store", "suite", "replay"},
    "audit": GROUND | {"store", "tasks", "cost", "policy", "mentor"},
    "report": GROUND | {"store", "audit"},
    "simulate": GROUND | {"store"},
}
DOORS = {
    "trl": {"training", "suite"},
    "duckdb": {"store", "simulate"},
    "deltalake": {"store"},
    "sqlmodel": {"records", "schema", "store"},
    "polars": {"store", "report", "cli"},
    "altair": {"report"},
}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def floor(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").parts[0]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_lower_floor_never_imports_a_higher_one(path: Path) -> None:
    here = floor(path)
    if here not in FLOORS:
        assert here in {"__init__", "__main__", "cli", "cli_audit", "api"}, f"{here} stands on no floor: add it to FLOORS"
        return
    named = {name.split(".")[1] for name in imports(path) if name.startswith("mentor_audit.")}
    inside = {p.stem if p.is_file() else p.name for p in ROOT.iterdir()}
    assert (named & inside) - {here, "__version__"} <= FLOORS[here]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(ROOT)))
def test_third_party_libraries_enter_through_their_doors(path: Path) -> None:
    used = {name.split(".")[0] for name in imports(path)}
    for library, doors in DOORS.items():
        assert library not in used or floor(path) in doors, f"{library} has no door in {floor(path)}"


@pytest.mark.parametrize("module", ["mentor_audit", "mentor_audit.cli", "mentor_audit.store"])
def test_analysts_do_not_wait_for_torch(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('torch', 'trl', 'transformers') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
