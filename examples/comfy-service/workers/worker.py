#!/usr/bin/env python3
"""A worker for the jobs of the image service, with nothing but Python's standard library.

It takes jobs from a Fairlane server over HTTP and runs their bundles on a ComfyUI engine with the jobs
API (since January 2026). It needs no database: a job has all that it takes to run it. Prompts have the
ids that workers in other languages derive, too, so that a worker that takes over a job finds its prompt.

FAIRLANE_ENGINE  the Fairlane server (http://127.0.0.1:8080 unless set)
FAIRLANE_KEY     a key of the role worker; none where the server asks for none
COMFY_URL        the ComfyUI engine (http://127.0.0.1:8188 unless set)
COMFY_FILES      the directory of uploaded files (comfy-files unless set)
"""

import hashlib
import http.client
import json
import os
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

QUEUE = os.environ.get("FAIRLANE_ENGINE", "http://127.0.0.1:8080")
KEY = os.environ.get("FAIRLANE_KEY")
ENGINE = os.environ.get("COMFY_URL", "http://127.0.0.1:8188")
FILES = Path(os.environ.get("COMFY_FILES", "comfy-files"))
WORKER = f"py-{os.getpid()}-{time.time_ns()}"
TYPE = "comfyui"
LEASE_MS = 15_000
POLL_S = 0.5
# A prompt that stays unknown for this long was forgotten: the engine was restarted.
FORGOTTEN_S = 2
# The namespace of the ids of prompts, which all workers share.
NAMESPACE = uuid.UUID("9a3f62c1-7d05-4e0b-8c4a-51f02b7ed916")
# What is raised when no answer, or only a part of it, came.
LOST = (OSError, http.client.HTTPException)
# A proxy of the environment is for the way out.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(url, body=None, headers=None, timeout=40):
    """Sends a request; returns the status and the JSON of the answer, whatever the status is."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json", **(headers or {})}
    try:
        with DIRECT.open(urllib.request.Request(url, data, headers), timeout=timeout) as response:
            return response.status, parsed(response.read())
    except urllib.error.HTTPError as error:
        return error.code, parsed(error.read())


def parsed(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def queue(path, body):
    """Sends a request to the queue until there is an answer: every request there may be repeated."""
    headers = {"authorization": f"Bearer {KEY}"} if KEY else {}
    while True:
        try:
            status, answer = request(QUEUE + path, body, headers)
            if status < 300:
                return answer
            if status not in (429, 502, 503, 504):
                sys.exit(f"{path}: {status} {answer}")
        except LOST as error:
            print(f"{path}: {error}; again in a second", file=sys.stderr)
        time.sleep(1)


def prompt_id(job):
    """The id of the prompt of an attempt: lost leases do not count as attempts."""
    names = [urllib.parse.quote(job[name], safe="") for name in ("group", "id")]
    return str(uuid.uuid5(NAMESPACE, "/".join([*names, str(job["attempt"])])))


def find(prompt):
    """The state of a prompt on the engine; None if the engine does not know it."""
    status, answer = request(f"{ENGINE}/api/jobs/{prompt}")
    if status == 404 and answer and "error" in answer:
        return None
    if status != 200:
        raise OSError(f"the engine responded {status}")
    return answer


def upload(file):
    content = (FILES / file["sha256"][:2] / file["sha256"]).read_bytes()
    if hashlib.sha256(content).hexdigest() != file["sha256"]:
        raise ValueError(f"the uploaded file {file['sha256']} has changed")
    boundary = uuid.uuid4().hex
    head = (
        f'--{boundary}\r\ncontent-disposition: form-data; name="overwrite"\r\n\r\ntrue\r\n--{boundary}\r\n'
        f'content-disposition: form-data; name="image"; filename="{file["name"]}"\r\n'
        f"content-type: {file['content_type']}\r\n\r\n"
    )
    body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
    headers = {"content-type": f"multipart/form-data; boundary={boundary}"}
    status, _ = request(f"{ENGINE}/api/upload/image", body, headers)
    if status != 200:
        raise OSError(f"the engine responded {status} to an upload")


def submit(bundle, prompt):
    """Submits a prompt; returns the outcome of the attempt if the engine refuses it."""
    for file in bundle["files"]:
        upload(file)
    body = {"prompt": bundle["template"], "prompt_id": prompt, "client_id": prompt}
    status, answer = request(f"{ENGINE}/api/prompt", body)
    if status == 400 and answer:
        error = answer["error"]
        return {"outcome": "failed", "code": error["type"], "reason": error["message"]}
    if status != 200:
        raise OSError(f"the engine responded {status}")
    if answer.get("node_errors"):
        request(f"{ENGINE}/api/jobs/{prompt}/cancel", {})
        return {"outcome": "failed", "code": "node_errors", "reason": json.dumps(answer["node_errors"])[:1000]}
    return None


def concluded(state, prompt):
    """The outcome of an ended prompt."""
    if state["status"] == "completed":
        outputs = state.get("outputs") or {}
        files = [
            {**file, "node": node, "url": f"{ENGINE}/api/view?{urllib.parse.urlencode(file)}"}
            for node, output in outputs.items()
            for file in output.get("images", [])
        ]
        return {"outcome": "succeeded", "result": {"prompt_id": prompt, "files": files}}
    if state["status"] == "cancelled":
        return {"outcome": "retry", "code": "interrupted", "reason": "the prompt was interrupted on the engine"}
    return {"outcome": "failed", "code": "node_failed", "reason": json.dumps(state.get("execution_error"))[:1000]}


def run(job, lease):
    """Runs the bundle of a job; looks for its prompt before it submits anything."""
    bundle, prompt, submitted, unknown_since = job["payload"]["execution_bundle"], prompt_id(job), False, None
    while lease.status == "extended":
        try:
            state = find(prompt)
            if state is None:
                unknown_since = unknown_since or time.monotonic()
                if not submitted or time.monotonic() - unknown_since >= FORGOTTEN_S:
                    submitted, unknown_since = True, None
                    if refused := submit(bundle, prompt):
                        return refused
                    continue
            elif state["status"] in ("completed", "failed", "cancelled"):
                return concluded(state, prompt)
            else:
                submitted, unknown_since = True, None
        except FileNotFoundError as error:
            return {"outcome": "retry", "code": "input_missing", "reason": f"{error}; share COMFY_FILES with the API"}
        except ValueError as error:
            return {"outcome": "failed", "code": "input_changed", "reason": str(error)}
        except LOST as error:
            # After a submission only the engine knows whether the prompt runs.
            print(f"{job['id']}: {error}; again", file=sys.stderr)
        time.sleep(POLL_S)
    if lease.status == "cancelled":
        try:
            request(f"{ENGINE}/api/jobs/{prompt}/cancel", {})
        except LOST as error:
            print(f"{job['id']}: not cancelled on the engine: {error}", file=sys.stderr)
        return {"outcome": "cancelled", "code": "cancelled", "reason": "it was cancelled while the engine ran it"}
    # Another worker has it, and finds the prompt.
    return None


def named(job):
    return {key: job[key] for key in ("group", "id", "fence")}


class Lease(threading.Thread):
    """Keeps the lease of a job, at a third of its length, until it is stopped or lost."""

    def __init__(self, job):
        super().__init__(daemon=True)
        self.job, self.status, self.stopped = job, "extended", threading.Event()
        self.start()

    def run(self):
        while self.status == "extended" and not self.stopped.wait(LEASE_MS / 3000):
            answer = queue("/api/leases/extend", {"leases": [named(self.job)], "lease_ms": LEASE_MS})
            self.status = answer["leases"][0]["status"]


def main():
    number = 0
    while True:
        # `queue` repeats the same number until there is an answer: a job leased for a lost answer comes back.
        number += 1
        ask = {"worker": WORKER, "types": [TYPE], "count": 1, "lease_ms": LEASE_MS, "wait_ms": 5000}
        for job in queue("/api/leases", {**ask, "request": number})["jobs"]:
            lease = Lease(job)
            outcome = run(job, lease)
            lease.stopped.set()
            if outcome:
                settlement = {**named(job), "attempt": job["attempt"], **outcome}
                verdict = queue("/api/leases/settle", {"settlements": [settlement]})["verdicts"][0]
                print(f"{job['id']}: {outcome['outcome']}, {verdict}", flush=True)


main()
