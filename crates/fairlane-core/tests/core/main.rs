//! Tests of core from outside: random commands, and its document.

mod configuration;
mod random_commands;
