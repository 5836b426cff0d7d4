#!/usr/bin/env python3
"""A producer and worker for Fairlane, with nothing but Python's standard library.

FAIRLANE_URL  where the server is (http://127.0.0.1:8080 unless set)
FAIRLANE_KEY  a key of the role admin (it both produces and works); none where the server asks for none
"""

import http.client
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request

URL = os.environ.get("FAIRLANE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("FAIRLANE_KEY")
RUN = f"{time.time_ns() // 1_000_000}-{os.getpid()}"
GROUP, BULK, TYPE, WORKER = "example", f"py-{RUN}", "greeting-py", f"py-{RUN}"
LEASE_MS = 2000
# What is raised when no answer, or only a part of it, came.
LOST = (OSError, http.client.HTTPException)
# What passes: the server is full or stopping, or a proxy cannot reach it.
FOR_NOW = (429, 502, 503, 504)
# A proxy of the environment is for the way out, and this server is next door.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
NAMES = ["slow", "busy", "shaky", "ada", "grace", "edsger", "barbara", "donald", "frances", "ken"]


def open_request(path, body=None, headers=None, timeout=40):
    headers = dict(headers or {})
    if KEY:
        headers["authorization"] = f"Bearer {KEY}"
    data = None
    if body is not None:
        headers["content-type"] = "application/json"
        data = json.dumps(body).encode()
    return DIRECT.open(urllib.request.Request(URL + path, data, headers), timeout=timeout)


def post(path, body):
    """Sends JSON until there is an answer. Every request here may be repeated, so a lost answer does no harm."""
    while True:
        try:
            with open_request(path, body) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            problem = read_problem(error)
            if error.code not in FOR_NOW:
                sys.exit(f"{path}: {error.code} {problem.get('title', error.reason)} {problem.get('detail', '')}")
            time.sleep(problem.get("retry_after_ms", 1000) / 1000)
        except LOST as error:
            print(f"{path}: {error}; again in a second", file=sys.stderr)
            time.sleep(1)


def read_problem(error):
    """The problem in a response of the server; nothing if another program responded."""
    try:
        problem = json.load(error)
        return problem if isinstance(problem, dict) else {}
    except (ValueError, *LOST):
        return {}


def produce():
    post("/api/bulks", {"group": GROUP, "id": BULK})
    jobs = [
        {"group": GROUP, "type": TYPE, "bulk": BULK, "id": f"{BULK}-{name}", "payload": {"name": name}}
        for name in NAMES
    ]
    receipts = post("/api/jobs/batch", {"jobs": jobs})
    assert receipts["created"] + receipts["existing"] == len(jobs), receipts
    post(f"/api/bulks/{GROUP}/{BULK}/seal", {"expected": len(jobs)})


class Progress(threading.Thread):
    """Follows the bulk action until it has ended; comes back behind the last event when the stream breaks off."""

    def __init__(self):
        super().__init__(daemon=True)
        self.states, self.end, self.last_id = 0, None, None

    def run(self):
        while self.end is None:
            headers = {"last-event-id": self.last_id} if self.last_id else {}
            try:
                with open_request(f"/api/bulks/{GROUP}/{BULK}/events", headers=headers) as stream:
                    self.read(stream)
            except LOST as error:
                print(f"events: {error}; again in a second", file=sys.stderr)
                time.sleep(1)

    def read(self, stream):
        name, data = None, []
        for line in stream:
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if field == "event":
                name = value
            elif field == "id":
                self.last_id = value
            elif field == "data":
                data.append(value)
            elif field == "" and name:
                bulk = json.loads("\n".join(data))
                self.states += 1
                print(f"  {bulk['state']}: {bulk['succeeded']} of {bulk['total']}")
                if name == "ended":
                    self.end = bulk
                name, data = None, []


def handle(job, throttled):
    """Does the job and says how it ended."""
    name = job["payload"]["name"]
    if name == "slow":  # Takes longer than its lease; the heartbeat keeps it.
        time.sleep(LEASE_MS / 1000 * 1.5)
    if name == "busy" and not throttled:  # Its downstream says 429 once: costs no attempt, but slows the type.
        throttled.add(name)
        return {"outcome": "throttled", "retry_after_ms": 500}
    if name == "shaky" and job["attempt"] == 1:  # The server chooses a delay, longer with each attempt.
        return {"outcome": "retry", "code": "shaky", "reason": "it fell over"}
    return {"outcome": "succeeded", "result": {"greeting": f"hello {name}"}}


def named(job):
    return {key: job[key] for key in ("group", "id", "fence")}


def heartbeat(in_hand, stopped):
    """Keeps the leases of all jobs in hand, at a third of their length."""
    while not stopped.wait(LEASE_MS / 3000):
        if jobs := list(in_hand):
            sent = {"leases": [named(job) for job in jobs], "lease_ms": LEASE_MS}
            for job, kept in zip(jobs, post("/api/leases/extend", sent)["leases"]):
                # One that was settled meanwhile is no longer in hand.
                if kept["status"] != "extended" and job in in_hand:
                    print(f"{job['id']}: its lease is {kept['status']}", file=sys.stderr)


def work(progress):
    request, throttled, in_hand, stopped = 0, set(), [], threading.Event()
    beating = threading.Thread(target=heartbeat, args=(in_hand, stopped), daemon=True)
    beating.start()
    while progress.end is None:
        # `post` repeats the same number until there is an answer: jobs leased for a lost answer come back.
        request += 1
        ask = {"worker": WORKER, "types": [TYPE], "count": 5, "lease_ms": LEASE_MS, "wait_ms": 1000}
        in_hand[:] = post("/api/leases", {**ask, "request": request})["jobs"]
        for job in list(in_hand):
            outcome = handle(job, throttled)
            sent = {"settlements": [{**named(job), "attempt": job["attempt"], **outcome}]}
            verdict = post("/api/leases/settle", sent)["verdicts"][0]
            in_hand.remove(job)
            print(f"{job['id']}: {outcome['outcome']} (attempt {job['attempt']}), {verdict}")
    stopped.set()
    beating.join()


def main():
    produce()
    progress = Progress()
    progress.start()
    work(progress)
    end = progress.end
    print(f"{BULK}: {end['state']}, {end['succeeded']} of {end['total']} succeeded, {progress.states} states on the way")
    sys.exit(end["state"] != "completed")


main()
