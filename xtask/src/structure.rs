//! Imports among the source files of every crate of the workspace, and the loops among them; the files
//! that name a kind; and the files and types that a Server's content passes until a decision.
//!
//! An edge is any path that leads from one file to another: a `use`, a path that begins with
//! `crate`, `self` or `super`, or one that begins with the name of a module in scope. Code that is
//! compiled for tests alone has no edges, and generated code is no file. A parent that re-exports
//! from a child that imports from its parent is a loop as any other.

mod attributes;
mod graph;
mod kinds;
mod modules;
mod report;
mod resolve;
mod server_path;
mod syntax;
mod types;
mod words;
mod workspace;

pub use kinds::{KindFiles, kind_files, kind_table};
pub use report::{CrateStructure, Loop, table, workspace_structure};
pub use server_path::{Stage, server_path, server_path_faults, server_path_table};
pub use words::{CrateWords, words_faults, words_table, workspace_words};
pub use workspace::{Member, Target, members};
