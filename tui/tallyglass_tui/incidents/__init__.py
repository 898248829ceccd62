"""The incidents as the pages list them: one table, its cells, its filter, and the report of one."""
