# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-in for OpenBACH's collector.

Keeps in memory what Logstash would write to InfluxDB and Elasticsearch, and answers for both what
OpenBACH and this project ask them.

    UDP and TCP 2222    statistics, as rstats sends them (JSON)
    UDP 10514           log lines, as rsyslog forwards them
    HTTP 8086           InfluxDB 1.7: /query and /write
    HTTP 9200           Elasticsearch: /logstash-*/_search and what OpenBACH asks beside it
    HTTP 8090           what has come so far, for the checks
"""

from __future__ import annotations

import json
import re
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TAGS = ("owner_scenario_instance_id", "scenario_instance_id", "job_instance_id", "agent_name")
ABOUT_A_JOB = re.compile(
    r"OWNER_SCENARIO_INSTANCE_ID (-?\d+), SCENARIO_INSTANCE_ID (-?\d+), JOB_INSTANCE_ID (-?\d+),"
    r" AGENT_NAME ([^,]+), (.*)",
    re.DOTALL,
)
FORWARDED = re.compile(
    r"<(\d+)>(\w{3} +\d+ [\d:]+|\S+) (\S+) ([^\[:\s]+)(?:\[(\d+)\])?: ?(.*)", re.DOTALL
)
TOKEN = re.compile(
    r"""\s*(\(|\)|AND\b|OR\b|"[^"]*"|'[^']*'|<>|!=|<=|>=|=~|!~|[=<>]|[^\s()=<>!]+)"""
)


@dataclass(frozen=True)
class Point:
    """A point of InfluxDB."""

    measurement: str
    time_ms: int
    tags: dict[str, str]
    fields: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.time_ms if name == "time" else self.tags.get(name, self.fields.get(name))


