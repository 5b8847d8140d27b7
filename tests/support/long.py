"""Whether there is time: the long form of a test tries hundreds of cases instead of some."""

import os

LONG = os.environ.get("NOTARIUM_LONG_TESTS") == "1"
