"""Lists of the syntax, functions and types that a query may use. What is not listed here is refused by the guard.

Left out on purpose: what reads files, settings or the catalogue, sleeps, runs text as SQL, locks, or makes a value
of any length from a short call (`repeat`, `lpad`, `printf`, `format`, `zeroblob`).
"""

from collections.abc import Mapping

# Classes of sqlglot's syntax tree. Functions that it knows have a class too.
_SYNTAX = """
    Select Union Intersect Except Subquery With CTE From Where Group Having Order Ordered Limit Offset Fetch
    LimitOptions Distinct Join Lateral Table TableAlias Values Tuple Paren Alias Aliases Column Identifier Star Literal
    Null Boolean HexString Var Window WindowSpec WithinGroup Filter Rollup Cube GroupingSets Collate Bracket Slice
    Interval IntervalSpan AtTimeZone DataType DataTypeParam JSONPath JSONPathRoot JSONPathKey JSONPathSubscript Qualify
    And Or Not EQ NEQ GT GTE LT LTE Is In Between Like ILike Glob SimilarTo RegexpLike RegexpILike Escape NullSafeEQ
    NullSafeNEQ Add Sub Mul Div IntDiv Mod Neg DPipe BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseLeftShift
    BitwiseRightShift Any All Exists Case If Cast Overlaps
"""
_AGGREGATES = """
    Count Sum Avg Min Max Stddev StddevPop StddevSamp Variance VariancePop Corr CovarPop CovarSamp Median Mode
    PercentileCont PercentileDisc ArrayAgg GroupConcat LogicalAnd LogicalOr BitwiseAndAgg BitwiseOrAgg Grouping
    RegrSlope RegrIntercept RegrR2 RegrCount RegrAvgx RegrAvgy RowNumber Rank DenseRank PercentRank CumeDist Ntile Lag
    Lead FirstValue LastValue NthValue IgnoreNulls RespectNulls JSONArrayAgg JSONObjectAgg JSONBObjectAgg
"""
_SCALARS = """
    Abs Ceil Floor Round Trunc Sqrt Cbrt Exp Ln Log Pow Sign Greatest Least Pi Degrees Radians Sin Cos Tan Cot Asin Acos
    Atan Atan2 Rand Lower Upper Initcap Trim Substring Left Right Length Replace Concat ConcatWs StrPosition SplitPart
    Reverse Translate Chr Unicode Ascii Hex StartsWith Coalesce Nullif Typeof RegexpReplace RegexpExtract RegexpSplit
    RegexpCount RegexpInstr Soundex ByteLength BitLength Overlay
"""
_DATES = """
    CurrentDate CurrentTime CurrentTimestamp Localtime Localtimestamp Extract TimestampTrunc DateTrunc TimeToStr
    StrToTime StrToDate StrToUnix UnixToTime TsOrDsToDate TsOrDsToTimestamp TsOrDsToDatetime TsOrDsToTime Date Datetime
    Timestamp DateAdd DateSub DateDiff TsOrDsAdd TsOrDsDiff Year Month Day Quarter Week DayOfWeek DayOfYear MakeInterval
    DateFromParts TimestampFromParts JustifyDays JustifyHours JustifyInterval ToChar ToNumber DateBin
"""
_STRUCTURES = """
    Array ArrayContainsAll ArrayContainedBy ArrayOverlaps ArraySize ArrayPosition ArrayToString ArrayConcat
    StringToArray Unnest ExplodingGenerateSeries GenerateSeries JSONExtract JSONExtractScalar JSONBExtract
    JSONBExtractScalar JSONBContains JSONArray JSONObject JSONKeyValue JSONType
"""
NODES = frozenset((_SYNTAX + _AGGREGATES + _SCALARS + _DATES + _STRUCTURES).split())

TABLE_ARGUMENTS = frozenset(("this", "db", "catalog", "alias", "joins", "laterals", "ordinality"))

_SQLITE = """
    date time datetime julianday unixepoch strftime timediff total likely unlikely soundex sign mod pow power exp ln
    log10 log2 ceil ceiling floor trunc json_each json_tree json_extract json_array_length json_type json_valid
    json_object json_array json_group_array json_group_object concat concat_ws octet_length quote
"""
_POSTGRES = """
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
FUNCTION_NAMES: Mapping[str, frozenset[str]] = {
    "sqlite": frozenset(_SQLITE.split()),
    "postgres": frozenset(_POSTGRES.split()),
}

# Types of casts, by sqlglot's names. PostgreSQL's `reg…` types, which look names up in the catalogue, are left out.
_TYPES = """
    ARRAY BIGINT BINARY BIT BLOB BOOLEAN CHAR DATE DATETIME DECIMAL DOUBLE FLOAT INT INTERVAL JSON JSONB MEDIUMINT NCHAR
    NVARCHAR SMALLINT TEXT TIME TIMESTAMP TIMESTAMPTZ TIMETZ TINYINT UUID VARBINARY VARCHAR
"""
TYPES = frozenset(_TYPES.split())
