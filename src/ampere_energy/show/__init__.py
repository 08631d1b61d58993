"""What people and programs read: units, tables, JSON, the progress display, the HTML report."""
