//! Cost of single functions: time, instructions, allocations, and the change against another
//! commit. `bench/README.md` says how to repeat it.
//!
//! The functions are in the benches of the crates that own them; each bench is a program that makes
//! one call of one function (see `policy_measure`).
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod callgrind;
mod change;
mod programs;
mod time;

use callgrind::Counted;
use clap::Parser;
use policy_bench::report::{Document, Table};
use policy_bench::stats::{Spread, wide};
use programs::{Programs, here};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Measures functions and prints a table.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Only functions whose names contain this.
    #[arg(default_value = "")]
    filter: String,
    /// Counts the functions of this commit too, and prints the change.
    #[arg(long)]
    against: Option<String>,
    /// Leaves out the time, which depends on the machine and what else it does.
    #[arg(long)]
    no_time: bool,
    /// Builds what is to be measured, and nothing else.
    #[arg(long)]
    build_only: bool,
    /// File for the results as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Results of a function.
struct Measured {
    counted: Counted,
    /// Nanoseconds.
    time: Option<Spread>,
}

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let own = Programs::build(&here()?)?;
    if cli.build_only {
        return Ok(());
    }
    let mut document = Document::new("functions");
    let mut measured = BTreeMap::new();
    for function in own.functions()?.iter().filter(|f| f.name.contains(&cli.filter)) {
        eprintln!("{}: {}", function.crate_name, function.name);
        match measure(function, !cli.no_time) {
            Ok(of) => _ = measured.insert(function.clone(), of),
            // The others are not to be lost.
            Err(error) => {
                let note = format!("FAILED: {}: {error:#}", function.name);
                eprintln!("{note}");
                document.notes.push(note);
            }
        }
    }
    document.tables.push(functions(&measured));
    if let Some(revision) = &cli.against {
        let before = change::before(revision, &cli.filter)?;
        let after = measured.iter().map(|(function, of)| (function.name.clone(), of.counted));
        let (table, notes) = change::table(revision, &before, &after.collect());
        document.tables.push(table);
        document.notes.extend(notes);
    }
    let raw = measured.iter().map(|(function, of)| {
        json!({
            "crate": function.crate_name,
            "function": function.name,
            "instructions": of.counted.instructions,
            "allocations": of.counted.allocations,
            "time_ns": of.time,
        })
    });
    document.raw = raw.collect();
    document.finish(cli.json.as_deref())
}

fn measure(function: &programs::Function, with_time: bool) -> anyhow::Result<Measured> {
    let counted = callgrind::count(function)?;
    let time = if with_time { Some(time::measure(function)?) } else { None };
    Ok(Measured { counted, time })
}

fn functions(measured: &BTreeMap<programs::Function, Measured>) -> Table {
    let title = "One call of a function";
    let columns = ["crate", "function", "instructions", "allocations", "time, ns"];
    let mut table = Table::new(title, &columns);
    for (function, Measured { counted, time }) in measured {
        table.row([
            function.crate_name.clone().into(),
            function.name.clone().into(),
            wide(counted.instructions).into(),
            wide(counted.allocations).into(),
            (*time).into(),
        ]);
    }
    table
}
