//! The library as an application uses it.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod bulk;
mod callbacks;
mod dead;
mod enqueue;
mod examples;
mod export;
mod fencing;
mod leases;
mod limits;
mod locks;
mod lossy;
mod rankings;
mod readme;
mod rooms;
