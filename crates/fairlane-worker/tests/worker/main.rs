//! A worker at work, on real engines.

mod bulks;
mod documents;
mod pool;
mod processors;
mod support;
