"""The error tree. Every error says what was expected, what was found and where, and what to do next.

MentorAuditError                 anything this package raises on purpose; the command line turns it into exit code 2
├── ConfigError                  a setting that is unknown, malformed or impossible
├── TaskError                    a data set, problem or verifier that can't be used
│   └── SandboxError             no sandbox works on this machine
├── ModelError                   a learner or mentor that can't be loaded
├── StoreError                   the trajectory store
│   ├── SchemaVersionError       the store was written by a newer schema than this package knows
│   ├── WriterLockedError        another live process writes this run
│   ├── CorruptStoreError        a part is missing, truncated or altered
│   └── RecordError              a row that breaks its record's rules (NaN, unknown column, wrong type)
├── QueryError                   SQL that can't be run, an unknown named query, an id that isn't there
│   └── QueryLimitError          the query ran into its time, memory, row or byte limit
├── TrainingError                the trainer can't go on (a mid-cycle checkpoint, an unsupported GRPOConfig)
│   └── BudgetExhausted          the run reached its compute budget (a clean end, not a failure)
└── ReportError                  a report can't be built from this store

What goes wrong inside an actor (a mentor that times out, a reply that can't be parsed, a verifier that crashes) is data,
not an exception: it keeps its slot as a row with a status, and its cost.
"""


class MentorAuditError(Exception):
    """Base of every error raised on purpose."""


class ConfigError(MentorAuditError):
    pass


class TaskError(MentorAuditError):
    pass


class ModelError(MentorAuditError):
    pass


class StoreError(MentorAuditError):
    pass


class SchemaVersionError(StoreError):
    pass


class WriterLockedError(StoreError):
    pass


class CorruptStoreError(StoreError):
    pass


class RecordError(StoreError):
    pass


class QueryError(MentorAuditError):
    pass


class QueryLimitError(QueryError):
    pass


class TrainingError(MentorAuditError):
    pass


class BudgetExhausted(TrainingError):
    pass


class ReportError(MentorAuditError):
    pass
