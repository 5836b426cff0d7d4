//! Being written.
pub mod redis;
