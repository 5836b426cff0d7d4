//! The commands, one file each, with a folder where one grows.

pub mod bench;
pub mod demo;
pub mod simulate;
