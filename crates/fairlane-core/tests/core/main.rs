//! Tests of core from outside: random commands, and its document.

mod configuration;
mod limits_page;
mod locks;
mod memory_store;
mod random_commands;
mod rankings;
mod rooms;
