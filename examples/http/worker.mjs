#!/usr/bin/env node
// A producer and worker for Fairlane, for Node 20 without packages.
//
// FAIRLANE_URL  where the server is (http://127.0.0.1:8080 unless set)
// FAIRLANE_KEY  a key of the role admin (it both produces and works); none where the server asks for none

import { setTimeout as sleep } from "node:timers/promises";

const url = process.env.FAIRLANE_URL ?? "http://127.0.0.1:8080";
const key = process.env.FAIRLANE_KEY;
const run = `${Date.now()}-${process.pid}`;
const [group, bulk, type, worker] = ["example", `js-${run}`, "greeting-js", `js-${run}`];
const lease_ms = 2000;
const names = ["slow", "busy", "shaky", "ada", "grace", "edsger", "barbara", "donald", "frances", "ken"];

// What passes: the server is full or stopping, or a proxy cannot reach it.
const forNow = [429, 502, 503, 504];

const headers = key ? { authorization: `Bearer ${key}` } : {};

// Sends JSON until there is an answer. Every request here may be repeated, so a lost answer does no harm.
async function post(path, body) {
  for (;;) {
    try {
      const response = await fetch(url + path, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(40_000),
      });
      if (response.ok) return await response.json();
      // The response of another program is not JSON.
      const problem = (await response.json().catch(() => null)) ?? {};
      if (!forNow.includes(response.status)) {
        console.error(`${path}: ${response.status} ${problem.title ?? response.statusText} ${problem.detail ?? ""}`);
        process.exit(1);
      }
      await sleep(problem.retry_after_ms ?? 1000);
    } catch (error) {
      console.error(`${path}: ${error.message}; again in a second`);
      await sleep(1000);
    }
  }
}

async function produce() {
  await post("/api/bulks", { group, id: bulk });
  const jobs = names.map((name) => ({ group, type, bulk, id: `${bulk}-${name}`, payload: { name } }));
  const receipts = await post("/api/jobs/batch", { jobs });
  if (receipts.refused > 0) throw new Error(JSON.stringify(receipts));
  await post(`/api/bulks/${group}/${bulk}/seal`, { expected: jobs.length });
}

// Follows the bulk action until it has ended; comes back behind the last event when the stream breaks off.
async function follow(progress) {
  let lastId;
  while (!progress.end) {
    // The server sends something every 15 seconds, if only to be heard.
    const silence = new AbortController();
    const timer = setTimeout(() => silence.abort(new Error("nothing heard")), 40_000);
    try {
      const since = lastId ? { "last-event-id": lastId } : {};
      const response = await fetch(`${url}/api/bulks/${group}/${bulk}/events`, {
        headers: { ...headers, ...since },
        signal: silence.signal,
      });
      if (!response.ok) throw new Error(`status ${response.status}`);
      let text = "";
      for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
        timer.refresh();
        const blocks = (text + chunk).split("\n\n");
        text = blocks.pop();
        for (const block of blocks) lastId = heard(progress, block) ?? lastId;
      }
    } catch (error) {
      console.error(`events: ${error.message}; again in a second`);
      await sleep(1000);
    } finally {
      clearTimeout(timer);
    }
  }
}

function heard(progress, block) {
  const field = (name) =>
    block.split("\n").filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2)).join("\n");
  if (!field("event")) return;
  const state = JSON.parse(field("data"));
  progress.states += 1;
  console.log(`  ${state.state}: ${state.succeeded} of ${state.total}`);
  if (field("event") === "ended") progress.end = state;
  return field("id");
}

// Does the job and says how it ended.
async function handle(job, throttled) {
  const { name } = job.payload;
  // Takes longer than its lease; the heartbeat keeps it.
  if (name === "slow") await sleep(lease_ms * 1.5);
  if (name === "busy" && !throttled.has(name)) {
    // Its downstream says 429 once: costs no attempt, but slows the type.
    throttled.add(name);
    return { outcome: "throttled", retry_after_ms: 500 };
  }
  if (name === "shaky" && job.attempt === 1) {
    // The server chooses a delay, longer with each attempt.
    return { outcome: "retry", code: "shaky", reason: "it fell over" };
  }
  return { outcome: "succeeded", result: { greeting: `hello ${name}` } };
}

const named = ({ group, id, fence }) => ({ group, id, fence });

// Keeps the leases of all jobs in hand.
async function keep(inHand) {
  const jobs = [...inHand];
  if (jobs.length === 0) return;
  const kept = await post("/api/leases/extend", { leases: jobs.map(named), lease_ms });
  kept.leases.forEach(({ status }, at) => {
    // One that was settled meanwhile is no longer in hand.
    if (status !== "extended" && inHand.has(jobs[at])) console.error(`${jobs[at].id}: its lease is ${status}`);
  });
}

async function work(progress) {
  const [throttled, inHand] = [new Set(), new Set()];
  const beating = setInterval(() => keep(inHand), lease_ms / 3);
  for (let request = 1; !progress.end; request += 1) {
    // `post` repeats the same number until there is an answer: jobs leased for a lost answer come back.
    const { jobs } = await post("/api/leases", { worker, types: [type], count: 5, lease_ms, wait_ms: 1000, request });
    jobs.forEach((job) => inHand.add(job));
    const attempt = async (job) => {
      const outcome = await handle(job, throttled);
      const settlement = { ...named(job), attempt: job.attempt, ...outcome };
      const { verdicts } = await post("/api/leases/settle", { settlements: [settlement] });
      inHand.delete(job);
      console.log(`${job.id}: ${outcome.outcome} (attempt ${job.attempt}), ${verdicts[0]}`);
    };
    await Promise.all(jobs.map(attempt));
  }
  clearInterval(beating);
}

const progress = { states: 0, end: undefined };
await produce();
await Promise.all([follow(progress), work(progress)]);
const { state, succeeded, total } = progress.end;
console.log(`${bulk}: ${state}, ${succeeded} of ${total} succeeded, ${progress.states} states on the way`);
process.exitCode = state === "completed" ? 0 : 1;
