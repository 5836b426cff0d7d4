//! A worker at work, on real engines.

mod aggregator;
mod bulks;
mod documents;
mod pool;
mod processors;
mod support;
