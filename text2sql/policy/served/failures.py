"""What a server's answer means: a chat completion, a temporary failure, or a permanent one."""

from __future__ import annotations

import email.utils
import json
import math
import re
import time
from collections.abc import Mapping
from typing import Any

from text2sql.errors import InfrastructureError, Text2SqlError
from text2sql.policy.base import ContextOverflow
from text2sql.policy.served.connections import HttpAnswer
from text2sql.policy.served.streams import Broken, assembled, chunks_in

# How OpenAI, vLLM, SGLang, llama.cpp, TGI, TensorRT-LLM, Ollama, LiteLLM and hosted models each say
# that a conversation is too long.
_OVERFLOW = re.compile(
    r"""context[ _]?(?:length|size|window|limit) | remaining\scontext | exceed_context | n_ctx
      | max(?:imum)?[ _](?:model|seq|sequence|prompt)[ _]len | sequence\slength
      | maximum\s(?:(?:allowed|input|sequence|prompt)\s)+length | range\sof\sinput\slength
      | (?:prompt|input|request|messages)\s(?:\([^)]*\)\s)?(?:(?:is|was|are)\s)?too\slong
      | prompt\s(?:length\s.*\s)?exceeds | token\scount\sof\s\S+\sexceeds | input\stokens\sexceed
      | inputs?\W?\stokens\s\+ | inputs?\W?\smust\shave\s(?:less|fewer)\sthan\s\d+\stokens
      | input\stoken\scount | too\smany\s(?:input\s)?tokens | tokens\sin\srequest
      | model\stoken\slimit | reduce\sthe\slength | no\suser\squery\sfound
      | token\slimit\sexceeded | exceed\smax\smessage\stokens
      | max_\w*tokens\W+(?:\S+\s)?must\sbe\s(?:at\sleast\s1|greater\sthan\s0)\b""",
    re.IGNORECASE | re.VERBOSE,
)
# A rate limit may count tokens, but says nothing about the length.
_BUSY = re.compile(
    r"throttl|rate[ _-]?limit|\bper (?:second|minute|hour|day)|please wait|overload|again later",
    re.IGNORECASE,
)
_NO_TOOLS = re.compile(
    r"enable-auto-tool-choice|requires --jinja|support tool use"
    r"|not support (?:tool|function|parameters: \[.tool)"
)
# The model's call did not have the server's form: Groq, Ollama, llama.cpp and vLLM say it so.
_BROKEN_CALL = re.compile(
    r"tool_use_failed|failed_generation|tool call validation failed|malformed_function_call"
    r"|(?:error|failed)(?: to)? pars\w+ (?:the )?(?:input at|(?:tool|function)[ _-]?calls?)",
    re.IGNORECASE,
)
_PASSING = (408, 409, 424, 425, 429)  # 424: TGI and Bedrock, when the model failed
REDIRECTS = (301, 302, 303, 307, 308)
_LOST = (*REDIRECTS, 401, 403, 404, 405)
_READ_BYTES = 20_000
_REASON_CHARS = 300


class Retryable(Exception):
    """A temporary failure; ``after`` is the wait that the server asked for, in seconds."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


class BrokenCall(Retryable):
    """The model wrote a call that the server could not read; ``completion`` has its text."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(reason)
        message = {"role": "assistant", "content": text}
        self.completion = {"choices": [{"message": message, "finish_reason": "stop"}]}


