"""Check of a query before it reaches a database: one statement that only reads the listed tables.

Everything is refused that is not listed: kinds of syntax, functions, types and tables; aggregates are allowed by their
base class. What is run is the rendered tree, never the text that was checked, with tables named by their schema: a
database reads it alike.
Databases enforce the same a second time (`server.py`).
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

# Lists of what a query may use. Left out on purpose: what reads files, settings or the catalogue, sleeps, runs text as
# SQL, locks, or makes a value of any length from a short call (`repeat`, `lpad`, `printf`, `format`, `zeroblob`).
# These are classes of sqlglot's syntax tree, besides all aggregates: syntax, functions of values, of dates, of arrays
# and JSON.
_NODES = """
    Select Union Intersect Except Subquery With CTE From Where Group Having Order Ordered Limit Offset Fetch
    LimitOptions Distinct Join Lateral Table TableAlias Values Tuple Paren Alias Aliases Column Identifier Star Literal
    Null Boolean HexString Var Window WindowSpec WithinGroup Filter Rollup Cube GroupingSets Collate Bracket Slice
    Interval IntervalSpan AtTimeZone DataType DataTypeParam JSONPath JSONPathRoot JSONPathKey JSONPathSubscript Qualify
    And Or Not EQ NEQ GT GTE LT LTE Is In Between Like ILike Glob SimilarTo RegexpLike RegexpILike Escape NullSafeEQ
    NullSafeNEQ Add Sub Mul Div IntDiv Mod Neg DPipe BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseLeftShift
    BitwiseRightShift Any All Exists Case If Cast Overlaps RowNumber IgnoreNulls RespectNulls

    Abs Ceil Floor Round Trunc Sqrt Cbrt Exp Ln Log Pow Sign Greatest Least Pi Degrees Radians Sin Cos Tan Cot Asin Acos
    Atan Atan2 Rand Lower Upper Initcap Trim Substring Left Right Length Replace Concat ConcatWs StrPosition SplitPart
    Reverse Translate Chr Unicode Ascii Hex StartsWith Coalesce Nullif Typeof RegexpReplace RegexpExtract RegexpSplit
    RegexpCount RegexpInstr Soundex ByteLength BitLength Overlay

    CurrentDate CurrentTime CurrentTimestamp Localtime Localtimestamp Extract TimestampTrunc DateTrunc TimeToStr
    StrToTime StrToDate StrToUnix UnixToTime TsOrDsToDate TsOrDsToTimestamp TsOrDsToDatetime TsOrDsToTime Date Datetime
    Timestamp DateAdd DateSub DateDiff TsOrDsAdd TsOrDsDiff Year Month Day Quarter Week DayOfWeek DayOfYear MakeInterval
    DateFromParts TimestampFromParts JustifyDays JustifyHours JustifyInterval ToChar ToNumber DateBin

    Array ArrayContainsAll ArrayContainedBy ArrayOverlaps ArraySize ArrayPosition ArrayToString ArrayConcat
    StringToArray Unnest ExplodingGenerateSeries GenerateSeries JSONExtract JSONExtractScalar JSONBExtract
    JSONBExtractScalar JSONBContains JSONArray JSONObject JSONKeyValue JSONType
"""
NODES = frozenset(_NODES.split())
TABLE_ARGUMENTS = frozenset(("this", "db", "catalog", "alias", "joins", "laterals", "ordinality"))

# Functions without a class: of SQLite, and of PostgreSQL. The other one does not know them.
_FUNCTIONS = """
    date time datetime julianday unixepoch strftime timediff total likely unlikely soundex sign mod pow power exp ln
    log10 log2 ceil ceiling floor trunc json_each json_tree json_extract json_array_length json_type json_valid
    json_object json_array json_group_array json_group_object concat concat_ws octet_length quote

    age to_char to_date to_timestamp to_number date_part date_bin make_date make_time make_timestamp make_interval
    justify_days justify_hours justify_interval isfinite every bool_and bool_or array_length cardinality array_position
    array_remove array_to_string string_to_array regexp_match regexp_matches regexp_split_to_table
    regexp_split_to_array width_bucket div gcd lcm log log10 power char_length octet_length btrim ltrim rtrim strpos
    overlay starts_with trunc json_array_elements json_array_elements_text jsonb_array_elements
    jsonb_array_elements_text jsonb_array_length json_array_length jsonb_each jsonb_each_text json_each json_each_text
    jsonb_object_keys json_object_keys jsonb_typeof json_typeof json_build_object jsonb_build_object json_build_array
    jsonb_agg json_agg jsonb_object_agg clock_timestamp statement_timestamp transaction_timestamp to_json to_jsonb
    regr_sxx regr_syy regr_sxy num_nonnulls num_nulls unnest md5 ascii
