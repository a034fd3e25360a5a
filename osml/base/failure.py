"""What a command says when it cannot do its work: one sentence and an exit code (design, section 12)."""

from __future__ import annotations


class Failure(Exception):  # noqa: N818 - reads as what it is to a person, not as a fault of the program
    """The work failed: exit code 1. The message is one sentence for the user."""

    exit_code = 1


class InputError(Failure):
    """The input was wrong: exit code 2. The message names the field, the value and what was expected."""

    exit_code = 2


class MachineError(Failure):
    """This machine cannot do it: exit code 3. The message says what is missing and how to get it."""

    exit_code = 3
