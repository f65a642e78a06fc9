"""Queries that a guard and a database must refuse or make harmless, and benign ones that must run.

The database has customers, orders and products, which may be read, and secret_users, which may not. Its secret is
`SECRET`; nothing that a query returns may hold it.
"""

# ruff: noqa: E501, RUF001  # one query a line; letters that look alike are meant
from dataclasses import dataclass

SECRET = "hunter2-9f3c"
TABLES = ["customers", "orders", "products"]
SCHEMA = """
    CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT);
    CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price NUMERIC(8, 2));
    CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers (id),
        product_id INTEGER REFERENCES products (id), quantity INTEGER, ordered_on DATE);
    CREATE TABLE secret_users (id INTEGER PRIMARY KEY, login TEXT, password TEXT);
    INSERT INTO customers VALUES (1, 'Ann', 'Bern'), (2, 'Bob', 'Basel'), (3, 'Eve', NULL);
    INSERT INTO products VALUES (1, 'teardrop lamp', 12.50), (2, 'chair', 40), (3, 'table', 99.95);
    INSERT INTO orders VALUES (1, 1, 1, 2, '2026-01-05'), (2, 1, 3, 1, '2026-02-01'), (3, 2, 2, 4, '2026-02-14');
    INSERT INTO secret_users VALUES (1, 'root', 'hunter2-9f3c');
"""


@dataclass(frozen=True)
class Hostile:
    """A query, and what it tries."""

    kind: str  # statement, read, function, catalogue, bomb, row
    query: str


def _of(kind: str, queries: str) -> list[Hostile]:
    return [Hostile(kind, query.strip()) for query in queries.strip().split("\n")]


_BOTH = [
    *_of(
        "statement",
        """
        DROP TABLE customers
        DELETE FROM customers
        UPDATE customers SET name = 'x'
        INSERT INTO customers VALUES (9, 'x', 'y')
        CREATE TABLE evil (id INTEGER)
        SELECT 1; DROP TABLE customers
        SELECT 1 /* ; */ ; DELETE FROM orders --
        BEGIN; DELETE FROM customers; COMMIT
        WITH gone AS (DELETE FROM customers RETURNING *) SELECT * FROM gone
        EXPLAIN ANALYZE DELETE FROM customers
        VACUUM
        DRDROPOP TABLE customers
        """,
    ),
    *_of(
        "read",
        """
        SELECT * FROM secret_users
        SELECT password FROM/**/secret_users
        SELECT password FROM -- customers
        SELECT c.name, s.password FROM customers c, secret_users s
        SELECT * FROM (SELECT * FROM (SELECT password FROM secret_users) a) b
        SELECT name FROM customers UNION SELECT password FROM secret_users
        SELECT name FROM customers WHERE EXISTS (SELECT 1 FROM secret_users WHERE password LIKE 'h%')
        SELECT (SELECT password FROM secret_users LIMIT 1) FROM customers
        SELECT max(id) FILTER (WHERE id IN (SELECT id FROM secret_users)) FROM customers
        SELECT row_number() OVER (ORDER BY (SELECT password FROM secret_users)) FROM customers
        WITH customers AS (SELECT * FROM secret_users) SELECT * FROM customers
        WITH a AS (SELECT password FROM secret_users), secret_users AS (SELECT 1) SELECT * FROM a
        SELECT q.x FROM (WITH secret_users AS (SELECT 1 AS x) SELECT x FROM secret_users) q, secret_users s
        WITH RECURSIVE r AS (SELECT password AS p, 1 AS n FROM secret_users UNION ALL SELECT p, n + 1 FROM r WHERE n < 2) SELECT p FROM r
        SELECT * FROM customers NATURAL JOIN secret_users
        SELECT * FROM ѕecret_users
        SELECT * FROM secret\u200b_users
        TABLE secret_users
        """,
    ),
    *_of(
        "bomb",
        """
        SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e, orders f, orders g, orders h, orders i, orders j, orders k, orders l, orders m, orders n, orders o, orders p, orders q, orders r
        WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r
        WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r
        WITH RECURSIVE r(t) AS (SELECT 'aaaaaaaa' UNION ALL SELECT t || t FROM r) SELECT max(length(t)) FROM r
        """,
    ),
    Hostile("bomb", "SELECT " + "(" * 3000 + "1" + ")" * 3000),
    Hostile("bomb", "SELECT 1 WHERE " + " OR ".join(["1 = 1"] * 5000)),
]

