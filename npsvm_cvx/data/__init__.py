"""The UCI sets as gzipped CSV, their schema, and where each came from (PROVENANCE.md)."""
