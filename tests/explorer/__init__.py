"""Run whole servers and their store in one thread, under a schedule that can be played again.

``loop`` owns time and the order of steps, ``choices`` decides at each of them, ``machine`` owns processes and
the disk, ``wire`` the way to the store, ``world`` says who takes part, ``oracle`` what must hold, ``run`` plays one
schedule and makes a failing one short, ``kept`` has those that found something.

``local_place``, ``vault_place`` and ``memento_place`` have real files: ``disk`` tells their times, ``workers`` run the
threads of a store one at a time, ``editors`` write a vault beside the servers. ``simplenote_place`` and ``trilium_place``
reach the embedded services by ``http_wire``.
"""
