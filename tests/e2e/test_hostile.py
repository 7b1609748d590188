"""What a hostile client may try on a cache that others share, and what an odd one may send."""

import pytest


def test_a_request_with_no_field_but_host_is_served(fleet, upstream):
    node = fleet.start(upstream.url, [{"match": "/**"}])[0]
    with node.connect() as connection:
        connection.send(b"GET /products/1 HTTP/1.1\r\nHost: api.test\r\n\r\n")
        assert connection.answer().status == 200
