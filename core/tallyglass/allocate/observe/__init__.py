"""Exports allocator statistics: ``observe.prometheus`` and ``observe.opentelemetry``. Needs the extra ``observe``."""
