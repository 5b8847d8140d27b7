"""Say what differs between the versions of the server that are simulated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Hold what differs. ``database`` and ``sync`` are its own numbers."""

    number: str
    database: int
    sync: int
    express5: bool = False
    """The newer body parser: a content that it cannot read is refused and not "[object Object]"."""
    bearer: bool = True
    revisions: bool = False
    """Revisions, history and undelete can be asked for, and writes keep a revision by themselves."""
    hangs: bool = False
    """A calendar request that it cannot serve gets no answer at all."""
    limit_alone: bool = True
    """``limit`` counts without ``orderBy``."""
    malformed: int = 500
    """The status of JSON that cannot be parsed."""
    orphans: bool = False
    """An attachment may belong to no note."""
    week_first_day: bool = True


VERSIONS = {
    version.number: version
    for version in (
        Version(number="0.102.1", database=235, sync=37, express5=True, revisions=True),
        Version(number="0.93.0", database=229, sync=35, hangs=True),
        Version(
            number="0.63.6",
            database=228,
            sync=32,
            bearer=False,
            limit_alone=False,
            malformed=400,
            orphans=True,
            week_first_day=False,
        ),
    )
}
