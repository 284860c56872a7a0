"""SQL from anybody, in a child process that can reach nothing but the store's views.

The child loads the store through the same views, then DuckDB's access to files, network, extensions and settings is switched off for
good; the operating system limits its memory and time, and the parent its output. DuckDB's own settings are not enough: they let
one string take gigabytes.
"""

import itertools
import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from mentor_audit.errors import CorruptStoreError, QueryError, QueryLimitError


@dataclass(frozen=True)
class Limits:
    """What a query may take: wall seconds, bytes of memory (address space), rows and bytes of its result."""

    seconds: float = 60.0
    memory_bytes: int = 4 * 2**30
    rows: int = 1_000_000
    result_bytes: int = 256 * 2**20


def run_untrusted(root: Path, text: str, limits: Limits | None = None) -> pa.Table:
    """The result as Arrow. Raises QueryError for SQL that can't be run, QueryLimitError when a limit is met."""
    limits = limits or Limits()
    request = json.dumps({"root": str(Path(root).resolve()), "text": text, "limits": asdict(limits)})
    environment = {
        "PATH": os.defpath,
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
        "OMP_NUM_THREADS": "2",
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "mentor_audit.store.untrusted"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(request.encode("utf-8", "replace"), timeout=limits.seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise QueryLimitError(
            f"Expected an answer within {limits.seconds:g} s, found the query still running. Narrow it, or raise --seconds."
        ) from None
    kind, _, rest = out.partition(b"\n")
    if child.returncode == 0 and kind == b"arrow":
        return pa.ipc.open_stream(rest).read_all()
    if child.returncode == 0 and kind in (b"query", b"limit", b"corrupt"):
        error = {b"query": QueryError, b"limit": QueryLimitError, b"corrupt": CorruptStoreError}[kind]
        raise error(rest.decode("utf-8", "replace"))
    tail = err.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
    raise QueryLimitError(
        f"Expected an answer, found the query's process ended by {child.returncode} ({tail[0][:200]}): most likely it met its memory limit "
        f"of {limits.memory_bytes / 2**20:.0f} MiB. Narrow the query, or raise its limits."
    )


def main() -> None:
    """The child: a request on standard input, `kind` and a body on standard output."""
    from mentor_audit.store.reader import connect, translate
    from mentor_audit.store.store import Store

    request = json.load(sys.stdin)
    limits = Limits(**request["limits"])
    kind, body = b"query", b""
    try:
        import duckdb

        store = Store.open(request["root"])
        with connect(store.root, store.registry) as connection:
            _lock_down(connection, store.root, limits)
            kind, body = _answer(connection, request["text"], limits)
    except duckdb.OutOfMemoryException as error:
        kind, body = b"limit", f"Expected a query within its memory, found: {error}. Narrow it, or raise its limits.".encode()
    except duckdb.Error as error:
        translated = translate(error)
        kind = b"corrupt" if isinstance(translated, CorruptStoreError) else b"query"
        body = str(translated).encode("utf-8", "replace")
    except MemoryError:
        kind, body = (
            b"limit",
            b"Expected a query within its memory limit, found it out of memory. Narrow it, or raise its limits.",
        )
    except (QueryLimitError, QueryError, CorruptStoreError) as error:
        names = {QueryLimitError: b"limit", QueryError: b"query", CorruptStoreError: b"corrupt"}
        kind, body = names[type(error)], str(error).encode("utf-8", "replace")
    sys.stdout.buffer.write(kind + b"\n" + body)
    sys.stdout.buffer.flush()
    os._exit(0)


def _lock_down(connection: "object", root: Path, limits: Limits) -> None:
    """Order matters: the files of the views are allowed, everything else is refused, and then nothing can be set any more.

    `allowed_paths` would let a query write to those files; the child has no right to: RLIMIT_FSIZE 0 stops every write.
    """
    from mentor_audit.store.reader import live_files

    execute = connection.execute  # type: ignore[attr-defined]
    paths = [path for files in live_files(root).values() for path in files]
    quoted = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(limits.seconds * 4) + 1, int(limits.seconds * 4) + 2))
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
    execute(f"SET memory_limit = '{limits.memory_bytes // 2}B'")
    execute("SET temp_directory = ''")
    execute("SET threads = 2")
    execute(f"SET allowed_paths = [{quoted}]")
    execute("SET enable_external_access = false")
    execute("SET lock_configuration = true")


def _answer(connection: "object", text: str, limits: Limits) -> tuple[bytes, bytes]:
    statements = connection.extract_statements(text)  # type: ignore[attr-defined]
    if len(statements) != 1:
        raise QueryError(f"Expected one statement, found {len(statements)}. Ask them one by one.")
    reader = connection.execute(statements[0]).to_arrow_reader(65_536)  # type: ignore[attr-defined]
    schema = pa.schema([field.with_name(name) for field, name in zip(reader.schema, _unique(reader.schema.names), strict=True)])
    sink = pa.BufferOutputStream()
    rows = size = 0
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in reader:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > limits.rows or size > limits.result_bytes:
                raise QueryLimitError(
                    f"Expected at most {limits.rows} rows and {limits.result_bytes} bytes, found more. Add LIMIT, aggregate, or raise them."
                )
            writer.write_batch(batch.rename_columns(schema.names))
    return b"arrow", sink.getvalue().to_pybytes()


def _unique(names: list[str]) -> list[str]:
    """A name that was there before gets the first free number: arm, arm_1. Frames can't hold two columns of one name."""
    found: list[str] = []
    for name in names:
        free = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(1)))
        found.append(next(new for new in free if new not in found and (new == name or new not in names)))
    return found


if __name__ == "__main__":
    main()
