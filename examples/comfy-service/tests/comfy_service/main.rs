//! Tests of the image service: over HTTP, with a real PostgreSQL and a stand-in for a ComfyUI engine.
//!
//! - `submission.rs`: what is accepted, and what is refused. `life.rs`: a job from its upload to its
//!   callback. `workers.rs`: workers in three languages beside each other.
//! - `fire.rs`: every process is killed. `demo.rs`: the demonstration. `documents.rs`: the commands of
//!   the documents. `support.rs`: what they share.

mod demo;
mod documents;
mod fire;
mod life;
mod submission;
mod support;
mod workers;
