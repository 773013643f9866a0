//! Change of the functions since another commit, in instructions and allocations.

use crate::callgrind::{self, Counted};
use crate::programs::{Programs, Tree, here};
use anyhow::ensure;
use policy_bench::report::Table;
use policy_bench::stats::wide;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Functions of one commit, by name.
pub(crate) type Functions = BTreeMap<String, Counted>;

/// Counts the functions of a commit, in a worktree of its own below the target directory, which is
/// kept for the next time.
pub(crate) fn before(revision: &str, filter: &str) -> anyhow::Result<Functions> {
    let own = here()?;
    let root = own.target.join("functions-before/tree");
    let tree = Tree { root: root.clone(), target: own.target.join("functions-before/target") };
    if !root.join(".git").exists() {
        // Of a worktree whose folder is gone git still knows.
        git(Command::new("git").args(["worktree", "prune"]))?;
        let add = ["worktree", "add", "--quiet", "--detach"];
        git(Command::new("git").args(add).arg(&root).arg(revision))?;
    }
    let commit = Command::new("git").args(["rev-parse", "--verify", revision]).output()?;
    ensure!(commit.status.success(), "{revision} is no commit");
    let commit = String::from_utf8(commit.stdout)?;
    let checkout = ["checkout", "--quiet", "--detach", "--force", commit.trim()];
    git(Command::new("git").args(checkout).current_dir(&root))?;
    let mut counted = Functions::new();
    for function in Programs::build(&tree)?.functions()? {
        if function.name.contains(filter) {
            eprintln!("{revision}: {}", function.name);
            counted.insert(function.name.clone(), callgrind::count(&function)?);
        }
    }
    Ok(counted)
}

fn git(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}

/// The change of each function, and a line for each that is on one side only.
pub(crate) fn table(revision: &str, before: &Functions, after: &Functions) -> (Table, Vec<String>) {
    let title = format!("Change against {revision}");
    let columns =
        ["function", "instructions before", "now", "change, %", "allocations before", "now"];
    let mut table = Table::new(&title, &columns);
    let mut notes = Vec::new();
    for name in before.keys().chain(after.keys()).collect::<BTreeSet<_>>() {
        match (before.get(name), after.get(name)) {
            (Some(was), Some(is)) => table.row([
                name.as_str().into(),
                wide(was.instructions).into(),
                wide(is.instructions).into(),
                change(was.instructions, is.instructions).into(),
                wide(was.allocations).into(),
                wide(is.allocations).into(),
            ]),
            (Some(_), None) => notes.push(format!("ONLY IN {revision}: {name}")),
            (None, _) => notes.push(format!("NOT IN {revision}: {name}")),
        }
    }
    (table, notes)
}

/// In percent, with its sign.
fn change(before: u64, after: u64) -> String {
    let (before, after) = (wide(before), wide(after));
    format!("{:+.2}", (after - before) / before * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_one_side_only_is_said() {
        let counted = |instructions| Counted { instructions, allocations: 1 };
        let before = Functions::from([("a".into(), counted(100)), ("b".into(), counted(1))]);
        let after = Functions::from([("a".into(), counted(103)), ("c".into(), counted(1))]);
        let (table, notes) = table("HEAD^", &before, &after);
        let expected: Vec<policy_bench::report::Cell> =
            vec!["a".into(), 100.0.into(), 103.0.into(), "+3.00".into(), 1.0.into(), 1.0.into()];
        assert_eq!(table.rows, [expected]);
        assert_eq!(notes, ["ONLY IN HEAD^: b", "NOT IN HEAD^: c"]);
    }
}
