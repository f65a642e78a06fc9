"""Program that describes a computation's outcome as JSON; it runs inside the sandbox after the code.

It uses only the standard library and bounded space. The code shares its process: the reader trusts nothing it prints.
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
        if isinstance(value, float) and not math.isfinite(value):
            return None if math.isnan(value) else str(value)
        if value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 10**300):
            return value
        return str(value.isoformat() if hasattr(value, "isoformat") else value)[:500]

    def find_table(value):
        if hasattr(value, "to_frame") and hasattr(value, "index"):  # a Series
            value = value.to_frame().reset_index()
        if hasattr(value, "itertuples") and hasattr(value, "columns"):  # a DataFrame
            value = value if type(value.index).__name__ == "RangeIndex" else value.reset_index()
            return list(value.columns), value.itertuples(index=False, name=None), len(value)
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            names = list(dict.fromkeys(name for row in value for name in row))
            return names, ([row.get(name) for name in names] for row in value), len(value)
        return None

    def take(items, room):
        taken = []
        for item in items:
            room -= len(json.dumps(item))
            if room < 0:
                break
            taken.append(item)
        return taken

    described = {"locals": {}, "value": None, "table": None}
    outcome = variables.get("_") if has_value else variables.get("result")
    try:
        if table := find_table(outcome):
            columns, rows, n_rows = table
            kept = take(([to_cell(cell) for cell in row] for row in rows), max_chars // 2)
            described["table"] = {"columns": list(map(str, columns)), "rows": kept, "truncated": len(kept) < n_rows}
        else:
            described["value"] = to_cell(outcome)
        hidden = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)
        shown = {n: v for n, v in variables.items() if not n.startswith("_") and not isinstance(v, hidden)}
        cells = ((name, to_cell(value)) for name, value in shown.items())
        short = ((name, cell[:200] if isinstance(cell, str) else cell) for name, cell in cells)
        described["locals"] = dict(take(short, max_chars // 4))
    except Exception:  # noqa: BLE001  # of a value's own methods
        pass
    return json.dumps(described)
