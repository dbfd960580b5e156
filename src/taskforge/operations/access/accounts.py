"""Logging in, staying logged in, joining and resetting. What a stranger can try is counted before
it is looked at."""

import hmac
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import msgspec

from taskforge.domain.access import Forbidden, Role, Throttled, Unauthenticated
from taskforge.domain.audit import Note
from taskforge.domain.errors import Invalid, NotFound
from taskforge.domain.tenancy import (
    Invitation,
    Member,
    User,
    check_email,
    check_name,
    check_password,
)
from taskforge.operations.access import secret
from taskforge.operations.access.access_tokens import AccessTokens
from taskforge.operations.access.passwords import Passwords
from taskforge.storage.records.kinds import RecordKinds

DAY = 86_400.0
SESSION_SECONDS, REFRESH_SECONDS = 7 * DAY, 30 * DAY
BROWSER_SECONDS = 180 * DAY
RESET_SECONDS, LOGIN_SECONDS, INVITATION_SECONDS = DAY, DAY, 7 * DAY
RETURN_SECONDS = 3_600.0  # far longer than an attempt at single sign-on lives
TRIES_WINDOW_SECONDS = 60.0
TRIES_OF_ACCOUNT, TRIES_OF_ADDRESS = 5, 30


class Session(msgspec.Struct, frozen=True):
    secret: str
    expires_at: datetime
    user: User
    organization: int


class IssuedTokens(msgspec.Struct, frozen=True):
    """Tokens for API use."""

    access_token: str
    expires_in: int
    refresh_token: str


