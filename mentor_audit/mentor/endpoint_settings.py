"""What `[mentor] options` may say of an endpoint, and the key from the environment."""

import os

import httpx
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from mentor_audit.config import MentorSection, explain
from mentor_audit.errors import ConfigError
from mentor_audit.mentor.endpoint_cache import ChatUsage


class Prices(BaseModel):
    """Money per million tokens, in whatever currency `budget_money` is in."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    input: float = Field(ge=0)
    cached_input: float | None = Field(default=None, ge=0, description="None: as other input")
    output: float = Field(ge=0)

    def of(self, usage: ChatUsage) -> float:
        """Of what was reported; what was not counts nothing."""
        prompt = usage.prompt_tokens or 0
        cached = min(prompt, usage.cached_tokens or 0)
        cached_price = self.input if self.cached_input is None else self.cached_input
        return ((prompt - cached) * self.input + cached * cached_price + (usage.output_tokens or 0) * self.output) / 1e6


class EndpointSettings(BaseModel):
    """An OpenAI-compatible chat endpoint. Model, temperature and max_tokens are `[mentor]`'s own."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
    base_url: str = Field(description="up to and with /v1")
    api_key_env: str | None = Field(default=None, description="NAME of the environment variable with the key; None: no key")
    timeout_s: float = Field(default=60.0, gt=0, description="for each wait on the server, and for an answer as a whole")
    concurrency: int = Field(default=8, ge=1, description="calls at a time, a rank")
    retries: int = Field(default=4, ge=0, le=20, description="tries after the first")
    max_wait_s: float = Field(
        default=60.0, ge=0, description="longest wait before a try; a server that asks for more is given up"
    )
    prices: Prices | None = None
    budget_tokens: int | None = Field(default=None, ge=1, description="of a run, all launches: input and output")
    budget_money: float | None = Field(default=None, gt=0, description="of a run, all launches; needs prices")

    @field_validator("base_url")
    @classmethod
    def _plain(cls, url: str) -> str:
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            raise ValueError("expected a URL such as http://127.0.0.1:8000/v1, found one that can't be read") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ValueError("expected a URL such as http://127.0.0.1:8000/v1, found none with http(s) and a host")
        if parsed.userinfo or parsed.query or parsed.fragment:
            raise ValueError("expected a URL without user, password, query and fragment, found some; name the key in api_key_env")
        return url

    @field_validator("api_key_env")
    @classmethod
    def _name(cls, name: str | None) -> str | None:
        if name is not None and not name.isidentifier():
            raise ValueError(
                "expected the NAME of an environment variable, found something else; a key itself is never a setting"
            )
        return name

    @model_validator(mode="after")
    def _fits(self) -> "EndpointSettings":
        if self.budget_money is not None and self.prices is None:
            raise ValueError("budget_money needs prices = { input = ..., output = ... }, per million tokens")
        return self


def endpoint_settings(section: MentorSection) -> EndpointSettings:
    """The options of a `[mentor]` section of kind `endpoint`. Raises ConfigError for an unknown or impossible one, or no model."""
    if not section.model:
        raise ConfigError('Expected mentor.model with kind = "endpoint", found none. Name the model as the server calls it.')
    try:
        return EndpointSettings.model_validate(section.options)
    except ValidationError as error:
        raise ConfigError(explain(error, EndpointSettings, "[mentor.options]")) from error


def read_key(name: str | None) -> SecretStr | None:
    """The key in environment variable `name`; None: the endpoint takes none. Raises ConfigError, without the key in it."""
    if name is None:
        return None
    key = os.environ.get(name, "").strip()
    if not key:
        raise ConfigError(
            f"Expected the endpoint's key in the environment variable {name}, found it unset or empty. Set it, or leave "
            "mentor.options.api_key_env out for an endpoint without a key."
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"Expected a key of printable ASCII without spaces in the environment variable {name}, found other characters in it. "
            "Set it again."
        )
    return SecretStr(key)
