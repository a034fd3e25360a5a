"""Addresses as people and files may see them: without passwords and tokens."""

from __future__ import annotations

import re

HIDDEN = "***"
_WITH_PASSWORD = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^\s@:/'\"]*):\S*@")
_TOKEN_ALONE = re.compile(r"(https?://)[^\s@:/'\"]+@")  # as user of a web address it is a token, not a name
_PARAMETER = re.compile(r"([?&;](?:\w*password|passwd|pwd|\w*token|\w*secret|api_?key)=)[^&;#\s]*", re.IGNORECASE)


def masked(text: str) -> str:
    """The text with `***` in the place of each password and token of an address in it, however they are written.

    It rather hides too much: from the first colon behind the user's name to the last `@` of the word.
    """
    text = _WITH_PASSWORD.sub(rf"\1:{HIDDEN}@", text)
    text = _TOKEN_ALONE.sub(rf"\g<1>{HIDDEN}@", text)
    return _PARAMETER.sub(rf"\g<1>{HIDDEN}", text)


def is_masked(address: str) -> bool:
    """True where an address has lost its password, so that nothing can be reached by it."""
    return HIDDEN in address