SQLITE = [
    *_BOTH,
    *_of(
        "statement",
        """
        PRAGMA writable_schema = 1
        ATTACH DATABASE '/tmp/bos-evil.sqlite' AS evil
        CREATE TRIGGER evil AFTER INSERT ON orders BEGIN DELETE FROM customers; END
        VACUUM INTO '/tmp/bos-evil.sqlite'
        """,
    ),
    *_of(
        "read",
        """
        SELECT 1 WHERE 'root' IN (SELECT login FROM secret_users)
        SELECT name FROM customers WHERE id IN secret_users
        SELECT * FROM [secret_users]
        SELECT * FROM 'secret_users'
        SELECT * FROM secret_users INDEXED BY evil
        """,
    ),
    *_of(
        "function",
        """
        SELECT load_extension('/tmp/evil.so')
        SELECT readfile('/etc/passwd')
        SELECT writefile('/tmp/bos-evil', 'x')
        """,
    ),
    *_of(
        "catalogue",
        """
        SELECT sql FROM sqlite_master
        SELECT * FROM pragma_table_info('secret_users')
        SELECT * FROM dbstat
        """,
    ),
    *_of(
        "bomb",
        """
        SELECT randomblob(1000000000)
        SELECT hex(zeroblob(500000000))
        SELECT printf('%1000000000d', 1)
        SELECT group_concat(a.name || b.name) FROM customers a, customers b, customers c, customers d, customers e, customers f, customers g, customers h, customers i, customers j, customers k, customers l
        SELECT replace(replace(replace(hex(zeroblob(900)), '0', hex(zeroblob(900))), '0', hex(zeroblob(900))), '0', 'aaaa')
        """,
    ),
]

POSTGRES = [
    *_BOTH,
    *_of(
        "statement",
        """
        SELECT * INTO evil FROM customers
        TRUNCATE customers
        COPY customers TO PROGRAM 'touch /tmp/bos-evil'
        COPY customers FROM '/etc/passwd'
        DO $$ BEGIN DELETE FROM customers; END $$
        CALL evil()
        SET ROLE postgres
        SET default_transaction_read_only = off
        LOCK TABLE customers
        GRANT ALL ON secret_users TO PUBLIC
        DECLARE c CURSOR FOR SELECT * FROM secret_users
        SELECT * FROM customers FOR UPDATE
        MERGE INTO customers USING orders ON false WHEN NOT MATCHED THEN INSERT VALUES (9, 'x', 'y')
        COMMIT
        ROLLBACK; DELETE FROM customers
        """,
    ),
    *_of(
        "read",
        r"""
        SELECT * FROM public.secret_users
        SELECT * FROM secret_users TABLESAMPLE SYSTEM (100)
        SELECT U&"secret\005fusers".password FROM U&"secret\005fusers"
        SELECT * FROM U&"secret!005fusers" UESCAPE '!'
        SELECT * FROM customers, LATERAL (SELECT password FROM secret_users) s
        SELECT E'\'', (SELECT password FROM secret_users) --'
        SELECT $a$ $a$, (SELECT password FROM secret_users)
        SELECT 'a\', (SELECT password FROM secret_users) --'
        SELECT DISTINCT ON ((SELECT password FROM secret_users)) id FROM customers
        SELECT sum(id) OVER w FROM customers WINDOW w AS (ORDER BY (SELECT max(password) FROM secret_users))
        """,
    ),
    *_of(
        "function",
        """
        SELECT pg_sleep(30)
        SELECT pg_read_file('/etc/passwd')
        SELECT lo_import('/etc/passwd')
        SELECT setval('evil', 1)
        SELECT set_config('statement_timeout', '0', false), pg_sleep(30)
        SELECT query_to_xml('SELECT * FROM secret_users', true, true, '')
        SELECT * FROM ts_stat('SELECT to_tsvector(password) FROM secret_users')
        SELECT * FROM dblink('dbname=bos', 'SELECT password FROM secret_users') AS t(p text)
        SELECT pg_terminate_backend(1)
        SELECT pg_advisory_lock(1)
        SELECT current_setting('data_directory')
        SELECT inet_server_addr(), version(), current_user
        SELECT reveal(1)
        SELECT c.reveal_row FROM customers c
        SELECT reveal_row(c) FROM customers c
        """,
    ),
    *_of(
        "catalogue",
        """
        SELECT relname FROM pg_class
        SELECT most_common_vals FROM pg_stats WHERE tablename = 'secret_users'
        SELECT rolname, rolpassword FROM pg_authid
        SELECT prosrc FROM pg_proc WHERE proname = 'reveal'
        SELECT 'secret_users'::regclass
        SELECT 'secret_users'::"regclass"
        SELECT 'reveal'::regproc
        SELECT has_table_privilege('secret_users', 'SELECT')
        SELECT pg_get_viewdef('v')
        SELECT tableoid::regclass FROM customers
        """,
    ),
    *_of(
        "row",
        """
        SELECT c FROM customers c
        SELECT row_to_json(c) FROM customers c
        SELECT c::text FROM customers c
        SELECT '(1,root,x)'::secret_users
        SELECT (NULL::secret_users).password
        SELECT json_populate_record(NULL::secret_users, '{}')
        """,
    ),
    *_of(
        "bomb",
        """
        SELECT repeat('x', 1000000000)
        SELECT format('%1000000000s', 'x')
        SELECT string_agg(n::text, '') FROM generate_series(1, 1000000000000) AS g(n)
        SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b
        SELECT array_fill(1, ARRAY[100000000])
        SELECT regexp_replace('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', '(a*)*(a*)*(a*)*b\\1', 'x')
        """,
    ),
]

