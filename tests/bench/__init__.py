"""How fast MCP Notarium is, as ratios to floors measured in the same run (docs/performance.md).

Run it with ``scripts/bench``. Not shipped; ``test_bench.py`` runs its smallest form and asserts no time.
"""
