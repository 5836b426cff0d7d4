//! Scenarios: what they may say, what they show, and how it is reported.

mod backoffs;
mod disciplines;
mod reports;
mod scenario_files;
mod shipped_scenarios;
mod small_scenarios;
