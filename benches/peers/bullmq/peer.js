// BullMQ's side of `cargo xtask peers`: enqueues jobs, then starts a worker and waits until it has
// completed the last one.
//
// Arguments: URL, number of jobs, bytes of a payload, `bulk` or `single`, slots or `default`.

import { createRequire } from 'node:module';
import { Queue, Worker } from 'bullmq';

const BULK_JOBS = 1000;
const CALLS_IN_FLIGHT = 100;

const [url, jobsText, payloadBytes, mode, slots] = process.argv.slice(2);
const jobs = Number(jobsText);
const payload = 'x'.repeat(payloadBytes - 2); // JSON adds two quotes
const connection = { url, maxRetriesPerRequest: null };
const job = { name: 'work', data: payload };
const queue = new Queue('peers', { connection });
await queue.waitUntilReady();

const enqueue_s = await seconds(mode === 'bulk' ? enqueueBulk : enqueueSingle);
const drain_s = await seconds(drain);
const { version } = createRequire(import.meta.url)('bullmq/package.json');
console.log(`enqueue_s=${enqueue_s} drain_s=${drain_s} version=${version}`);
process.exit(0);

async function seconds(action) {
  const started = performance.now();
  await action();
  return (performance.now() - started) / 1000;
}

async function enqueueBulk() {
  for (let added = 0; added < jobs; added += BULK_JOBS) {
    await queue.addBulk(Array(Math.min(BULK_JOBS, jobs - added)).fill(job));
  }
}

async function enqueueSingle() {
  let added = 0;
  const caller = async () => {
    while (added++ < jobs) await queue.add(job.name, job.data);
  };
  await Promise.all(Array.from({ length: CALLS_IN_FLIGHT }, caller));
}

function drain() {
  return new Promise((resolve) => {
    const concurrency = slots === 'default' ? undefined : Number(slots);
    const options = concurrency ? { connection, concurrency } : { connection };
    const worker = new Worker('peers', async () => {}, options);
    let completed = 0;
    worker.on('completed', () => {
      if (++completed === jobs) resolve();
    });
  });
}
