"""Base of all pages: layout, styles, charts, and tables of rows, in one file that opens from the disk."""
