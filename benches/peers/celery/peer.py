"""Celery's side of `cargo xtask peers`: enqueues jobs, then starts a worker and waits until it has
run the last one.

Arguments: URL, number of jobs, bytes of a payload, `bulk` or `single`, slots or `default`. Celery
has no call that enqueues many jobs at once, so `bulk` is the same as `single`.
"""

import os
import sys
import threading
import time

import celery
from celery.worker import state

POLL_S = 0.005

url, jobs, payload_bytes, _mode, slots = sys.argv[1:6]
jobs = int(jobs)
payload = "x" * (int(payload_bytes) - 2)  # JSON adds two quotes
app = celery.Celery("peers", broker=url)
app.conf.task_ignore_result = True
app.conf.worker_redirect_stdouts = False


@app.task
def work(_payload):
    pass


def enqueue():
    """Sends every job over one connection, as the documentation recommends for many calls."""
    with app.producer_pool.acquire(block=True) as producer:
        for _ in range(jobs):
            work.apply_async((payload,), producer=producer)


def wait_for_last_job(started, enqueue_s):
    """Watches the worker's own counters, prints the figures and ends the program."""
    while state.all_total_count[0] < jobs or state.active_requests or state.reserved_requests:
        time.sleep(POLL_S)
    drain_s = time.monotonic() - started
    print(f"enqueue_s={enqueue_s} drain_s={drain_s} version={celery.__version__}", flush=True)
    worker.terminate()
    os._exit(0)


started = time.monotonic()
enqueue()
enqueue_s = time.monotonic() - started

started = time.monotonic()
# Without mingle the worker does not wait a second for replies of other workers when it starts.
concurrency = None if slots == "default" else int(slots)
worker = app.Worker(concurrency=concurrency, without_mingle=True, quiet=True)
threading.Thread(target=wait_for_last_job, args=(started, enqueue_s), daemon=True).start()
worker.start()
