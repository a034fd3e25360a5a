"""`osml run tokens`: create, list and revoke tokens of the server, in the file that it reads."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from osml.base.failure import InputError
from osml_serving.guards.grants import ANY_NODE, MEANINGS, ScopeName
from osml_serving.guards.token_file import NAME, NODE, TokenLine, parse, parse_line, read_token_file

app = typer.Typer(help="Create, list and revoke tokens of the server.", no_args_is_help=True)

SCOPES = "; ".join(f"{name}: {meaning}" for name, meaning in MEANINGS.items())
File = Annotated[Path, typer.Option("--file", envvar="OSML_TOKEN_FILE", help="The server's token file.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


@app.command()
def create(
    file: File,
    scope: Annotated[str, typer.Option(help=f"What the token allows. {SCOPES}.")] = "agent",
    node: Annotated[
        list[str] | None, typer.Option(help="Node that the token is for; repeat it for more, '*' for all.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the token in lists; without it, a random one.")] = None,
    days: Annotated[float, typer.Option(min=0.0, max=36_500.0, help="Days until the token expires; 0: never.")] = 365.0,
    as_json: AsJson = False,
) -> None:
    """Create a token and print it. It cannot be shown again: the file has only its hash.

    A server that reads this file accepts the token within seconds. Give a server with a copy of the file a new copy:
    systemd (LoadCredential) and podman (secrets) copy it at the start, so restart the server there.
    """
    token = "osml_" + secrets.token_urlsafe(32)
    line = _new_line(scope, node or [], name, days, token)
    with _edited(file) as (known, texts):
        if any(other.id == line.id for other in known):
            raise InputError(f"--name is '{line.id}', which is the name of another token in {file}; revoke that first")
        texts.append(msgspec.json.encode(line).decode())
    if as_json:
        print(json.dumps({"token": token, **_shown(line)}))
    else:
        print(token)
        until = "never expires" if line.expires is None else f"expires {line.expires:%Y-%m-%d}"
        print(f"token '{line.id}', scope {scope}, {until}; it is not shown again", file=sys.stderr)


@app.command("list")
def list_(file: File, as_json: AsJson = False) -> None:
    """List the tokens, without their secrets."""
    lines = parse(file, read_token_file(file))
    if as_json:
        print(json.dumps({"tokens": [_shown(line) for line in lines]}))
        return
    rows = [("NAME", "SCOPE", "NODES", "EXPIRES")]
    for line in lines:
        expires = "never" if line.expires is None else f"{line.expires:%Y-%m-%d %H:%M}Z"
        rows.append((line.id, line.scope, ",".join(line.nodes), "expired" if line.grant.expired else expires))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(help="Name of the token, from `osml run tokens list`.")], file: File
) -> None:
    """Remove a token. A server that reads this file refuses it within seconds.

    Give a server with a copy of the file a new copy: systemd (LoadCredential) and podman (secrets) copy it at the
    start, so restart the server there.
    """
    with _edited(file) as (known, texts):
        gone = [line for line in known if line.id == name]
        if not gone:
            raise InputError(f"{file} has no token '{name}'; `osml run tokens list` shows the names")
        if len(gone) == len(known):
            raise InputError(f"'{name}' is the last token in {file}, and a server needs one: create another one first")
        texts[:] = [text for text in texts if (line := parse_line(text)) is None or line.id != name]
    print(f"token '{name}' is revoked", file=sys.stderr)


def _new_line(scope: str, nodes: list[str], name: str | None, days: float, token: str) -> TokenLine:
    """The line of a new token. Raises InputError for flags that make no sense."""
    if scope not in MEANINGS:
        raise InputError(f"--scope is '{scope}', expected one of {', '.join(MEANINGS)}")
    if scope == "agent" and not nodes:
        raise InputError("--node is missing: a token of scope agent is for the nodes that it names, '*' for all")
    for node in nodes:
        if not NODE.match(node):
            raise InputError(f"--node is '{node[:80]}', expected letters, digits, '_', '.' and '-', or '*'")
    identity = name or (nodes[0] if len(nodes) == 1 and nodes[0] != ANY_NODE else scope) + "-" + secrets.token_hex(3)
    if not re.fullmatch(NAME, identity):
        raise InputError(f"--name is '{identity[:80]}', expected up to 63 letters, digits, '_', '.' and '-'")
    now = datetime.now(UTC).replace(microsecond=0)
    known_scope: ScopeName = scope
    return TokenLine(
        identity,
        known_scope,
        nodes or [ANY_NODE],
        hashlib.sha256(token.encode()).hexdigest(),
        created=now,
        expires=now + timedelta(days=days) if days else None,
    )


def _shown(line: TokenLine) -> dict[str, object]:
    shown: dict[str, object] = msgspec.to_builtins(line)
    shown.pop("sha256")
    return {"expires": None, **shown, "expired": line.grant.expired}


@contextmanager
def _edited(file: Path) -> Generator[tuple[list[TokenLine], list[str]]]:
    """The tokens and the lines of the file; what the block leaves of the lines is written, all or nothing.

    Two that write at once wait for each other; comments stay.
    """
    file = Path(os.path.realpath(file))  # through a link, the server's file: no other takes its place, or its lock
    if not file.parent.is_dir():
        raise InputError(f"--file is {file}, and {file.parent} is no folder; make it, or name another file")
    with (file.parent / f".{file.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = read_token_file(file) if file.exists() else ""
        lines = text.splitlines()
        yield parse(file, text), lines
        mode = file.stat().st_mode & 0o740 if file.exists() else 0o600
        with tempfile.NamedTemporaryFile("w", dir=file.parent, prefix=f".{file.name}.", delete=False) as partial:
            new = Path(partial.name)
            try:
                partial.write("".join(f"{line}\n" for line in lines))
                partial.flush()
                os.fsync(partial.fileno())
                new.chmod(mode)
                if file.exists() and os.geteuid() == 0:
                    os.chown(new, file.stat().st_uid, file.stat().st_gid)
                new.replace(file)
            except OSError:
                new.unlink(missing_ok=True)
                raise
