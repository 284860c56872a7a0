"""README's Python runs as it stands, on the golden store; its links lead somewhere; its examples are there."""

import re
from pathlib import Path

from golden import build

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    build(tmp_path / "store")
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    replaced = {"demo/store": str(tmp_path / "store"), "demo/report": str(tmp_path / "report")}
    for before, after in replaced.items():
        assert before in code
        code = code.replace(before, after)
    code = re.sub(r"demo-mentor-s1\.[\w.]+", "golden-mentor-s1.l1.t0.g0.a1", code)
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "report" / "report.html").exists()


def test_the_files_that_the_readme_names_are_there() -> None:
    for name in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / name).exists(), name


def test_the_test_that_the_readme_points_to_is_there() -> None:
    for file, test in re.findall(r"`(tests/\w+\.py)::(\w+)`", README):
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")
