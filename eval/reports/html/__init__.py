"""Base of all pages: layout, styles, charts, and tables of rows, in one file that opens from the disk.

    template = load_template(Path("page.html.jinja"))      # {% extends "layout.html.jinja" %}
    template.render(scripts=load_scripts(CHARTS, ROWS), chart=Chart("bars", "Points lost", points))

| File in this folder | What it gives a page |
|---|---|
| `layout.html.jinja` | blocks `title`, `styles`, `main`, `scripts`; the policy that lets only our scripts run |
| `parts.html.jinja` | macros `table`, `charts`, `rows`, `blocks`, `tiles`, `progress`, `mark` |
| `page.css.jinja` | light, dark, 400 px, print; colours as custom properties (`--right`, `--wrong`, `--error`, …) |
| `charts.js`, `charts.py` | bars, and dots with intervals, drawn by Observable Plot |
| `rows.js`, `rows.py` | filter, sort, next and previous, deep links, for 10,000 rows |
| `blocks.js`, `blocks.py` | compressed data that is read when it is asked for, as far as there is room |
| `answers.js` | answers to a question, in its row and where it opens |
| `steps.js` | the steps of an answer as a tree, with whole prompts and replies |
| `vendor/` | published files of Observable Plot and d3, with licences and digests |
"""
