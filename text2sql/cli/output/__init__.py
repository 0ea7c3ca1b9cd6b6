"""What commands print, as text, tables, CSV and JSON."""
