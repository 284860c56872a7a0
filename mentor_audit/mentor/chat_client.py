"""Calls of an OpenAI-compatible chat endpoint: retried, paid for once, and never an exception for what a server does.

`ChatClient.complete` answers a list of requests in order. A call that failed is an answer too, with what it cost and why in words.
The key comes from the environment, travels in one header, and is cut out of everything that a server sends back.
"""

import email.utils
import json
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from mentor_audit.mentor.chat_reply import excerpt, json_object, read_reply, read_usage
from mentor_audit.mentor.endpoint_cache import ChatUsage, Ledger, ReplyCache, request_key
from mentor_audit.mentor.endpoint_settings import EndpointSettings, read_key
from mentor_audit.protocols import Price

MAX_BODY_BYTES = 2_000_000
FIRST_WAIT_SECONDS = 1.0
DIALECTS: tuple[frozenset[str], ...] = (
    frozenset(),
    frozenset({"response_format"}),
    frozenset({"max_tokens"}),
    frozenset({"response_format", "max_tokens"}),
)
"""Parts of a request that a server may refuse: `response_format` is then left out, `max_tokens` called `max_completion_tokens`."""


@dataclass(frozen=True)
class ChatRequest:
    """`body` as the API takes it. `seed` is that of the waits between tries; `bound` the most that one try can cost, in tokens."""

    body: dict[str, Any]
    seed: int
    bound: Price


@dataclass(frozen=True)
class ChatAnswer:
    """One request's answer.

    text      what the model wrote; of a body that could not be read, what came of it; None: nothing came
    failed    there is no whole reply in `text`
    error     why it failed; of a whole reply, what is doubtful about it or its cost; None: nothing
    usage     what all tries at it cost, as reported; all 0 for one from the cache; None: no call was made
    call_id   `http:` and the request's hash; `cache:` and the same hash when an earlier launch had paid for it
    """

    text: str | None
    failed: bool
    error: str | None
    usage: ChatUsage | None
    call_id: str


@dataclass(frozen=True)
class _Received:
    """What came of one try. `status` None: no answer. `broke` says why it ended early, None: it did not."""

    status: int | None
    body: str
    broke: str | None = None
    may_be_paid: bool = True
    retry_after_seconds: float | None = None


