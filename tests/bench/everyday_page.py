"""Write the everyday tasks as a table: a line for each task, a column for each server in each store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bench.measure import Figure

GROUP = "everyday"
DONE, CANNOT = "done", "cannot"
OURS = "here"
_BETWEEN = " | "


def result_row(task: str, name: str, store: str) -> str:
    """Return the name of the row of one task."""
    return _BETWEEN.join((task, store, name))


def everyday_tables(figures: Sequence[Figure]) -> Iterator[str]:
    """Yield the lines of the table, and what is wrong where a task is not done."""
    rows = {figure.row: figure for figure in figures if figure.group == GROUP}
    results = {tuple(row.split(_BETWEEN)): rows[row] for row in rows if ": " not in row}
    tasks = list(dict.fromkeys(task for task, _, _ in results))
    columns = list(dict.fromkeys((store, name) for _, store, name in results))
    yield "| " + " | ".join(["", *(f"{name}, {store}" for store, name in columns)]) + " |"
    yield "|---|" + "--:|" * len(columns)
    wrong: dict[tuple[str, str], list[str]] = {}
    totals = dict.fromkeys(columns, 0.0)
    for task in tasks:
        cells = []
        for store, name in columns:
            found = results.get((task, store, name))
            row = result_row(task, name, store)
            amount, calls = rows.get(f"{row}: tokens"), rows.get(f"{row}: calls")
            totals[store, name] += amount.value if amount else 0.0
            cells.append(_cell(found, amount, calls))
            if found is not None and found.unit != DONE and amount is not None:
                wrong.setdefault((name, found.unit), []).append(task)
        yield f"| {task} | {' | '.join(cells)} |"
    yield f"| all | {' | '.join(f'{totals[column]:,.0f}' for column in columns)} |"
    yield ""
    for (name, said), of in wrong.items():
        yield f"* {name}, {said}: {', '.join(of)}."
    for what in ("tokens", "calls"):
        for store, name in columns:
            if more := [task for task in tasks if _is_beaten(rows, task, store, name, what)]:
                yield f"* More {what} here than {name} needs: {', '.join(more)}."


def _is_beaten(rows: Mapping[str, Figure], task: str, store: str, name: str, what: str) -> bool:
    """Tell whether another server has done the task in the same store for less."""
    theirs, ours = result_row(task, name, store), result_row(task, OURS, store)
    if name == OURS or ours not in rows or theirs not in rows or rows[theirs].unit != DONE:
        return False
    return rows[f"{theirs}: {what}"].value < rows[f"{ours}: {what}"].value


def _cell(found: Figure | None, amount: Figure | None, calls: Figure | None) -> str:
    if found is None:
        return ""
    if amount is None or calls is None:
        return f"**{CANNOT}**"
    verdict = found.unit.partition(":")[0]
    said = "" if verdict == DONE else f"**{verdict}** "
    return f"{said}{amount.value:,.0f} in {calls.value:.0f}"
