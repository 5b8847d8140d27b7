"""Generate ``docs/configuration.md`` from the table of variables, so that it is always right.

Run ``python -m mcp_notarium.config.reference_page`` to print it; a test compares it with the file.
"""

from __future__ import annotations

import sys

from mcp_notarium.config.variables import VARIABLES, Kind, Trust, Variable

_HEAD = """\
# Configuration

<!-- Made by `python -m mcp_notarium.config.reference_page`; edit src/mcp_notarium/config instead. -->

MCP Notarium is configured by environment variables, as MCP clients set them in a server's entry.
`mcp-notarium --print-config-vars` (`--json`) shows every variable with its effective value and
where it came from; secrets appear as "set (N characters)". It works with a wrong configuration
too and says in the row what is wrong.

## Variables

| variable | purpose | default | values | may be set in |
|---|---|---|---|---|
"""

_TAIL = """
## Where values come from

1. The **environment** of the process. It always wins.
2. The file named by **`--env-file PATH`**: lines of `NAME=value`, for everything except the
   variables that say where credentials are sent.
3. Without `--env-file`, a **`.env` in the working folder**. Editors start servers inside other
     people's repositories, so the server reads such a file only if it is a regular file of yours and
   others can write neither to it nor to its folder, and then only for the variables marked `.env`
   above. It ignores our other variables there with a warning, and foreign variables silently. If it
   does not read a `.env`, it warns with the reason and the command that repairs it; if a required
   variable is missing, the refusal says so too. An access token there counts only if the
   environment does not already name an account.

An empty value counts as not set. `${...}` is not expanded: a value that is nothing but a
placeholder is an error, because it would silently become a password or a key.

## Secrets from files

Each secret marked with `_FILE` can stand in a file instead (Docker and Kubernetes secrets,
systemd credentials): set for example `SIMPLENOTE_PASSWORD_FILE=/run/secrets/simplenote`. The file
must be regular, UTF-8 and at most 64 KiB; one final newline is not part of the value. The server
warns if others can read the file, or if it belongs to neither you nor root, except below
`/run/secrets` and `$CREDENTIALS_DIRECTORY`. Setting a variable and its file variant together is
an error; only `DB_ENCRYPTION_KEY` then wins over its file.

The server looks for the passphrase in this order and uses the first it finds:

1. `DB_ENCRYPTION_KEY` in the environment, then `DB_ENCRYPTION_KEY_FILE` there;
2. the same two in the file named by `--env-file`;
3. the keychain, unless `NOTARIUM_KEYCHAIN=off`;
4. `DB_ENCRYPTION_KEY` in a `.env` of the working folder, with a warning that names the file. A
   repository may contain such a file, and its author knows the key: a key in your keychain always
   wins. If the keychain does not answer (locked, silent), it may hold a key; the server then
   refuses to start instead of using the file.

## What is checked

* If a required variable is missing, a number is not a number, a value is not one of the choices, or
  a file cannot be read, the server writes one CRITICAL line that says what to do and exits with 1.
  The line names all such problems, each with its place.
* If only required settings are missing (the user name; a key, unless `DB_ENCRYPTION=off` or a
  keychain may have it), the server writes the same line at once. If a client then speaks to it within
  10 seconds, it stays: it answers the handshake and lists its tools, and every call says what is
  missing. It opens, creates and rereads nothing. At a terminal, at the end of input, or if nobody
  speaks in time, it exits with 1.
* A value that cannot be used in a `.env` of the working folder counts as not set, with a warning that
  names the file. Nobody named that file, and a repository's `LOG_LEVEL` often belongs to another
  program; it must not keep the server from starting.
* For a number below its minimum or above its maximum the bound is used, with a warning.
* Addresses use https; plain http is possible to 127.0.0.0/8, ::1 and localhost only. The server warns
  at every start about an address that sends requests to another host than usual.
* `~` at the start of a path is your home folder. A relative path starts at the working folder, with
  a warning: clients choose that folder freely.
"""

_TRUSTED = {
    Trust.ENVIRONMENT: "environment",
    Trust.ENV_FILE: "environment, `--env-file`",
    Trust.WORKING_FOLDER: "environment, `--env-file`, `.env`",
}


def markdown() -> str:
    """Return the whole page."""
    return _HEAD + "".join(map(_row, VARIABLES)) + _TAIL


def _row(variable: Variable) -> str:
    name = f"`{variable.name}`"
    if variable.has_file:
        name += f"<br>`{variable.file_name}`"
    cells = (name, variable.purpose, _default(variable), _values(variable), _trust(variable))
    return f"| {' | '.join(cells)} |\n"


def _default(variable: Variable) -> str:
    if variable.required:
        return "required"
    return variable.shown_default or (f"`{variable.default}`" if variable.default else "none")


def _values(variable: Variable) -> str:
    if variable.kind is Kind.CHOICE:
        return ", ".join(f"`{choice}`" for choice in variable.choices)
    if variable.maximum:
        return f"{variable.minimum} to {variable.maximum}"
    return variable.kind.value


def _trust(variable: Variable) -> str:
    places = _TRUSTED[variable.trust]
    if variable.has_file and variable.trust is Trust.WORKING_FOLDER:
        places += " (the file variant not in `.env`)"
    return places


if __name__ == "__main__":
    sys.stdout.write(markdown())