@dataclass
class Store:
    """What has come."""

    points: list[Point] = field(default_factory=list)
    logs: list[dict[str, Any]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    def take_statistic(self, text: str) -> None:
        try:
            values = json.loads(text)
            about = values.pop("_metadata")
            tags = {f"@{name}": str(about[name]) for name in TAGS} | {
                "@stored_file": str(about["is_file"]).lower()
            }
            if about.get("suffix"):
                tags["@suffix"] = str(about["suffix"])
            if about["flag"] & 1:
                self.points.append(Point(about["job_name"], int(about["time"]), tags, values))
        except (ValueError, KeyError, TypeError, AttributeError):
            self.unread.append(text[:200])

    def take_log(self, text: str) -> None:
        found = FORWARDED.match(text)
        if not found:
            self.unread.append(text[:200])
            return
        priority, when, host, program, pid, message = found.groups()
        log: dict[str, Any] = {
            "@timestamp": when,
            "log": {"syslog": {"priority": int(priority), "severity": {"code": int(priority) % 8}}},
            "host": {"hostname": host},
            "process": {"name": program, "pid": pid},
            "message": message,
        }
        if about := ABOUT_A_JOB.search(message):
            owner, scenario, job, agent, rest = about.groups()
            log |= {
                "owner_scenario_instance_id": int(owner),
                "scenario_instance_id": int(scenario),
                "job_instance_id": int(job),
                "agent_name": agent,
                "message": [message, rest],
            }
        self.logs.append(log)


def condition_of(text: str) -> Callable[[Point], bool]:
    """What a WHERE clause selects: comparisons joined by AND and OR, with parentheses."""
    tokens = [found[1] for found in TOKEN.finditer(text)]

    def alternatives() -> Callable[[Point], bool]:
        parts = [both()]
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            parts.append(both())
        return lambda point: any(part(point) for part in parts)

    def both() -> Callable[[Point], bool]:
        parts = [one()]
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            parts.append(one())
        return lambda point: all(part(point) for part in parts)

    def one() -> Callable[[Point], bool]:
        if tokens[0] == "(":
            tokens.pop(0)
            inner = alternatives()
            tokens.pop(0)
            return inner
        name, operator, value = tokens.pop(0).strip('"'), tokens.pop(0), tokens.pop(0)
        return lambda point: compare(point[name], operator, value)

    return alternatives() if tokens else lambda point: True


def compare(there: Any, operator: str, value: str) -> bool:
    if value.startswith("'"):
        given: Any = value[1:-1]
        there = "" if there is None else str(there)
    else:
        given = float(value.removesuffix("ms"))
    if there is None:
        return False
    return bool(
        {
            "=": there == given,
            "<>": there != given,
            "!=": there != given,
            "<": there < given,
            "<=": there <= given,
            ">": there > given,
            ">=": there >= given,
        }[operator]
    )


QUERY = re.compile(
    r"""(?P<what>SHOW\ FIELD\ KEYS|SHOW\ MEASUREMENTS|SHOW\ TAG\ VALUES|SELECT\ (?P<fields>.*?)(?=\ FROM))
    (?:\ FROM\ (?P<measurement>"[^"]*"|/\.\*/|\S+))?
    (?:\ WITH\ (?:KEY|MEASUREMENT)\ =\ "(?P<with>[^"]*)")?
    (?:\ WHERE\ (?P<where>.*?))?
    (?:\ LIMIT\ (?P<limit>\d+))?$""",
    re.VERBOSE | re.DOTALL,
)


def influx(store: Store, query: str) -> dict[str, Any]:
    """The answer to one statement of InfluxQL, of those that OpenBACH uses."""
    found = QUERY.match(query.strip())
    if not found:  # CREATE, DROP, DELETE: nothing here needs them
        return {"results": [{"statement_id": 0}]}
    measurement = (
        (found["measurement"] or "/.*/").split(".")[-1].strip('"')
        if found["measurement"] != "/.*/"
        else ""
    )
    selected = condition_of(found["where"] or "")
    by_name: dict[str, list[Point]] = {}
    for point in list(store.points):
        if measurement in ("", "/.*/", "*/", point.measurement) and selected(point):
            by_name.setdefault(point.measurement, []).append(point)
    series = list(answers(found, by_name))
    return {"results": [{"statement_id": 0, **({"series": series} if series else {})}]}


def answers(found: re.Match[str], by_name: dict[str, list[Point]]) -> Iterator[dict[str, Any]]:
    if found["what"] == "SHOW MEASUREMENTS":
        names = [[name] for name in by_name if found["with"] in (None, name)]
        if names:
            yield {"name": "measurements", "columns": ["name"], "values": names}
        return
    for name, points in by_name.items():
        if found["what"] == "SHOW FIELD KEYS":
            keys = sorted({key for point in points for key in point.fields})
            yield {
                "name": name,
                "columns": ["fieldKey", "fieldType"],
                "values": [[key, "float"] for key in keys],
            }
        elif found["what"] == "SHOW TAG VALUES":
            key = found["with"]
            values = sorted({point.tags[key] for point in points if key in point.tags})
            if values:
                yield {
                    "name": name,
                    "columns": ["key", "value"],
                    "values": [[key, value] for value in values],
                }
        else:
            wanted = found["fields"].strip()
            columns = sorted({key for point in points for key in (*point.fields, *point.tags)})
            if wanted != "*":
                columns = [
                    one
                    for one in columns
                    if one in {part.strip().strip('"') for part in wanted.split(",")}
                ]
            ordered = sorted(points, key=lambda point: point.time_ms)[
                : int(found["limit"] or len(points))
            ]
            rows = [[point.time_ms, *(point[one] for one in columns)] for point in ordered]
            yield {"name": name, "columns": ["time", *columns], "values": rows}


def search_logs(store: Store, body: dict[str, Any]) -> dict[str, Any]:
    """Elasticsearch's answer to a search by `field:value` terms, joined by OR or AND."""
    query = body.get("query", {})
    must = query.get("bool", {}).get("must") or [query]
    text = next((one["query_string"]["query"] for one in must if "query_string" in one), "")
    groups = (
        [re.split(r" \|\| | OR ", group) for group in re.split(r" && | AND ", text)] if text else []
    )

    def matches(log: dict[str, Any]) -> bool:
        return all(
            any(str(log.get(term.split(":")[0])) == term.split(":")[-1] for term in group)
            for group in groups
        )

    hits = [
        {"_index": "logstash-2026.11.25", "_id": str(number), "_source": log}
        for number, log in enumerate(list(store.logs))
        if matches(log)
    ]
    if "desc" in json.dumps(body.get("sort", "")):
        hits.reverse()
    return {
        "hits": {
            "total": {"value": len(hits), "relation": "eq"},
            "hits": hits[: body.get("size", 10_000)],
        }
    }


def handler(store: Store) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            form = parse_qs(parts.query)
            if parts.path == "/query":
                said = form.get("q") or parse_qs(body.decode()).get("q", [""])
                self.send(200, influx(store, said[0]))
            elif parts.path == "/write":
                self.send(204, None)
            elif parts.path.endswith("/_search"):
                self.send(200, search_logs(store, json.loads(body or b"{}")))
            elif parts.path == "/seen":
                self.send(
                    200,
                    {"points": len(store.points), "logs": len(store.logs), "unread": store.unread},
                )
            elif parts.path == "/points":
                self.send(
                    200,
                    [
                        [one.measurement, one.time_ms, one.tags, one.fields]
                        for one in list(store.points)
                    ],
                )
            else:
                self.send(200, {})

        def send(self, status: int, content: Any) -> None:
            text = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PUT = do_DELETE = respond

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def datagrams(take: Callable[[str], None]) -> type[socketserver.BaseRequestHandler]:
    class Datagram(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            take(self.request[0].decode(errors="replace").strip("\0\n"))

    return Datagram


def lines(take: Callable[[str], None]) -> type[socketserver.StreamRequestHandler]:
    class Lines(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                take(line.decode(errors="replace").strip())

    return Lines


class Datagrams(socketserver.ThreadingUDPServer):
    max_packet_size = 65535
    allow_reuse_address = True


def main() -> None:
    """Serves at the address given until it is ended; says "ready" when it does."""
    address, store = sys.argv[1], Store()
    servers: list[socketserver.BaseServer] = [
        Datagrams((address, 2222), datagrams(store.take_statistic)),
        socketserver.ThreadingTCPServer((address, 2222), lines(store.take_statistic)),
        Datagrams((address, 10514), datagrams(store.take_log)),
        *(ThreadingHTTPServer((address, port), handler(store)) for port in (8086, 9200, 8090)),
    ]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