_BENIGN_BOTH = [
    ("SELECT name FROM customers ORDER BY id", [["Ann"], ["Bob"], ["Eve"]]),
    ("select NAME from CUSTOMERS where CITY is null;", [["Eve"]]),
    ("SELECT name FROM products WHERE name LIKE '%drop%'", [["teardrop lamp"]]),
    ("SELECT count(*) FROM customers WHERE name <> 'delete; update' -- comment", [[3]]),
    (
        "SELECT c.name, sum(o.quantity) AS n FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.name "
        "HAVING sum(o.quantity) > 1 ORDER BY n DESC, c.name",
        [["Bob", 4], ["Ann", 3]],
    ),
    (
        "SELECT id, row_number() OVER (PARTITION BY customer_id ORDER BY id) AS r, lag(quantity, 1, 0) OVER (ORDER BY id) "
        "FROM orders ORDER BY id",
        [[1, 1, 0], [2, 2, 2], [3, 1, 1]],
    ),
    (
        "SELECT id, sum(quantity) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM orders ORDER BY id",
        [[1, 2], [2, 3], [3, 5]],
    ),
    ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT sum(n) FROM r", [[15]]),
    ("WITH big AS (SELECT * FROM products WHERE price > 20), x AS (SELECT * FROM big) SELECT count(*) FROM x", [[2]]),
    ("SELECT name FROM customers WHERE id NOT IN (SELECT customer_id FROM orders)", [["Eve"]]),
    ("SELECT c.id, p.id FROM customers c CROSS JOIN products p WHERE c.id = 1 AND p.id = 2", [[1, 2]]),
    (
        "SELECT name FROM customers WHERE id = 1 UNION SELECT name FROM products WHERE id = 2 ORDER BY 1",
        [["Ann"], ["chair"]],
    ),
    (
        "SELECT CASE WHEN price > 50 THEN 'dear' ELSE 'cheap' END, round(price, 1) FROM products WHERE id = 1",
        [["cheap", 12.5]],
    ),
    ("SELECT upper(replace(name, 'A', 'U')) || '!' FROM customers WHERE id = 1", [["UNN!"]]),
    ("SELECT coalesce(city, 'unknown'), nullif(name, 'x') FROM customers WHERE id = 3", [["unknown", "Eve"]]),
    ("SELECT cast(price AS INTEGER) FROM products WHERE id = 2", [[40]]),
    ("SELECT x.n FROM (SELECT count(*) AS n FROM orders WHERE quantity BETWEEN 1 AND 3) x", [[2]]),
    (
        "SELECT DISTINCT customer_id FROM orders WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = orders.customer_id) ORDER BY 1 LIMIT 1 OFFSET 1",
        [[2]],
    ),
    ("SELECT name FROM customers WHERE city = 'nowhere'", []),
    ("SELECT substr(name, 1, 2), length(name), trim('  a ') FROM customers WHERE id = 2", [["Bo", 3, "a"]]),
]
BENIGN_SQLITE = [
    *_BENIGN_BOTH,
    (
        "SELECT strftime('%Y-%m', ordered_on) AS m, count(*) FROM orders GROUP BY m ORDER BY m",
        [["2026-01", 1], ["2026-02", 2]],
    ),
    (
        "SELECT date(ordered_on, '+1 month'), julianday('2026-01-02') - julianday('2026-01-01') FROM orders WHERE id = 1",
        [["2026-02-05", 1.0]],
    ),
    ("SELECT group_concat(name, ',') FROM (SELECT name FROM customers ORDER BY id)", [["Ann,Bob,Eve"]]),
    ("SELECT value FROM json_each('[4, 5]')", [[4], [5]]),
    ("SELECT [name] FROM main.customers WHERE `id` = 1", [["Ann"]]),
    (
        "SELECT ifnull(city, '-'), typeof(id), instr(name, 'v'), iif(id > 1, 1, 0) FROM customers WHERE id = 3",
        [["-", "integer", 2, 1]],
    ),
    ("SELECT json_extract('{\"a\": 3}', '$.a')", [[3]]),
]
BENIGN_POSTGRES = [
    *_BENIGN_BOTH,
    ("SELECT extract(month FROM ordered_on)::int AS m, count(*) FROM orders GROUP BY m ORDER BY m", [[1, 1], [2, 2]]),
    ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price) FROM products", [[40.0]]),
    (
        "SELECT g.n, count(o.id) FROM generate_series(1, 3) AS g(n) LEFT JOIN orders o ON o.customer_id = g.n GROUP BY g.n ORDER BY g.n",
        [[1, 2], [2, 1], [3, 0]],
    ),
    (
        "SELECT date_trunc('month', ordered_on)::date, to_char(ordered_on, 'YYYY-MM') FROM orders WHERE id = 1",
        [["2026-01-01", "2026-01"]],
    ),
    ("SELECT ordered_on + interval '1 day' > date '2026-01-05' FROM orders WHERE id = 1", [[True]]),
    (
        "SELECT string_agg(name, ', ' ORDER BY id DESC), array_agg(id ORDER BY id) FROM customers",
        [["Eve, Bob, Ann", [1, 2, 3]]],
    ),
    ("SELECT count(*) FILTER (WHERE quantity > 1), bool_or(quantity > 3) FROM orders", [[2, True]]),
    (
        "SELECT c.name, x.id FROM customers c CROSS JOIN LATERAL (SELECT o.id FROM orders o WHERE o.customer_id = c.id ORDER BY o.id DESC LIMIT 1) x ORDER BY 1",
        [["Ann", 2], ["Bob", 3]],
    ),
    ("SELECT DISTINCT ON (customer_id) customer_id, id FROM orders ORDER BY customer_id, id DESC", [[1, 2], [2, 3]]),
    (
        "SELECT name FROM customers WHERE name ILIKE 'a%' OR name ~ '^E' ORDER BY public.customers.id",
        [["Ann"], ["Eve"]],
    ),
    ("SELECT u.x FROM unnest(ARRAY[3, 4]) WITH ORDINALITY AS u(x, i) ORDER BY u.i", [[3], [4]]),
    ("SELECT city, count(*) FROM customers GROUP BY ROLLUP (city) ORDER BY 2 DESC, 1 LIMIT 1", [[None, 3]]),
]
