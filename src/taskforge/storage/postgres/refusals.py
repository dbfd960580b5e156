"""What is said when the database does not serve, or refuses: no error of the driver's leaves the
engine."""

import logging

import asyncpg

from taskforge.domain.errors import (
    Conflict,
    Invalid,
    StoreFault,
    StoreUnavailable,
    StoreUnsuitable,
    TaskForgeError,
)

logger = logging.getLogger("taskforge.store")
# Of the server's codes, the classes that are about a statement or a value, whoever serves it.
# Whatever else it says is about itself, and may be otherwise in a moment: a database that is
# renamed, a standby, a login that is refused, a full disk.
_FAULTS = ("0A", "21", "22", "2F", "38", "39", "42", "44", "P0")
# But rights that were taken away, and tables that a restore is about to put back.
_PASSING = ("42501", "42P01")
_told: set[str] = set()
TOLD_AT_MOST = 100
COMMAND_SECONDS = 60.0  # for the answer to a statement


class Disturbed(StoreUnavailable):
    """A deadlock or a conflict with another transaction: everything was rolled back."""


class away:  # noqa: N801 - reads as a statement: with away()
    """Turns whatever the driver raises into an error of ours: `StoreUnavailable` while the database
    is away or refuses for now."""

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, TaskForgeError):
            ours = _translated(error)
            if ours is not None:
                raise ours from error


def _translated(error: Exception) -> TaskForgeError | None:
    # NUL, which it finds (in JSON by another name), or half of a surrogate pair, which the driver
    # finds: no column can hold them. In a list the driver has an error of its own for that.
    if isinstance(
        error, asyncpg.CharacterNotInRepertoireError | asyncpg.UntranslatableCharacterError
    ) or (isinstance(error, asyncpg.DataError | ValueError) and "codec" in str(error)):
        return Invalid(
            "text", "holds a character that cannot be stored", "use valid Unicode text without NUL"
        )
    if isinstance(error, asyncpg.TransactionRollbackError | asyncpg.InvalidCachedStatementError):
        return Disturbed(_words(error))
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        _tell(error)
        return Conflict(
            f"it does not fit what is stored ({error.constraint_name or type(error).__name__})"
        )
    if isinstance(error, asyncpg.PostgresError):
        code = error.sqlstate or ""
        if code.startswith(_FAULTS) and code not in _PASSING:
            return _fault(error)
        return StoreUnavailable(_words(error))
    if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):
        return _fault(error)  # a value that does not fit its parameter
    if isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError | OSError):
        return StoreUnavailable(_words(error))
    if _is_the_drivers_own(error):
        return StoreUnavailable(_words(error))
    return None


def _is_the_drivers_own(error: Exception) -> bool:
    """Whether the driver itself stumbled, as it may over a connection that broke under it: then it
    is an error of any kind."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__", "")).startswith(
        "asyncpg."
    )


def is_read_only(error: BaseException | None) -> bool:
    return isinstance(error, asyncpg.ReadOnlySQLTransactionError)


def is_broken(error: BaseException | None) -> bool:
    """Whether all that is known is that a connection ended under a call."""
    ended = (
        asyncpg.InternalClientError
        | asyncpg.ConnectionDoesNotExistError
        | asyncpg.AdminShutdownError
        | ConnectionError
    )
    return isinstance(error, ended) or (
        isinstance(error, asyncpg.InterfaceError) and not isinstance(error, ValueError)
    )


def not_reached(error: Exception, waited_seconds: float) -> StoreUnavailable:
    """Whatever keeps us from a connection, for which we waited so long at most."""
    if isinstance(error, StoreUnavailable):
        return error
    return StoreUnavailable(_words(error, f"no connection within {waited_seconds:g} s"))


def not_opened(error: TaskForgeError) -> TaskForgeError:
    """The same for who opens a store for the first time, where it is mostly the URL, or what was
    not prepared: what to do."""
    cause = error.__cause__
    step = _next_step(cause) if isinstance(cause, Exception) else None
    if step is None or not isinstance(error, StoreUnavailable | StoreFault):
        return error
    return StoreUnsuitable(f"PostgreSQL refuses: {cause}", step)


def _next_step(cause: Exception) -> str | None:
    match cause:
        case asyncpg.InvalidCatalogNameError():
            return "create the database (`createdb`), or name another one in the URL"
        case asyncpg.InvalidPasswordError():
            return "correct the user or the password in the URL (or PGPASSWORD, or ~/.pgpass)"
        case asyncpg.InvalidAuthorizationSpecificationError():
            return "correct the user in the URL, create that role, or let it in (pg_hba.conf)"
        case asyncpg.InsufficientPrivilegeError():
            return (
                "let the owner of the database `grant create on database … to` this role, run "
                "`taskforge migrate` as a role that "
                "may, or grant this one what docs/guides/postgres.md lists"
            )
        case (
            asyncpg.UndefinedObjectError()
            | asyncpg.CantChangeRuntimeParamError()
            | asyncpg.InvalidParameterValueError()
        ):
            return "leave out, or correct, what stands behind the ? of the URL"
        case asyncpg.InterfaceError() if isinstance(cause, ValueError):
            return "write the URL like postgresql://user:password@host:5432/database"
        case _:
            return None


def _words(error: Exception, on_timeout: str = f"no answer within {COMMAND_SECONDS:g} s") -> str:
    """A time that is over has no words of its own: `on_timeout` says what was waited for."""
    text = str(error) or (on_timeout if isinstance(error, TimeoutError) else "no reason given")
    return f"PostgreSQL does not serve just now: {type(error).__name__}: {text}"


def _fault(error: Exception) -> StoreFault:
    _tell(error)
    return StoreFault(
        f"the store refused a statement: {type(error).__name__}; this is a fault of TaskForge, "
        f"please report it"
    )


def _tell(error: Exception) -> None:
    """With its traceback, once: the same fault may be met by every call."""
    what = f"{type(error).__name__} {getattr(error, 'constraint_name', '')} {str(error)[:80]}"
    if what not in _told and len(_told) < TOLD_AT_MOST:
        _told.add(what)
        logger.error("the store refused a statement, please report this", exc_info=error)
