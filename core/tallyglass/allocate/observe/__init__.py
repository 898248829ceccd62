"""What allocators do, exported: ``observe.prometheus`` and ``observe.opentelemetry``. Needs the extra ``observe``."""
