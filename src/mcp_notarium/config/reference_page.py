"""``docs/configuration.md``, made from the table of variables so that it cannot lie.

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
too, and then says in the row what is wrong.

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
   people's repositories, so such a file is read only if it is a regular file of yours, neither it
   nor its folder can be written by others, and then only for the variables marked `.env` above.
   Others of our variables in it are ignored with a warning; foreign variables are not looked at.
   A `.env` that is not read is warned about with the reason and the command that mends it; where a
   required variable is missing, the refusal says so too.
   An access token there counts only if the environment does not already name an account.

An empty value counts as not set. `${...}` is not expanded: a value that is nothing but a
placeholder is an error, because it would silently become a password or a key.

## Secrets from files

Each secret marked with `_FILE` can stand in a file instead (Docker and Kubernetes secrets,
systemd credentials): set for example `SIMPLENOTE_PASSWORD_FILE=/run/secrets/simplenote`. The file
is regular, UTF-8, at most 64 KiB; one final newline is not part of the value. A file that others
can read, or that belongs to neither you nor root, is used with a warning, except below
`/run/secrets` and `$CREDENTIALS_DIRECTORY`. Setting a variable and its file variant together is
an error, only for `DB_ENCRYPTION_KEY` the variable is used and the file is not.

The passphrase of the cache is looked for in this order, and the first that is there decides:

1. `DB_ENCRYPTION_KEY` in the environment, then `DB_ENCRYPTION_KEY_FILE` there;
2. the same two in the file named by `--env-file`;
3. the keychain, unless `NOTARIUM_KEYCHAIN=off`;
4. `DB_ENCRYPTION_KEY` in a `.env` of the working folder, with a warning that names the file. A
   repository could bring one along, whose author knows the key: it never goes before a key that you
   keep in the keychain. A keychain that cannot be asked (locked, silent) may hold one, and the start is
   refused rather than the file believed.

## What is checked

* A required variable is missing, a number is not a number, a choice is none of its choices, a
  file cannot be read: one CRITICAL line that says what to do, exit code 1. All such problems are
  named at once, each with the place it comes from.
* Where nothing is wrong and only required settings are missing (the user name; a key, unless
  `DB_ENCRYPTION=off` or a keychain runs that may have it), the line comes at once, too. A server
  that a client speaks to within 10 seconds then stays: it shakes hands and lists its tools, every
  call says what is missing, and nothing is opened, made or read again. At a terminal, at the end of
  input, or when nobody has spoken in time, it exits with 1.
* A value that cannot be used, in a `.env` of the working folder: a warning that names the file, and
  the value counts as not set. Nobody named that file, and a repository's `LOG_LEVEL` is often
  another program's; it must not keep the server from starting.
* A number below its minimum or above its maximum: the bound is used, with a warning.
* Addresses use https; plain http is possible to 127.0.0.0/8, ::1 and localhost only. An address
  that sends requests to another host than usual is warned about at every start.
* `~` at the start of a path is your home folder. A relative path is taken from the working
  folder, with a warning: clients choose that folder as they like.
"""

_TRUSTED = {
    Trust.ENVIRONMENT: "environment",
    Trust.ENV_FILE: "environment, `--env-file`",
    Trust.WORKING_FOLDER: "environment, `--env-file`, `.env`",
}


def markdown() -> str:
    """The whole page."""
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
