"""Makes the report from gold, without Spark: one HTML file that needs no other files."""