class ChatClient:
    """`folder` keeps replies and ledger of one run; None: nothing is kept, and a call made again is paid again.

    Raises ConfigError when the key is not in the environment or the folder can't be made.
    """

    def __init__(
        self, settings: EndpointSettings, folder: Path | None = None, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._settings = settings
        self._url = f"{settings.base_url.rstrip('/')}/chat/completions"
        self._key = read_key(settings.api_key_env)
        self._cache = None if folder is None else ReplyCache(folder)
        self._ledger = Ledger(folder)
        self._sleep = sleep
        self._dialect = DIALECTS[0]

    def complete(self, requests: Sequence[ChatRequest]) -> list[ChatAnswer]:
        """One answer a request, in order; up to `concurrency` calls at a time."""
        if not requests:
            return []
        settings, limits = self._settings, httpx.Limits(max_connections=self._settings.concurrency)
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key.get_secret_value()}"}
        with (
            httpx.Client(headers=headers, timeout=settings.timeout_s, limits=limits) as client,
            ThreadPoolExecutor(min(settings.concurrency, len(requests))) as pool,
        ):
            return list(pool.map(lambda request: self._from_cache(request) or self._ask(client, request), requests))

    def _from_cache(self, request: ChatRequest) -> ChatAnswer | None:
        if self._cache is None:
            return None
        for dialect in DIALECTS:
            body = _spoken(request.body, dialect)
            reply = self._cache.get(self._url, body)
            if reply is not None:
                return ChatAnswer(*read_reply(reply), ChatUsage(0, 0, 0, 0), f"cache:{request_key(self._url, body)[:16]}")
        return None

    def _ask(self, client: httpx.Client, request: ChatRequest) -> ChatAnswer:
        rng, dialect, number = random.Random(f"{request.seed}:wait"), self._dialect, 1
        spent: ChatUsage | None = None
        doubt: str | None = None
        while True:
            body = _spoken(request.body, dialect)
            call_id = f"http:{request_key(self._url, body)[:16]}"
            if (over := self._over_budget()) is not None:
                return ChatAnswer(None, True, over, spent, call_id)
            received = self._send(client, body)
            value = json_object(received.body)
            spent = self._paid(call_id, received, value, request.bound) + (spent or ChatUsage())
            if received.status == 200:
                self._dialect = dialect
                return replace(self._answer(body, received, value, call_id, doubt), usage=spent)
            refused = _refused(received, dialect)
            if refused is not None:
                dialect = refused
                continue
            why = received.broke if received.status is None else f"HTTP {received.status}: {excerpt(received.body)}"
            wait_seconds = self._wait_seconds(received, number, rng)
            if wait_seconds is None:
                asked = received.retry_after_seconds
                tries = f"try {number} of {self._settings.retries + 1}" + (f", told to wait {asked:g} s" if asked else "")
                return ChatAnswer(None, True, f"{why} ({tries})", spent, call_id)
            if received.status is None and received.may_be_paid:
                doubt = f"an earlier try got no answer ({why}): what it cost is not known"
            self._sleep(wait_seconds)
            number += 1

    def _send(self, client: httpx.Client, body: dict[str, Any]) -> _Received:
        """One try. `timeout_s` holds for each wait on the server and, however slowly it drips, for the answer as a whole."""
        status, retry_after, content = None, None, bytearray()
        deadline = time.monotonic() + self._settings.timeout_s
        # json.dumps escapes what UTF-8 can't hold (lone surrogates in an attempt); httpx's own encoder would raise
        request = client.build_request(
            "POST", self._url, content=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
        )
        broke, may_be_paid = None, True
        try:
            response = client.send(request, stream=True)
            try:
                status, retry_after = response.status_code, _retry_after_seconds(response.headers.get("Retry-After"))
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > MAX_BODY_BYTES:
                        broke = f"the answer is longer than {MAX_BODY_BYTES} bytes"
                        break
                    if time.monotonic() > deadline:
                        broke = f"the answer was not whole after {self._settings.timeout_s:g} s"
                        break
            finally:
                response.close()
        except httpx.HTTPError as error:
            broke = self._without_key(f"{type(error).__name__}: {error}".rstrip(": "))
            may_be_paid = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
        text = self._without_key(content.decode("utf-8", "replace"))
        return _Received(status, text, broke, may_be_paid, retry_after)

    def _paid(self, call_id: str, received: _Received, value: dict[str, Any], bound: Price) -> ChatUsage:
        """What the server says that this try cost, put into the ledger. Where it may count one without saying so, the ledger gets `bound`."""
        usage = read_usage(value)
        if not usage.is_reported and received.may_be_paid and received.status in (None, 200):
            self._ledger.add(call_id, ChatUsage(bound.prompt_tokens, None, bound.output_tokens, None), is_estimate=True)
        elif usage != ChatUsage():
            self._ledger.add(call_id, usage)
        return usage

    def _answer(
        self, body: dict[str, Any], received: _Received, value: dict[str, Any], call_id: str, doubt: str | None
    ) -> ChatAnswer:
        """Of a try that the server answered with 200. What can be read is kept, a reply without text too: it was paid for."""
        if received.broke is None and isinstance(value.get("choices"), list):
            if self._cache is not None:
                self._cache.put(self._url, body, value)
            text, failed, error = read_reply(value)
            return ChatAnswer(text, failed, "; ".join(part for part in (error, doubt) if part) or None, None, call_id)
        if received.broke is not None:
            error = f"the answer broke off: {received.broke}"
        else:
            error = f"expected a chat completion as JSON, found {excerpt(received.body)}"
        return ChatAnswer(received.body or None, True, error, None, call_id)

    def _wait_seconds(self, received: _Received, number: int, rng: random.Random) -> float | None:
        """Before try `number` + 1; None: there is none. Doubles each time, with jitter, on top of what the server asks for."""
        status = received.status
        is_passing = status is None or status in (408, 429) or status >= 500
        asked = received.retry_after_seconds or 0.0
        if not is_passing or number > self._settings.retries or asked > self._settings.max_wait_s:
            return None
        backoff = FIRST_WAIT_SECONDS * 2.0 ** (number - 1) * rng.uniform(0.5, 1.0)
        return asked + min(backoff, self._settings.max_wait_s)

    def _over_budget(self) -> str | None:
        """Why no call may be made; None: one may. Calls under way when a budget runs out are finished."""
        settings, total = self._settings, self._ledger.total()
        tokens = (total.prompt_tokens or 0) + (total.output_tokens or 0)
        if settings.budget_tokens is not None and tokens >= settings.budget_tokens:
            return f"the budget of {settings.budget_tokens} tokens is used up ({tokens} spent): no more calls are made"
        if settings.budget_money is not None and settings.prices is not None:
            money = settings.prices.of(total)
            if money >= settings.budget_money:
                return f"the budget of {settings.budget_money:g} is used up ({money:g} spent): no more calls are made"
        return None

    def _without_key(self, text: str) -> str:
        """A key that stands in JSON in escapes is cut out as well."""
        if self._key is None:
            return text
        key = self._key.get_secret_value()
        for form in (key, key.replace("/", "\\/")):
            text = text.replace(form, "[key]")
        for length in range(len(key) - 1, 3, -1):  # a body that was cut in the middle of it
            text = f"{text[:-length]}[key]" if text.endswith(key[:length]) else text
        plain, escaped = json.dumps(json_object(text)), json.dumps(key)[1:-1]
        return plain.replace(escaped, "[key]") if escaped in plain else text


def _spoken(body: dict[str, Any], dialect: frozenset[str]) -> dict[str, Any]:
    """The body without what the server refuses."""
    spoken = {name: part for name, part in body.items() if name != "response_format" or name not in dialect}
    if "max_tokens" in dialect:
        spoken["max_completion_tokens"] = spoken.pop("max_tokens")
    return spoken


def _refused(received: _Received, dialect: frozenset[str]) -> frozenset[str] | None:
    """The dialect to try after a 400; None: it was for something else."""
    if received.status != 400:
        return None
    if "max_completion_tokens" in received.body and "max_tokens" not in dialect:
        return dialect | {"max_tokens"}
    return None if "response_format" in dialect else dialect | {"response_format"}


def _retry_after_seconds(header: str | None) -> float | None:
    """Seconds or a date; None: absent, or neither."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if seconds < float("inf") else None
