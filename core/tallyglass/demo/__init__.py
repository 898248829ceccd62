"""An embedded mongod with a lively workload: for ``tallyglass demo`` and the tests. Writes."""
