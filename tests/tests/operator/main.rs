//! The operator's way through the documents, from an empty cluster to the removal: every command of
//! docs/install.md and docs/default-deny.md is run on a node as it stands there, and what the page says
//! that it prints is printed.

mod page;
mod prints;
mod shell;
mod walk;
