//! The core from outside: what it does with anything, and that its document is true.

mod configuration;
mod random_commands;
