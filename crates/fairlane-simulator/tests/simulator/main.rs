//! Scenarios: their files, their results and their reports.

mod backoffs;
mod disciplines;
mod previews;
mod reports;
mod scenario_files;
mod shipped_scenarios;
mod small_scenarios;
