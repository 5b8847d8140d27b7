"""Run ``./scripts/soak [--minutes N] [--seed WORD] [--store NAME]``; exit with 1 and the reasons if a promise was broken."""

from __future__ import annotations

import argparse
import secrets
import sys

from soak.account import Account
from soak.notebook import Notebook
from soak.run import soak

KINDS: dict[str, type[Account]] = {"simplenote": Account, "local": Notebook}


def main() -> int:
    """The long form."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--seed", default=secrets.token_hex(4), help="to repeat what was drawn")
    parser.add_argument(
        "--store", choices=KINDS, default="simplenote", help="(default: simplenote)"
    )
    given = parser.parse_args()
    outcome = soak(given.minutes * 60, given.seed, kind=KINDS[given.store])
    sys.stdout.write(outcome.text() + "\n")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
