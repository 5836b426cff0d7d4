//! Workers on real engines.

mod aggregator;
mod batches;
mod bulks;
mod documents;
mod pool;
mod processors;
mod support;
