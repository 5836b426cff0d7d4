//! The library as an application uses it.

#![expect(clippy::unwrap_used, reason = "what a test needs and does not get is its failure")]

mod bulk;
mod callbacks;
mod dead;
mod enqueue;
mod examples;
mod export;
mod limits;
mod lossy;
mod readme;
