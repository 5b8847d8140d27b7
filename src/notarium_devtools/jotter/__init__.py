"""Keep notes in Jotter, an invented service: the worked example of ``docs/new-store.md``.

``simulator`` is the service. ``kind``, ``codec`` and ``store`` are what a store consists of.
"""
