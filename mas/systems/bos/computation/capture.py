"""Program that describes the outcome of a computation as JSON; its text runs inside the sandbox after the code.

It uses only the standard library and bounded space. The code shares its process: the reader trusts nothing that it
prints (`mas.systems.bos.computation.agent`).

    print(_mas_capture({"total": 42}, has_value=False, max_chars=2000))      # {"locals": {"total": 42}, …}
"""

# mypy: ignore-errors
# Values are of any library: what they are is found by what they can do.


def _mas_capture(variables, has_value, max_chars):
    """Return value, table and variables as one JSON text of at most about `max_chars` characters."""
    import json
    import math
    import types

    def to_cell(value):
        if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
            value = value.item()  # of numpy
        if type(value).__name__ == "Decimal":
            value = int(value) if value == value.to_integral_value() else float(value)
        if value is None or (isinstance(value, int) and abs(value) < 10**300):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else None if math.isnan(value) else str(value)
        return str(value.isoformat() if hasattr(value, "isoformat") else value)[:500]

    def find_table(value):
        if hasattr(value, "to_frame") and hasattr(value, "index"):  # a Series
            value = value.to_frame().reset_index()
        if hasattr(value, "itertuples") and hasattr(value, "columns"):  # a DataFrame
            if type(value.index).__name__ != "RangeIndex":
                value = value.reset_index()
            return [str(name) for name in value.columns], value.itertuples(index=False, name=None), len(value)
        if isinstance(value, list | tuple) and value and all(isinstance(row, dict) for row in value):
            names = list(dict.fromkeys(name for row in value for name in row))
            return [str(name) for name in names], ([row.get(name) for name in names] for row in value), len(value)
        return None

    described = {"locals": {}, "value": None, "table": None}
    outcome = variables.get("_") if has_value else variables.get("result")
    try:
        if found := find_table(outcome):
            columns, rows, n_rows = found
            kept, room = [], max_chars // 2
            for row in rows:
                cells = [to_cell(cell) for cell in row]
                room -= len(json.dumps(cells))
                if room < 0:
                    break
                kept.append(cells)
            described["table"] = {"columns": columns, "rows": kept, "truncated": len(kept) < n_rows}
        else:
            described["value"] = to_cell(outcome)
    except Exception:  # noqa: BLE001  # of a value's own methods
        described["value"] = None
    hidden, room = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type), max_chars // 4
    for name, value in list(variables.items()):
        try:
            if name.startswith("_") or isinstance(value, hidden):
                continue
            cell = to_cell(value)
            cell = cell[:200] if isinstance(cell, str) else cell
            room -= len(json.dumps([name, cell]))
        except Exception:  # noqa: BLE001  # likewise
            continue
        if room < 0:
            break
        described["locals"][name] = cell
    return json.dumps(described)
