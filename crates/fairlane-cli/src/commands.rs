//! The commands, one file each, with a folder where one grows.

pub mod audit;
pub mod bench;
pub mod data;
pub mod demo;
pub mod simulate;
pub mod why;
