//! The outbound half: what the application's connections lead to, and how they are carried there.
//!
//! ```text
//! application ──► connection ──► table ──► entry ──► endpoint
//!                                  ▲
//!                      discover ───┘  answers
//! ```

pub mod table;
