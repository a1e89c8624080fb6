"""The report generators: one tidy table in, Markdown, HTML, CSV and figures out."""
