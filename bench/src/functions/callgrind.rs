//! Instructions and allocations of a call, counted by valgrind's callgrind. They do not depend on how
//! busy the machine is.

use crate::programs::Function;
use anyhow::{Context, ensure};
use serde::Serialize;
use std::process::Command;

/// Calls that are counted together.
const TIMES: u64 = 10;

/// The function between whose beginning and end is counted.
const MEASURED: &str = "*measured_call*";

/// Functions that reserve memory, whichever allocator the program has: glibc's, under these names.
const ALLOCATE: [&str; 6] =
    ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign"];

/// Counts of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counted {
    pub(crate) instructions: u64,
    pub(crate) allocations: u64,
}

/// Counts a call of the function.
pub(crate) fn count(function: &Function) -> anyhow::Result<Counted> {
    let profile = std::env::temp_dir().join(format!("functions-{}.out", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--toggle-collect={MEASURED}"))
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(&function.program)
        .args(["--call", &function.name, &TIMES.to_string()])
        .output()
        .context("valgrind (Debian: apt-get install valgrind)")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}\n{said}", function.name, output.status);
    let text = std::fs::read_to_string(&profile).with_context(|| profile.display().to_string())?;
    std::fs::remove_file(&profile)?;
    let counted = parse(&text).with_context(|| function.name.clone())?;
    // Else nothing was counted, for there is no such function in the program.
    ensure!(counted.instructions > 0, "{}: {MEASURED} was not found", function.name);
    Ok(Counted {
        instructions: counted.instructions / TIMES,
        allocations: counted.allocations / TIMES,
    })
}

/// All of a profile: its total, and the calls of what reserves memory. The format is that of
/// valgrind's manual, "Callgrind Format Specification"; calls of a function are in `calls=` lines
/// behind its name.
fn parse(profile: &str) -> anyhow::Result<Counted> {
    let total = profile
        .lines()
        .find_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")));
    let total = total.context("the profile has no totals")?.trim();
    let mut counted = Counted { instructions: total.parse()?, allocations: 0 };
    let mut allocates = false;
    for line in profile.lines() {
        if let Some(called) = line.strip_prefix("cfn=") {
            // A function called within itself has its depth behind an apostrophe.
            let name = called.split('\'').next().unwrap_or(called);
            allocates = ALLOCATE.contains(&name);
        } else if let Some(calls) = line.strip_prefix("calls=").filter(|_| allocates) {
            let calls = calls.split(' ').next().unwrap_or_default();
            counted.allocations += calls.parse::<u64>()?;
        }
    }
    Ok(counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_added_up() {
        let profile = "version: 1\nevents: Ir\n\nfn=one\n3 100\ncfn=malloc\ncalls=3 0\n3 90\n\
                       cfn=free\ncalls=3 0\n3 30\n\nfn=two\n4 5\ncfn=realloc'2\ncalls=2 0\n4 7\n\n\
                       totals: 232\n";
        let expected = Counted { instructions: 232, allocations: 5 };
        assert_eq!(parse(profile).unwrap(), expected);
        assert!(parse("version: 1\n").is_err());
    }
}
