#!/usr/bin/env node
// A worker for the jobs of the image service, with nothing but Node (20 or newer).
//
// It takes jobs from a Fairlane server over HTTP and runs their bundles on a ComfyUI engine with the jobs API (since
// January 2026). It needs no database: a job has all that it takes to run it. Prompts have the ids that workers in other
// languages derive, too, so that a worker that takes over a job finds its prompt.
//
// FAIRLANE_ENGINE  the Fairlane server (http://127.0.0.1:8080 unless set)
// FAIRLANE_KEY     a key of the role worker; none where the server asks for none
// COMFY_URL        the ComfyUI engine (http://127.0.0.1:8188 unless set)
// COMFY_FILES      the directory of uploaded files (comfy-files unless set)

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const queueUrl = process.env.FAIRLANE_ENGINE ?? "http://127.0.0.1:8080";
const key = process.env.FAIRLANE_KEY;
const engine = process.env.COMFY_URL ?? "http://127.0.0.1:8188";
const files = process.env.COMFY_FILES ?? "comfy-files";
const worker = `js-${process.pid}-${Date.now()}`;
const type = "comfyui";
const lease_ms = 15_000;
const poll_ms = 500;
// A prompt that stays unknown for this long was forgotten: the engine was restarted.
const forgotten_ms = 2000;
// The namespace of the ids of prompts, which all workers share.
const namespace = Buffer.from("9a3f62c17d054e0b8c4a51f02b7ed916", "hex");

/** The uploaded file is not what the job says. */
class BadInput extends Error {}

// Sends a request; returns the status and the JSON of the answer, whatever the status is.
async function request(url, { body, headers, method } = {}) {
  const response = await fetch(url, {
    method: method ?? (body === undefined ? "GET" : "POST"),
    headers: typeof body === "string" ? { "content-type": "application/json", ...headers } : headers,
    body,
    signal: AbortSignal.timeout(40_000),
  });
  const text = await response.text();
  try {
    return [response.status, JSON.parse(text)];
  } catch {
    return [response.status, undefined];
  }
}

// Sends a request to the queue until there is an answer: every request there may be repeated.
async function queue(path, body) {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  for (;;) {
    try {
      const [status, answer] = await request(queueUrl + path, { body: JSON.stringify(body), headers });
      if (status < 300) return answer;
      if (![429, 502, 503, 504].includes(status)) {
        console.error(`${path}: ${status} ${JSON.stringify(answer)}`);
        process.exit(1);
      }
    } catch (error) {
      console.error(`${path}: ${error.message}; again in a second`);
    }
    await sleep(1000);
  }
}

const encoded = (name) => encodeURIComponent(name).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