"""
FUNCTION_NAMES = frozenset(_FUNCTIONS.split())

# Types of casts, by sqlglot's names. PostgreSQL's `reg…` types, which look names up in the catalogue, are left out.
_TYPES = """
    ARRAY BIGINT BINARY BIT BLOB BOOLEAN CHAR DATE DATETIME DECIMAL DOUBLE FLOAT INT INTERVAL JSON JSONB MEDIUMINT NCHAR
    NVARCHAR SMALLINT TEXT TIME TIMESTAMP TIMESTAMPTZ TIMETZ TINYINT UUID VARBINARY VARCHAR
"""
TYPES = frozenset(_TYPES.split())

Dialect = Literal["sqlite", "postgres"]
MAX_QUERY_CHARS = 10_000
_MAIN_SCHEMAS: Mapping[Dialect, str] = {"sqlite": "main", "postgres": "public"}


class UnsafeQueryError(Exception):
    """The query is refused. The message says why, in words for the model that wrote it."""


@dataclass(frozen=True)
class Guard:
    """Rules of one database. A table outside the main schema is listed as "schema.table"."""

    dialect: Dialect
    tables: Mapping[str, Sequence[str]]  # columns by name, as the database spells them

    def check(self, query: str) -> str:
        """Return the query to run; UnsafeQueryError: not one statement that reads listed tables."""
        if len(query) > MAX_QUERY_CHARS:
            raise UnsafeQueryError(
                f"The query has {len(query)} characters; at most {MAX_QUERY_CHARS} are allowed. Write a shorter one."
            )
        try:
            rendered = self._check_once(query)
            if self._check_once(rendered) != rendered:  # what is run must be read as it was checked
                raise UnsafeQueryError("The query is ambiguous; write it in plain SQL.")
            return rendered
        except RecursionError as error:
            raise UnsafeQueryError("The query is nested too deeply; write a simpler one.") from error

    def _check_once(self, query: str) -> str:
        tree = self._parse(query)
        columns: dict[str, set[str]] = {}  # of the listed tables in the query, by alias
        for node in tree.walk():
            self._check_node(node, columns)
        if self.dialect == "postgres":
            self._check_rows(tree, columns)
        return tree.sql(self.dialect, comments=False)

    def _parse(self, query: str) -> exp.Query:
        logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # its warnings quote the query
        if any(ord(char) < 32 and char not in "\t\r\n" for char in query):
            raise UnsafeQueryError("The query holds control characters; remove them.")
        try:
            parsed = sqlglot.parse(query, dialect=self.dialect)
        except SqlglotError as error:
            reason = str(error).split("\n")[0]
            raise UnsafeQueryError(f"The query could not be read as {self.dialect} SQL: {reason}") from error
        statements = [each for each in parsed if not isinstance(each, exp.Semicolon | None)]  # empty, or a comment
        if len(statements) != 1:
            raise UnsafeQueryError(f"Expected one SQL statement, found {len(statements)}.")
        tree = statements[0]
        if not isinstance(tree, exp.Select | exp.SetOperation) or not tree.selects:
            raise UnsafeQueryError("Only SELECT statements are allowed (also UNION, INTERSECT, EXCEPT, WITH … SELECT).")
        return tree

    def _check_node(self, node: exp.Expr, columns: dict[str, set[str]]) -> None:
        kind = type(node).__name__
        if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
            if not isinstance(node.this, str) or node.this.lower() not in FUNCTION_NAMES:
                raise UnsafeQueryError(f"The function {node.this} is not allowed.")
        elif kind not in NODES and not isinstance(node, exp.AggFunc):
            what = f"The function {node.sql_name()}" if isinstance(node, exp.Func) else f"{_describe(kind)} in a query"
            raise UnsafeQueryError(f"{what} is not allowed.")
        elif isinstance(node, exp.Table):
            self._check_table(node, columns)
        elif isinstance(node, exp.DataType) and node.this.name not in TYPES:
            raise UnsafeQueryError(f"The type {node.sql(self.dialect)} is not allowed.")
        elif isinstance(node, exp.In) and node.args.get("field"):
            raise UnsafeQueryError("IN needs a list or a subquery in parentheses.")

    def _check_table(self, table: exp.Table, columns: dict[str, set[str]]) -> None:
        """Refuse a table that is not listed; write a listed one in full, and note its columns."""
        if extra := {name for name, value in table.args.items() if value} - TABLE_ARGUMENTS:
            raise UnsafeQueryError(f"{_describe(', '.join(sorted(extra)))} of a table is not allowed.")
        if isinstance(table.this, exp.Func):
            return  # its name is checked as every function's
        if not isinstance(table.this, exp.Identifier):
            raise UnsafeQueryError("A table must be given by its name.")
        if not table.db and _names_cte(table, self._fold(table.this), self._fold):
            return
        name = ".".join(self._fold(part) for part in table.parts if isinstance(part, exp.Identifier))
        main = _MAIN_SCHEMAS[self.dialect]
        listed = {each if self.dialect == "postgres" else _lower_ascii(each): each for each in self.tables}
        found = listed.get(name.removeprefix(f"{main}."))
        if found is None or table.catalog:
            known = ", ".join(self.tables) or "none"
            raise UnsafeQueryError(f"The table {name} is not available; the tables are: {known}.")
        schema, _, own = found.rpartition(".")
        alias = self._fold(table.args["alias"].this) if table.alias else own
        renamed = [self._fold(each) for each in table.args["alias"].columns] if table.args.get("alias") else []
        columns.setdefault(alias, set()).update(self.tables[found], renamed)
        table.set("db", exp.to_identifier(schema or main, quoted=True))
        table.set("this", exp.to_identifier(own, quoted=True))

    def _check_rows(self, tree: exp.Query, columns: Mapping[str, Collection[str]]) -> None:
        """Refuse a table's whole row as a value, and `row.function`, which calls any function."""
        named = {each.alias for each in tree.find_all(exp.Alias)} | {name for each in columns.values() for name in each}
        for column in tree.find_all(exp.Column):
            name, table = self._fold(column.this), column.args.get("table")
            if table is None and name in columns and name not in named:
                raise UnsafeQueryError(f"{name} is a table here, not a column; name its columns.")
            own = None if table is None or isinstance(column.this, exp.Star) else columns.get(self._fold(table))
            if own and name not in own:
                known = ", ".join(sorted(own))
                raise UnsafeQueryError(f"There is no column {name} in {column.table}; it has {known}.")

    def _fold(self, identifier: exp.Expr) -> str:
        is_exact = self.dialect == "postgres" and bool(identifier.args.get("quoted"))
        return identifier.name if is_exact else _lower_ascii(identifier.name)


def _names_cte(table: exp.Table, name: str, fold: Callable[[exp.Expr], str]) -> bool:
    """Return True if a WITH clause around the table defines its name. A CTE sees those before it."""
    node: exp.Expr = table
    while (parent := node.parent) is not None:
        visible: Sequence[exp.Expr] = ()
        if isinstance(parent, exp.With):
            index = parent.expressions.index(node)
            visible = parent.expressions[: index + bool(parent.args.get("recursive"))]
            parent = parent.parent or parent  # owns the clause; later CTEs are not visible
        elif isinstance(parent, exp.Query):
            visible = parent.ctes
        if any(fold(cte.args["alias"].this) == name for cte in visible):
            return True
        node = parent
    return False


def _lower_ascii(name: str) -> str:
    """Return the name in lower case as both databases fold it: letters outside ASCII are kept."""
    return "".join(char.lower() if char.isascii() else char for char in name)


def _describe(kind: str) -> str:
    return "".join(f" {char}" if char.isupper() else char for char in kind).strip().upper()
