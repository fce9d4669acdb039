#!/usr/bin/python3
"""sandbox.list: filters, order and pages, over frames and HTTP."""
import datetime
import os
import sys
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cloche import equal
from http_client import Http
from rpc import Daemon


def names(frames, **params):
    return [row["sandbox"] for row in frames.call("sandbox.list", **params)["sandboxes"]]


def pages(frames, meanwhile=lambda: None, **params):
    """Names of all pages."""
    found, answer = [], frames.call("sandbox.list", **params)
    while True:
        found += [row["sandbox"] for row in answer["sandboxes"]]
        if "next" not in answer:
            return found
        equal(len(answer["sandboxes"]), params["limit"])
        meanwhile()
        answer = frames.call("sandbox.list", after=answer["next"], **params)


def test_filters():
    with Daemon() as daemon, daemon.frames() as frames:
        for name, labels in (("web-1", {"role": "web", "who": "ada"}), ("web-2", {"role": "web"}), ("db", {"role": "db", "odd": "a=b"})):
            frames.call("sandbox.create", sandbox=name, labels=labels)
        frames.call("sandbox.stop", sandbox="db")
        frames.call("sandbox.pause", sandbox="web-2")
        equal(names(frames), ["web-1", "web-2", "db"])
        equal(names(frames, state="running"), ["web-1"])
        equal(names(frames, state="paused"), ["web-2"])
        equal(names(frames, state="stopped"), ["db"])
        equal(names(frames, labels=["role=web"]), ["web-1", "web-2"])
        equal(names(frames, labels=["role=web", "who"]), ["web-1"])
        equal(names(frames, labels=["who=bob"]), [])
        equal(names(frames, labels=["odd=a=b"]), ["db"])
        equal(names(frames, labels=[]), ["web-1", "web-2", "db"])
        equal(names(frames, prefix="web-"), ["web-1", "web-2"])
        equal(names(frames, prefix="web-", state="paused", labels=["role"]), ["web-2"])
        equal(names(frames, image="none"), [])
        first, second, third = (row["createdAt"] for row in frames.call("sandbox.list")["sandboxes"])
        equal(names(frames, createdAfter=first, createdBefore=third), ["web-2"])
        equal(names(frames, createdAfter="2020"), ["web-1", "web-2", "db"])
        equal(names(frames, createdBefore="2020-01-01"), [])
        for time in ("2020-02-29T07:30:00Z", "2020-02-29T07:30:00.5Z", "2020-02-29T07:30:00.123456Z", "2020-02-29T07:30:00+14:00", "2020-02-29T07:30:00.1-00:30"):
            equal(names(frames, createdAfter=time, createdBefore="9" + time[1:]), ["web-1", "web-2", "db"], time)
        for hours in (0, 5.5, -3):  # the same moments elsewhere
            zone = datetime.timezone(datetime.timedelta(hours=hours))
            after, before = (datetime.datetime.fromisoformat(time[:-1] + "+00:00").astimezone(zone).isoformat(timespec="microseconds") for time in (first, third))
            equal(names(frames, createdAfter=after, createdBefore=before), ["web-2"], after)
        for params, word in (({"state": "sleeping"}, "expected running"), ({"order": "size"}, "expected created"), ({"limit": 0}, "at least 1"),
                             ({"createdAfter": "yesterday"}, "expected a time"), ({"createdBefore": "2026-1"}, "expected a time"),
                             ({"createdAfter": "2026-02-31T07:30:00Z"}, "expected a time"), ({"createdAfter": "2026-02-01T07:30:00+24:00"}, "expected a time"),
                             ({"createdAfter": "2026-02-01T07:30:00Zx"}, "expected a time"), ({"createdAfter": "2026-02-01T07:30:00 01:00"}, "expected a time"),
                             ({"after": "x"}, "expected the next"), ({"after": "created:1:a", "order": "name"}, "expected the next"),
                             ({"after": "created:01:a"}, "expected the next"), ({"after": "name:0:" + "x" * 70, "order": "name"}, "expected the next")):
            error = frames.refused("sandbox.list", **params)
            assert error.name == "invalid_argument" and word in error.message, (params, error.message)
        equal(frames.call("sandbox.update", sandbox="web-2", labels={"role": "old"})["labels"], {"role": "old"})
        equal(names(frames, labels=["role=web"]), ["web-1"])
        equal(frames.call("sandbox.list", state="paused")["sandboxes"][0]["pauseKind"], "memory", "no look wakes it")


def test_order_and_pages():
    with Daemon() as daemon, daemon.frames() as frames:
        made = ["m", "c", "x", "a", "k"]
        for name in made:
            frames.call("sandbox.create", sandbox=name)
        equal(names(frames, order="created"), made)
        equal(names(frames, reverse=True), made[::-1])
        equal(names(frames, order="name"), sorted(made))
        frames.call("exec", sandbox="c", command="true")
        equal(names(frames, order="used")[-1], "c")
        equal(names(frames, order="used", reverse=True)[0], "c")
        for limit in (1, 2, 3, 5, 6):
            for order in ("created", "used", "name"):
                equal(pages(frames, limit=limit, order=order), names(frames, order=order))
                equal(pages(frames, limit=limit, order=order, reverse=True), names(frames, order=order, reverse=True))
        equal("next" in frames.call("sandbox.list", limit=5), False)
        equal("next" in frames.call("sandbox.list", limit=4), True)

        def come_and_go():
            frames.call("sandbox.delete", sandbox="c")  # also the last one of a page, by which the next one begins
            frames.call("sandbox.create", sandbox="b")
            frames.call("sandbox.create", sandbox="z")
        equal(pages(frames, come_and_go, limit=2, order="name"), ["a", "c", "k", "m", "x", "z"])
        # All that is used meanwhile comes again at the end, and nothing is left out.
        found = pages(frames, lambda: frames.call("sandbox.get", sandbox="m"), limit=2, order="used", prefix="")
        equal(sorted(set(found)), sorted(names(frames)))


def test_over_http():
    with Daemon(tcp=True) as daemon, Http(daemon.connect_tcp(), daemon.token) as http:
        for name, labels in (("a", {"x": "1", "y": "2"}), ("b", {"x": "1"})):
            http.post("/v1/sandboxes", sandbox=name, labels=labels)

        def listed(query):
            status, answer = http.get("/v1/sandboxes" + query)
            return [row["sandbox"] for row in answer["sandboxes"]] if status == 200 else answer["error"]["message"]
        equal(listed(""), ["a", "b"])
        equal(listed("?labels=x%3D1"), ["a", "b"])
        equal(listed("?labels=x%3D1&labels=y"), ["a"])
        equal(listed("?state=running&reverse=true&order=name"), ["b", "a"])
        status, answer = http.get("/v1/sandboxes?limit=1")
        equal((status, [row["sandbox"] for row in answer["sandboxes"]]), (200, ["a"]))
        equal(listed("?limit=1&after=" + quote(answer["next"])), ["b"])
        assert "given twice" in listed("?state=running&state=paused")
        assert "limit" in listed("?limit=none")
