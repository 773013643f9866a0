//! The documents say what the code has: every reason is explained, every link leads somewhere, and every
//! name that a page states is looked up.
//!
//! The lists come from the code: commands and their flags from clap, metrics from their declarations,
//! reasons from their enums, values from the chart. A name that is another product's stands in
//! `allowed`, with the reason. A new page is read like the others.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where it cannot go on")]

mod allowed;
mod code;
mod command_lines;
mod commands;
mod context;
mod figures;
mod files;
mod flags;
mod keys;
mod links;
mod messages;
mod names;
mod pages;
mod reasons;
mod self_check;
mod values;