def completion_in(answer: HttpAnswer) -> Any:
    """Return the JSON of a successful answer; a server may still report an error in it.

    A stream, which some servers and proxies send unasked, is assembled. Raises Retryable, and
    ContextOverflow for a conversation that is too long.
    """
    try:
        found = json.loads(answer.content.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        found = _streamed(answer.content)
    if _is_failure(found):
        raise _reported(answer.content)
    return found


def _streamed(content: bytes) -> Any:
    """Return the completion in an event stream; raise Retryable if there is none."""
    try:
        chunks = chunks_in(content.decode("utf-8-sig"))
        failed = next((chunk for chunk in chunks if _is_failure(chunk)), None)
        if failed is not None:
            raise _reported(json.dumps(failed).encode())
        if chunks:
            return assembled(chunks)
    except Broken as error:
        raise Retryable(str(error)) from error
    except UnicodeDecodeError:
        pass  # neither JSON nor a stream
    if not content.strip():
        raise Retryable("the answer is empty")
    text = content[:_READ_BYTES].decode("utf-8", errors="replace")
    raise Retryable(f"the answer is not JSON: {' '.join(text[:80].split())!r}")


def _is_failure(found: Any) -> bool:
    """Say whether a server's JSON reports an error."""
    if not isinstance(found, dict):
        return False
    bare = "choices" not in found and not {"message", "detail"}.isdisjoint(found)
    return bool(found.get("error")) or found.get("object") == "error" or bare


def refusal(answer: HttpAnswer, url: str, model: str, *, proven: bool) -> Exception:
    """Return the exception for an error answer.

    Until a server has answered once (``proven``), a wrong key, model or address is the user's to
    fix. Afterwards the server, or a proxy in front of it, has failed.
    """
    code, reason = answer.status, error_text(answer.content)
    if code not in (401, 403, 404, 429) and overflows(answer.content):
        return ContextOverflow(reason)
    if code in (400, 422, 500) and _BROKEN_CALL.search(error_details(answer.content)):
        return BrokenCall(f"HTTP {code}: {reason}", _failed_generation(answer.content))
    if _NO_TOOLS.search(reason):
        return Text2SqlError(f"The policy server at {url} cannot call tools: {reason}.")
    passing = code >= 500 or code in _PASSING or (code == 400 and _BUSY.search(reason))
    if passing or (proven and code in _LOST):
        return Retryable(f"HTTP {code}: {reason}", wait_asked(answer.headers))
    if code in (401, 403):
        return Text2SqlError(
            f"The policy server at {url} refused the key (HTTP {code}); set TEXT2SQL_API_KEY to a "
            "valid one."
        )
    if code in (404, 405):
        return Text2SqlError(
            f"The policy server at {url} has no model {model!r} or no chat completions: {reason}."
        )
    if code in REDIRECTS:
        place = answer.headers.get("location", "no location given")
        return Text2SqlError(
            f"The policy server at {url} redirects (HTTP {code}: {place}); give the final address."
        )
    return InfrastructureError(f"The policy server at {url} answered HTTP {code}: {reason}.")


def overflows(content: bytes) -> bool:
    """Say whether an error answer is about a conversation that is too long."""
    details = error_details(content)
    return _OVERFLOW.search(details) is not None and _BUSY.search(details) is None


def error_details(content: bytes) -> str:
    """Return an error answer's message, code and type."""
    return " ".join(_error_fields(content))


def error_text(content: bytes) -> str:
    """Return the message of an error answer, at most 300 characters."""
    text = " ".join(_error_fields(content)[0].split())
    return text[:_REASON_CHARS].rstrip(".") or "no reason given"


def wait_asked(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer's headers ask to wait; None if they do not."""
    wait = retry_after(headers.get("retry-after"))
    milliseconds = None if wait is not None else _seconds(headers.get("retry-after-ms", ""))
    return wait if milliseconds is None else milliseconds / 1000


def retry_after(value: str | None) -> float | None:
    """Read a Retry-After header, in seconds or as a date; None if it is missing or invalid."""
    if not value:
        return None
    if (seconds := _seconds(value)) is not None:
        return seconds
    try:
        moment = email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, moment - time.time())


def _seconds(value: str) -> float | None:
    """Read a finite number; a negative one is 0."""
    try:
        number = float(value)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _error_fields(content: bytes) -> list[str]:
    """Return the message of an error answer, then its code and its type if it has them."""
    text = content[:_READ_BYTES].decode("utf-8", errors="replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    if isinstance(found, dict):
        found = found.get("error") or found.get("detail") or found
    if not isinstance(found, dict):
        return [str(found)]
    return [str(found.get("message") or found), str(found.get("code")), str(found.get("type"))]


def _failed_generation(content: bytes) -> str:
    """Return what the model wrote, as far as the error answer quotes it."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    error = found.get("error") if isinstance(found, dict) else None
    text = error.get("failed_generation") if isinstance(error, dict) else None
    if isinstance(text, str):
        return text
    quoted = re.search(r"raw='(.*)', err=", error_details(content), re.DOTALL)
    return quoted[1] if quoted else ""


def _reported(content: bytes) -> Exception:
    """Return the exception for an error within a successful answer."""
    reason = error_text(content)
    return ContextOverflow(reason) if overflows(content) else Retryable(reason)
