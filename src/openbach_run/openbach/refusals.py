# SPDX-License-Identifier: GPL-3.0-or-later
"""The backend's answers to a scenario that it refuses or crashes on, and their words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from openbach_run.errors import InputError
from openbach_run.openbach.job import WrongType

NUMBER = (int, float, str)
MAX_LENGTH = 500
TOO_LONG = "value too long for type character varying(500)\n"


class Malformed(InputError):
    """A scenario that the backend refuses.

    `status` and `answer` are those of its HTTP response; `advice` is ours.
    """

    def __init__(self, status: int, answer: dict[str, Any], advice: str = "") -> None:
        """Make the error for a response, and with what would be right."""
        self.status = status
        self.answer = answer
        super().__init__("; ".join(filter(None, (in_words(answer), advice))))


class Refusal(Exception):
    """An `error_message` on its way up; its place may be added later."""

    def __init__(self, error: str, entry: str | None, advice: str = "", **more: Any) -> None:
        """Make the error for a place, with what would be right, and `more` of the message."""
        super().__init__(error)
        self.advice = advice
        self.message = {
            "error": error,
            **({} if entry is None else {"offending_entry": entry}),
            **more,
        }


class Crash(Exception):
    """An error that makes the backend answer 500."""

    def __init__(self, kind: str, text: str, advice: str = "") -> None:
        """Make the error for Python's exception `kind`, with what would be right."""
        super().__init__(text)
        self.kind, self.advice = kind, advice


class BadPlaceholder(ValueError):
    """A `$` that begins no placeholder and is not `$$`; the text is the backend's."""

    def __init__(self) -> None:
        """Make the error with the backend's text."""
        super().__init__(
            "value uses the placeholder escape symbol ($) but does not provide a valid identifier"
        )


class NoValue(ValueError):
    """A placeholder that has no value at start; the text is the backend's."""

    def __init__(self, name: str) -> None:
        """Make the error for the name of a placeholder."""
        super().__init__(
            f"value contains a placeholder ({name!r}) that is not found in provided parameters"
        )


def crash_answer(kind: str, text: str) -> dict[str, Any]:
    """Return the backend's answer where an error of Python ends it."""
    return {
        "message": "Unexpected exception appeared",
        "error": text,
        "traceback": f"{kind}: {text}",
    }


@contextmanager
def refusing(place: str) -> Iterator[None]:
    """Turn Python's errors into what the backend makes of them while it fills a function's row."""
    try:
        yield
    except Refusal as refusal:
        refusal.message.setdefault("offending_entry", place)
        raise
    except (WrongType, BadPlaceholder) as error:
        raise Refusal(as_list(error), place) from None
    except KeyError as error:
        raise Refusal(f"Missing entry '{error}'", place) from None
    except (TypeError, ValueError) as error:
        raise Refusal(str(error), place) from None
    except (AttributeError, OverflowError) as error:
        raise Crash(type(error).__name__, str(error)) from None


def as_list(error: Exception) -> str:
    """Return Django's text of a validation error: a list of one text."""
    return repr([str(error)])


def in_words(answer: Mapping[str, Any]) -> str:
    """Return an answer of the backend for a person."""
    if "message" in answer:
        return (
            "the OpenBACH backend would crash on this scenario (HTTP 500:"
            f" {_unwrapped(answer['error'])})"
        )
    message = answer.get("error_message", {"error": answer["error"]})
    if isinstance(message, str):
        return f"{answer['error']} {_unwrapped(message)}"
    where = f"{message['offending_entry']}: " if "offending_entry" in message else ""
    shown = ""
    if message.get("expected_type", "None") != "None":
        wanted = JSON_TYPES.get(message["expected_type"], "")
        shown = f" (is {message['offending_value']!r}{', should be ' * bool(wanted)}{wanted})"
    return f"{where}{_unwrapped(message['error'])}{shown}"


def _unwrapped(error: str) -> str:
    """Return the text in Django's list of one text; in words where it is Python's own."""
    text = error[2:-2] if error.startswith(("['", '["')) else error.strip()
    return IN_WORDS.get(text, text)


IN_WORDS = {
    "'property' object is not callable": (
        "a condition cannot compare with a value (OpenBACH's code for it fails: "
        "'property' object is not callable)"
    ),
}
"""Texts of the backend when Python fails in it → the same for people."""
JSON_TYPES = {
    str(dict): "a JSON object",
    str(list): "a list",
    str(str): "a text",
    str(int): "a whole number",
    str(float): "a number",
    str(NUMBER): "a number or a text",
}