// The id of the prompt of an attempt, a UUID of version 5: lost leases do not count as attempts.
function promptId({ group, id, attempt }) {
  const name = [encoded(group), encoded(id), attempt].join("/");
  const bytes = createHash("sha1").update(namespace).update(name).digest().subarray(0, 16);
  bytes[6] = (bytes[6] & 0x0f) | 0x50;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

// The state of a prompt on the engine; undefined if the engine does not know it.
async function find(prompt) {
  const [status, answer] = await request(`${engine}/api/jobs/${prompt}`);
  if (status === 404 && answer?.error) return undefined;
  if (status !== 200) throw new Error(`the engine responded ${status}`);
  return answer;
}

async function upload({ name, content_type, sha256 }) {
  let content;
  try {
    content = await readFile(join(files, sha256.slice(0, 2), sha256));
  } catch (error) {
    throw new BadInput(`${error.message}; share COMFY_FILES with the API`);
  }
  if (createHash("sha256").update(content).digest("hex") !== sha256) throw new BadInput(`${sha256} has changed`);
  const form = new FormData();
  form.set("overwrite", "true");
  form.set("image", new Blob([content], { type: content_type }), name);
  const [status] = await request(`${engine}/api/upload/image`, { body: form });
  if (status !== 200) throw new Error(`the engine responded ${status} to an upload`);
}

// Submits a prompt; returns the outcome of the attempt if the engine refuses it.
async function submit(bundle, prompt) {
  for (const file of bundle.files) await upload(file);
  const body = JSON.stringify({ prompt: bundle.template, prompt_id: prompt, client_id: prompt });
  const [status, answer] = await request(`${engine}/api/prompt`, { body });
  if (status === 400 && answer) return { outcome: "failed", code: answer.error.type, reason: answer.error.message };
  if (status !== 200) throw new Error(`the engine responded ${status}`);
  if (Object.keys(answer.node_errors ?? {}).length > 0) {
    await request(`${engine}/api/jobs/${prompt}/cancel`, { method: "POST" });
    return { outcome: "failed", code: "node_errors", reason: JSON.stringify(answer.node_errors).slice(0, 1000) };
  }
}

// The outcome of an ended prompt.
function concluded({ status, outputs, execution_error }, prompt) {
  if (status === "completed") {
    const found = Object.entries(outputs ?? {}).flatMap(([node, { images }]) =>
      (images ?? []).map((file) => ({ ...file, node, url: `${engine}/api/view?${new URLSearchParams(file)}` })),
    );
    return { outcome: "succeeded", result: { prompt_id: prompt, files: found } };
  }
  if (status === "cancelled") {
    return { outcome: "retry", code: "interrupted", reason: "the prompt was interrupted on the engine" };
  }
  return { outcome: "failed", code: "node_failed", reason: (JSON.stringify(execution_error) ?? "").slice(0, 1000) };
}

// Runs the bundle of a job; looks for its prompt before it submits anything.
async function run(job, lease) {
  const [bundle, prompt] = [job.payload.execution_bundle, promptId(job)];
  let [submitted, unknownSince] = [false, undefined];
  for (; lease.status === "extended"; await sleep(poll_ms)) {
    try {
      const state = await find(prompt);
      if (state === undefined) {
        unknownSince ??= Date.now();
        if (!submitted || Date.now() - unknownSince >= forgotten_ms) {
          [submitted, unknownSince] = [true, undefined];
          const refused = await submit(bundle, prompt);
          if (refused) return refused;
        }
      } else if (["completed", "failed", "cancelled"].includes(state.status)) {
        return concluded(state, prompt);
      } else {
        [submitted, unknownSince] = [true, undefined];
      }
    } catch (error) {
      if (error instanceof BadInput) return { outcome: "retry", code: "input", reason: error.message };
      // After a submission only the engine knows whether the prompt runs.
      console.error(`${job.id}: ${error.message}; again`);
    }
  }
  if (lease.status === "cancelled") {
    await request(`${engine}/api/jobs/${prompt}/cancel`, { method: "POST" }).catch((error) =>
      console.error(`${job.id}: not cancelled on the engine: ${error.message}`),
    );
    return { outcome: "cancelled", code: "cancelled", reason: "it was cancelled while the engine ran it" };
  }
  // Another worker has it, and finds the prompt.
}

const named = ({ group, id, fence }) => ({ group, id, fence });

// Keeps the lease of a job, at a third of its length, until it is stopped or lost.
function keep(job) {
  const lease = { status: "extended" };
  const beating = setInterval(async () => {
    const { leases } = await queue("/api/leases/extend", { leases: [named(job)], lease_ms });
    lease.status = leases[0].status;
  }, lease_ms / 3);
  lease.stop = () => clearInterval(beating);
  return lease;
}

for (let number = 1; ; number += 1) {
  // `queue` repeats the same number until there is an answer: a job leased for a lost answer comes back.
  const ask = { worker, types: [type], count: 1, lease_ms, wait_ms: 5000, request: number };
  const { jobs } = await queue("/api/leases", ask);
  for (const job of jobs) {
    const lease = keep(job);
    const outcome = await run(job, lease);
    lease.stop();
    if (!outcome) continue;
    const settlement = { ...named(job), attempt: job.attempt, ...outcome };
    const { verdicts } = await queue("/api/leases/settle", { settlements: [settlement] });
    console.log(`${job.id}: ${outcome.outcome}, ${verdicts[0]}`);
  }
}