class Accounts:
    def __init__(
        self,
        records: RecordKinds,
        passwords: Passwords,
        tokens: AccessTokens,
        key: bytes,
        forget: Callable[[], None],
        clock: Callable[[], datetime],
    ) -> None:
        self._records = records
        self._passwords = passwords
        self._tokens = tokens
        self._key = key
        self._forget = forget
        self._clock = clock

    # --- Logging in ---

    async def check(
        self, email: str, password: str, organization: str | None, origin: str, browser: str = ""
    ) -> tuple[User, Member]:
        """The user whose password this is, and where it takes them. Wrong name and wrong password
        look and last alike. `browser` is what `mark_browser` gave to one that logged in before."""
        user = await self._proven(email.strip().lower()[:254], password, origin, browser)
        if user is None:
            raise Unauthenticated("email or password is wrong")
        return user, await self._place(user, organization)

    async def _proven(
        self, email: str, password: str, origin: str, browser: str = ""
    ) -> User | None:
        """The user, if this is their password. The only place that looks at one: every try is
        counted before. Strangers together have one count for an account; a browser that logged in
        to it before has its own, so that no stranger's guessing keeps its owner out."""
        if self._is_marked(browser, email):
            account = f"browser:{secret.hashed(browser).hex()}"
            await self._count_try(account, TRIES_OF_ACCOUNT)
        else:
            account = f"login:{secret.hashed(email).hex()}"
            await self._count_stranger(account, f"address:{origin}")
        user = await self._records.users.with_email(email)
        usable = user is not None and user.disabled_at is None
        if not await self._passwords.fits(
            user.password if user is not None and usable else None, password[:1_000]
        ):
            return None
        await self._records.throttles.forgive(account)
        return user

    async def _count_stranger(self, account: str, address: str) -> None:
        """What is refused for its account does not count for its address, and the other way round:
        guessing at one account shuts nobody else out, also where many try at once."""
        await self._count_try(account, TRIES_OF_ACCOUNT)
        try:
            await self._count_try(address, TRIES_OF_ADDRESS)
        except Throttled:
            await self._records.throttles.take_back(account)
            raise

    async def _count_try(self, key: str, most: int) -> None:
        """Before the password is looked at; one that is refused lengthens no wait."""
        throttles = self._records.throttles
        if (
            await throttles.tries(key, TRIES_WINDOW_SECONDS) >= most
            or await throttles.count_try(key, TRIES_WINDOW_SECONDS) >= most
        ):
            raise Throttled(TRIES_WINDOW_SECONDS)

    def mark_browser(self, user: User) -> str:
        """What a browser keeps after a login: it opens nothing, and gives the next logins to this
        account a count of their own."""
        number = uuid4().hex
        return f"{number}.{self._sign_browser(number, user.email)}"

    def _is_marked(self, browser: str, email: str) -> bool:
        number, _, signature = browser.partition(".")
        return bool(signature) and hmac.compare_digest(
            self._sign_browser(number, email).encode(), signature.encode("utf-8", "replace")
        )

    def _sign_browser(self, number: str, email: str) -> str:
        said = f"browser:{number}:{email}".encode("utf-8", "replace")
        return hmac.new(self._key, said, "sha256").hexdigest()

    async def _place(self, user: User, organization: str | None) -> Member:
        places = await self._records.members.of_user(user.id)
        if organization is not None:
            names = {one.name: one.number for one in await self._records.organizations.all()}
            places = [one for one in places if one.organization == names.get(organization)]
        if not places:
            raise Unauthenticated("email or password is wrong")
        return places[0]

    async def begin_session(self, user: User, organization: int, note: Note) -> Session:
        made = secret.fresh(secret.SESSION)
        token = await self._records.tokens.issue(
            "session", secret.hashed(made), user.id, organization, SESSION_SECONDS, note
        )
        return Session(made, token.expires_at, user, organization)

    async def session_by_link(self, login: str, make_note: Callable[[str, int], Note]) -> Session:
        """A one-time login link, as the first start prints it."""
        token = await self._records.tokens.use("login", secret.hashed(login))
        user = None if token is None else await self._records.users.get(token.member)
        if token is None or user is None or user.disabled_at is not None:
            raise Unauthenticated("this link was used already, or is too old; ask for a new one")
        return await self.begin_session(
            user, token.organization, make_note(user.email, token.organization)
        )

    async def is_first_return(self, state: str) -> bool:
        """Whether nobody came back from single sign-on with this state before: on any server, it
        works once."""
        return (
            await self._records.throttles.count_try(
                f"return:{secret.hashed(state).hex()}", RETURN_SECONDS
            )
            == 0
        )

    async def vouched_for(self, email: str) -> tuple[User, Member]:
        """The user whose address a provider vouches for, and where it takes them. They were invited
        before, or stay outside.

        Beyond ASCII only lower case fits: some capital letters there become other people's (the
        Kelvin sign turns into a k)."""
        user = None
        if email.isascii() or email == email.lower():
            try:
                user = await self._records.users.with_email(check_email(email))
            except Invalid:
                user = None
        places = (
            []
            if user is None or user.disabled_at is not None
            else await self._records.members.of_user(user.id)
        )
        if user is None or not places:
            raise Forbidden(
                "nobody with your email address is a member here; ask an admin to invite you"
            )
        return user, places[0]

    async def end_session(self, session: str, note: Note) -> None:
        token = await self._records.tokens.valid("session", secret.hashed(session))
        if token is not None:
            await self._records.tokens.end_family(token.family, note)
        self._forget()

    def csrf_token(self, session: str) -> str:
        """What a page of ours must send along with a session cookie; another site cannot know
        it."""
        return hmac.new(
            self._key, b"csrf:" + session.encode("utf-8", "replace"), "sha256"
        ).hexdigest()

    def fits_csrf(self, session: str, token: str) -> bool:
        return hmac.compare_digest(
            self.csrf_token(session).encode(), token.encode("utf-8", "replace")
        )

    async def grant(
        self, user: User, organization: int, note: Note, family: UUID | None = None
    ) -> IssuedTokens:
        refresh = secret.fresh(secret.REFRESH)
        token = await self._records.tokens.issue(
            "refresh", secret.hashed(refresh), user.id, organization, REFRESH_SECONDS, note, family
        )
        access, seconds = self._tokens.make(user.id, organization, user.epoch, token.family)
        return IssuedTokens(access, seconds, refresh)

    async def refresh(self, refresh: str, make_note: Callable[[str, int], Note]) -> IssuedTokens:
        token = await self._records.tokens.use("refresh", secret.hashed(refresh))
        user = None if token is None else await self._records.users.get(token.member)
        if token is None or user is None or user.disabled_at is not None:
            self._forget()  # a token used twice has just ended its family
            raise Unauthenticated(
                "this refresh token was used already, or is too old; log in again"
            )
        return await self.grant(
            user, token.organization, make_note(user.email, token.organization), token.family
        )

    async def end_grant(self, refresh: str, make_note: Callable[[str, int], Note]) -> None:
        token = await self._records.tokens.valid("refresh", secret.hashed(refresh))
        user = None if token is None else await self._records.users.get(token.member)
        if token is None or user is None:
            raise Unauthenticated("this refresh token is not valid any more")
        await self._records.tokens.end_family(
            token.family, make_note(user.email, token.organization)
        )
        self._forget()

    # --- Passwords ---

    async def change_password(
        self, user: UUID, current: str, new: str, origin: str, note: Note
    ) -> None:
        found = await self._records.users.get(user)
        if found is None:
            raise NotFound("user", str(user))
        check_password(new)
        if found.password is not None:
            await self.check(found.email, current, None, origin)
        await self._records.users.set_password(found, await self._passwords.hash(new), note)
        self._forget()

    async def offer_reset(self, member: Member, note: Note) -> str:
        """A one-time secret with which the user sets a new password; whoever asked hands it
        over."""
        made = secret.fresh(secret.RESET)
        await self._records.tokens.issue(
            "reset", secret.hashed(made), member.user, member.organization, RESET_SECONDS, note
        )
        return made

    async def reset_password(
        self, reset: str, new: str, make_note: Callable[[str, int], Note]
    ) -> None:
        check_password(new)
        token = await self._records.tokens.use("reset", secret.hashed(reset))
        user = None if token is None else await self._records.users.get(token.member)
        if token is None or user is None:
            raise Unauthenticated(
                "this reset token was used already, or is too old; ask for a new one"
            )
        if any(
            one.organization != token.organization
            for one in await self._records.members.of_user(user.id)
        ):
            # Whoever offered it may be an administrator of one organization alone, and would get
            # into the other.
            raise Unauthenticated(
                "you joined another organization since; this reset token is not valid any more"
            )
        await self._records.users.set_password(
            user, await self._passwords.hash(new), make_note(user.email, token.organization)
        )
        self._forget()

    # --- Joining ---

    async def invite(
        self, organization: int, email: str, role: Role, note: Note | None
    ) -> tuple[Invitation, str]:
        made = secret.fresh(secret.INVITATION)
        until = self._clock() + timedelta(seconds=INVITATION_SECONDS)
        return await self._records.invitations.create(
            organization, check_email(email), role, secret.hashed(made), until, note
        ), made

    async def accept(
        self,
        invitation: str,
        name: str,
        password: str,
        origin: str,
        make_note: Callable[[str, int], Note],
    ) -> Invitation:
        """A new user chooses a password; one who is known proves to be the one invited with the
        password they have."""
        found = await self._records.invitations.with_token(secret.hashed(invitation))
        if found is None:
            raise Unauthenticated(
                "this invitation was used already, or is too old; ask for a new one"
            )
        check_name("name", name)
        user, hashed = await self._records.users.with_email(found.email), None
        if user is None:
            hashed = await self._passwords.hash(check_password(password))
        elif user.password is not None and await self._proven(user.email, password, origin) is None:
            raise Unauthenticated(
                "this password does not fit this invitation; if you have an account, use its "
                "password, or reset it first"
            )
        await self._records.invitations.accept(
            found, name, hashed, make_note(found.email, found.organization)
        )
        self._forget()
        return found

    # --- The first start, and whoever has the store in hand ---

    async def is_first_start(self) -> bool:
        """True once for a store, however many servers start together."""
        return await self._records.shared_secrets.claim("first start", b"done")

    async def login_secret(self, email: str, organization: int, note: Note) -> str:
        """A one-time login for an owner, who is made where there is none yet."""
        user = await self._records.users.with_email(email)
        if user is None:
            user = await self._records.members.add(organization, email, "Owner", Role.OWNER, note)
        made = secret.fresh(secret.LOGIN)
        await self._records.tokens.issue(
            "login", secret.hashed(made), user.id, organization, LOGIN_SECONDS, note
        )
        return made
