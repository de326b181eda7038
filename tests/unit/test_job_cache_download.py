# SPDX-License-Identifier: GPL-3.0-or-later
"""cache_download: the files of the cache, and what is refused of what curl reports."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.job_code import load

cache_download = load("cache_download")


def report(name: str, size: int, http: str = "1.1") -> dict[str, Any]:
    return {
        "url": f"https://10.0.0.1:8444/{name}",
        "size_download": size,
        "http_version": http,
        "num_connects": 1,
    }


def test_the_cache_has_the_packages_that_it_names() -> None:
    sizes = cache_download.sizes()
    assert (len(sizes), sum(sizes.values())) == (71, 92_852_036)
    assert cache_download.sizes(2) == dict(list(sizes.items())[:2])


def test_whole_files_in_any_order_are_right() -> None:
    cache_download.check([report("b", 2), report("a", 1)], {"a": 1, "b": 2}, "1.1")


@pytest.mark.parametrize(
    ("reports", "said"),
    [
        ([], "a: has not come"),
        ([report("a", 1)], "a: 1 of 5 bytes arrived"),
        ([report("a", 5, "2")], "a: came with HTTP/2 instead of HTTP/1.1"),
    ],
)
def test_a_file_that_is_not_as_it_should_be_ends_the_job(
    reports: list[dict[str, Any]], said: str
) -> None:
    with pytest.raises(SystemExit, match=said):
        cache_download.check(reports, {"a": 5}, "1.1")
