"""The folder of tables: its layout, schema, lock and snapshots."""
