//! Machine and versions of a measurement.

use serde_json::{Map, Value, json};
use std::fs;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The machine, the compiler, the commit and the time, as an object.
pub fn here() -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let command: Vec<String> = std::env::args().skip(1).collect();
    json!({
        "cpu": cpu(),
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "memory_mib": total_memory(),
        "kernel": kernel(),
        "commit": commit(),
        "rustc": said("rustc", &["--version"]),
        "unix_time": now.as_secs(),
        "arguments": command.join(" "),
    })
}

/// The first line that each program says of its version, by name. What is missing is left out.
pub fn versions<'a>(programs: impl IntoIterator<Item = (&'a str, Vec<&'a str>)>) -> Value {
    let mut all = Map::new();
    for (name, command) in programs {
        let Some((program, arguments)) = command.split_first() else { continue };
        let line = said(program, arguments);
        if !line.is_empty() {
            all.insert(name.to_owned(), Value::String(line));
        }
    }
    Value::Object(all)
}

/// The first line that a program says on either of its outputs; empty where it cannot run.
pub fn said(program: &str, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else { return String::new() };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

fn commit() -> String {
    let arguments = ["describe", "--always", "--dirty", "--abbrev=12"];
    let output = Command::new("git").args(arguments).output().ok();
    let output = output.filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|| "unknown".to_owned())
}

fn cpu() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name"));
    model.unwrap_or_default().trim_start_matches([' ', '\t', ':']).to_owned()
}

fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    release.trim().to_owned()
}

fn total_memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
