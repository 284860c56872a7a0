"""Opening a store, by the names that a notebook would use."""

from os import PathLike

from mentor_audit.store import Store


def open_store(path: str | PathLike[str]) -> Store:
    """An existing store, to read or to go on writing. Raises StoreError when there is none, SchemaVersionError when it is newer."""
    return Store.open(path)


def create_store(path: str | PathLike[str], registry_url: str | None = None) -> Store:
    """A new store in a missing or empty folder. Raises StoreError when there is one already."""
    return Store.create(path, registry_url=registry_url)
