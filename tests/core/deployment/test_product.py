"""Which product answers, what it is called, and whether it was tested."""

from __future__ import annotations

from typing import Any

import pytest

from tallyglass.deployment.product import Product, product_of, server_name, untested


@pytest.mark.parametrize(
    ("hello", "build", "product", "name", "tested"),
    [
        ({}, {"version": "6.0.5"}, Product.MONGODB, "MongoDB 6.0.5", True),
        ({"me": "h:1"}, {"version": "6.1.0"}, Product.MONGODB, "MongoDB 6.1.0", False),
        ({}, {"version": "6.0.5", "psmdbVersion": "6.0.5-4"}, Product.PERCONA, f"{Product.PERCONA} 6.0.5", False),
        ({"hosts": ["A.x.MongoDB.net:27017"]}, {"version": "8.0.4"}, Product.ATLAS, "MongoDB Atlas 8.0.4", False),
        ({"me": "x.docdb.amazonaws.com:1"}, {"version": "5.0.0"}, Product.DOCUMENTDB, "Amazon DocumentDB 5.0.0", False),
        ({"me": "x.docdb.amazonaws.com.example.org:1"}, {"version": "6.0.5"}, Product.MONGODB, "MongoDB 6.0.5", True),
        ({"me": "x.docdb.cn-north-1.amazonaws.com.cn:1"}, {"version": "5.0.0"}, Product.DOCUMENTDB, "Amazon", False),
        ({"me": "x.mongo.cosmos.azure.us:1"}, {"version": "4.2.0"}, Product.COSMOS, "Azure Cosmos DB 4.2.0", False),
        ({"me": "a.x.mongodbgov.net:1"}, {"version": "8.0.4"}, Product.ATLAS, "MongoDB Atlas 8.0.4", False),
        ({"hosts": "odd"}, {"version": "7\x1b", "ferretdb": {"version": "v2"}}, Product.FERRETDB, "FerretDB v2", False),
        ({}, {"version": "7.0.42", "ferretdbVersion": "v1.24.0"}, Product.FERRETDB, "FerretDB v1.24.0, ", False),
    ],
)  # fmt: skip
def test_products(hello: dict[str, Any], build: dict[str, Any], product: Product, name: str, tested: bool) -> None:
    found = product_of(hello, build)
    assert found is product
    shown = server_name(found, build)
    assert shown.startswith(name)
    assert shown.isprintable()
    assert (untested(found, str(build["version"]), shown) == "") is tested
