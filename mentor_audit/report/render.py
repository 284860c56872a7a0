"""The three files: report.json as found, report.html and report.md from the same dictionary. Each appears whole or not at all.

Every text in a template is escaped: HTML by Jinja's autoescape, Markdown by a finalizer of the same kind. The only markup that passes
is our own, pictures included, which pictures.py has cleaned.
"""

import json
import os
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound
from markupsafe import Markup

from mentor_audit.errors import ReportError
from mentor_audit.report import pictures, words

TEMPLATES = resources.files("mentor_audit.report") / "templates"
CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write(found: dict[str, Any], means: dict[str, list[tuple[float, float]]], out_dir: Path) -> dict[str, Path]:
    """Kind (html, md, json) to path. Raises ReportError when the folder can't be written."""
    texts = {
        "json": json.dumps(found, indent=1, allow_nan=False, ensure_ascii=False) + "\n",
        "html": page(found, means),
        "md": markdown(found),
    }
    try:
        out_dir.mkdir(parents=True, exist_ok=True)
        return {kind: _write_whole(out_dir / f"report.{kind}", text) for kind, text in texts.items()}
    except OSError as error:
        raise ReportError(f"Expected to write the report into {out_dir}, found that {error}. Choose another folder.") from error


def page(found: dict[str, Any], means: dict[str, list[tuple[float, float]]]) -> str:
    """One HTML page without scripts, links to elsewhere or anything to fetch."""
    drawn = {name: Markup(svg) if svg else None for name, svg in draw(found, means).items()}
    return _environment(_keep_together).get_template("report.html.j2").render(**_context(found), pictures=drawn, csp=CSP)


def markdown(found: dict[str, Any]) -> str:
    text = _environment(_escape_markdown).get_template("report.md.j2").render(**_context(found))
    return re.sub(r"\n{3,}", "\n\n", text)


def draw(found: dict[str, Any], means: dict[str, list[tuple[float, float]]]) -> dict[str, str | None]:
    """Name to SVG; None where there is nothing to draw."""
    transfer, rescue = found["transfer"], found["rescue"]
    drawn = {
        "curves": pictures.learning_curves(transfer, means),
        "decomposition": pictures.waterfall(transfer["decomposition"], "percentage points of held-out accuracy", "decomposition"),
        "rescue": pictures.intervals(_rates(rescue["arms"]), "zero-reward groups rescued in training, %", "rescue", is_rate=True),
        "zero_reward": pictures.zero_reward(found["zero_reward"]),
    }
    for number, replay in enumerate(found["replays"]):
        name = f"replay{number}"
        drawn[name] = pictures.waterfall(replay["decomposition"], "percentage points of failures rescued", name)
        drawn[f"{name}rates"] = pictures.intervals(_rates(replay["arms"]), "failures rescued, %", f"{name}rates", is_rate=True)
    return drawn


def _rates(arms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"label": a["arm"], "estimate": a["rescue_rate"], "colour": pictures.colour_of(a["arm"])} for a in arms]


class _Templates(BaseLoader):
    """Templates from inside the package, zipped or not."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Any]:
        file = TEMPLATES / template
        if not file.is_file():
            raise TemplateNotFound(template)
        return file.read_text(encoding="utf-8"), None, None


def _environment(finalize: Any) -> Environment:
    made = Environment(
        loader=_Templates(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=finalize
    )
    made.filters.update(
        percent=words.percent,
        rate=words.percent_interval,
        points=words.points,
        gap=words.points_interval,
        ends=words.ends,
        sci=words.scientific,
        count=words.count,
        num=words.number,
        p=words.p_value,
        listed=words.and_list,
        yes=lambda value: words.UNKNOWN if value is None else "yes" if value else "no",
        known=lambda value: words.UNKNOWN if value is None else value,
    )
    return made


def _context(found: dict[str, Any]) -> dict[str, Any]:
    numbers = {name: i for i, name in enumerate(found["queries"], start=1)}

    def source(block: str) -> str:
        made = found["sources"][block]
        return f"quer{'ies' if len(made['queries']) > 1 else 'y'} {', '.join(made['queries'])}, then {made['function']}"

    def refs(block: str) -> Iterator[tuple[int, str]]:
        for name in found["sources"][block]["queries"]:
            yield numbers[name], name

    compute = {"flops": words.scientific}.get(found["transfer"]["unit"], words.count)
    return {"f": found, "t": found["transfer"], "source": source, "refs": refs, "numbers": numbers, "spent": compute}


def _keep_together(value: Any) -> Any:
    """No line break inside a number with its sign, power or interval."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return re.sub(r"(?<=\d) (?=[%×])|(?<=×) (?=10)|(?<=\d,) (?=[+−\d.]+\])", "\u00a0", value)


def _escape_markdown(value: Any) -> Any:
    """Text from outside can't make headings, links, tables or HTML; what is Markup already passes."""
    if isinstance(value, Markup):
        return value
    text = re.sub(r"\s+", " ", str(value))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return Markup(re.sub(r"([\\`*_{}\[\]|#~$])", r"\\\1", text))


def _write_whole(path: Path, text: str) -> Path:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path
