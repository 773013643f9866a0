//! `make test`, `make test-cluster` and `make test-all`: the programs of tests of the workspace, in two lanes.
//!
//! One lane needs a cluster and mostly waits; the other is everything else, and then what needs a node.
//! Cargo would run one program after the other and stop at the first that fails. What a step says is kept whole in a
//! file and printed when the lane has ended. The failed tests come last, for whoever sees only the end.

mod libtest;
mod list;
mod report;
mod step;

use anyhow::{Context as _, Result};
use list::Program;
use report::Report;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use step::{Done, Step};

/// The programs of `policy-tests` that need a cluster, or what is built for one, in the order in which they
/// run.
const WITH_CLUSTER: [&str; 3] = ["chart", "cluster", "images"];

/// The programs of `policy-tests` that need a node, in the order in which they run: after the others that
/// need a cluster, or after the lane without one, where both lanes run, because it is the shorter one.
const WITH_NODE: [&str; 3] = ["node", "e2e", "operator"];

/// Tests of `cluster` that take times of a second: they run when nothing else does.
const TIMED: &str = "injector::crowded::";

/// Programs of other tests that take times of a second and less, by package and name: they run when
/// nothing else does.
const ALONE: [(&str, &str); 3] =
    [("policy-proxy", "sidecar"), ("policy-tests", "detection"), ("policy-tests", "pipeline")];

/// Programs of other packages that need root, by package and name. They run beside the cluster where
/// both lanes run.
const WITH_ROOT: (&str, &str) = ("policy-proxy", "redirect");

/// Most that the lanes may take together: whoever ends a run from outside, as continuous integration does
/// after 90 minutes, sees no report.
const BOUND: Duration = Duration::from_secs(65 * 60);

/// Order in which the tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Both lanes at once.
    AtOnce,
    /// The lane without a cluster, then the other.
    OneAfterTheOther,
    /// Only what needs a cluster, a node or root.
    ClusterOnly,
    /// Only what needs none of these.
    RestOnly,
}

/// Runs the tests of the workspace in `root`; whether all passed.
///
/// # Errors
/// If they cannot be built, or what they say cannot be kept.
pub fn run(root: &Path, order: Order) -> Result<bool> {
    let began = Instant::now();
    let last = began + BOUND;
    let programs = list::programs(root)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let kept = target.unwrap_or_else(|| root.join("target")).join("test-output");
    std::fs::create_dir_all(&kept).with_context(|| kept.display().to_string())?;
    let with = |program: &Program| needs_cluster(program, order);
    let (on_nodes, programs): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| is_of(program, &WITH_NODE));
    let (with, without): (Vec<_>, Vec<_>) = programs.into_iter().partition(with);
    let (quiet, without): (Vec<_>, Vec<_>) = without.into_iter().partition(is_alone);
    let timed = with.iter().filter(|program| program.target == "cluster");
    let timed = timed.map(|program| Step::tests(program.clone(), 1).chosen(&[TIMED]));
    let quiet = quiet.into_iter().map(|program| Step::tests(program, 1));
    let alone: Vec<Step> = match order {
        Order::AtOnce | Order::OneAfterTheOther => quiet.chain(timed).collect(),
        Order::ClusterOnly => timed.collect(),
        Order::RestOnly => quiet.collect(),
    };
    let alone = ("alone", alone, kept.join("alone.log"));
    let (mut cluster, mut rest) = (with_cluster(root, with)?, without_cluster(root, without));
    match order {
        Order::AtOnce => rest.extend(in_order(on_nodes, &WITH_NODE)),
        Order::OneAfterTheOther | Order::ClusterOnly | Order::RestOnly => {
            cluster.extend(in_order(on_nodes, &WITH_NODE));
        }
    }
    let lanes =
        [("cluster", cluster, kept.join("cluster.log")), ("rest", rest, kept.join("rest.log"))];
    let mut done = match order {
        Order::AtOnce => at_once(lanes, last)?,
        Order::OneAfterTheOther => in_turn(lanes.into_iter().rev(), last)?,
        Order::ClusterOnly => in_turn(lanes.into_iter().take(1), last)?,
        Order::RestOnly => in_turn(lanes.into_iter().skip(1), last)?,
    };
    done.extend(run_lane(alone, last)?);
    print!("{}", skipped());
    let report = Report::of(done, began.elapsed());
    print!("{report}");
    Ok(report.passed())
}

type Lane = (&'static str, Vec<Step>, PathBuf);

/// True if a program belongs to the lane with a cluster.
fn needs_cluster(program: &Program, order: Order) -> bool {
    let one_lane = matches!(order, Order::ClusterOnly | Order::RestOnly);
    let needs_root = (&*program.package, &*program.target) == WITH_ROOT;
    is_of(program, &WITH_CLUSTER) || (needs_root && one_lane)
}

/// True if it is one of these programs of `policy-tests`.
fn is_of(program: &Program, names: &[&str]) -> bool {
    program.package == "policy-tests" && names.contains(&&*program.target)
}

/// Steps of programs in the order of their names.
fn in_order(mut programs: Vec<Program>, names: &[&str]) -> Vec<Step> {
    programs.sort_by_key(|program| names.iter().position(|name| *name == program.target));
    programs.into_iter().map(|program| Step::tests(program, 1)).collect()
}

fn is_alone(program: &Program) -> bool {
    ALONE.contains(&(&*program.package, &*program.target))
}

/// Everything that is built for the cluster, then its tests.
fn with_cluster(root: &Path, mut programs: Vec<Program>) -> Result<Vec<Step>> {
    let place = |program: &Program| WITH_CLUSTER.iter().position(|name| *name == program.target);
    programs.sort_by_key(place);
    let builder = std::env::current_exe()?.with_file_name("test-cluster");
    let build = |what: &str, argument: &str| {
        let mut command = Command::new(&builder);
        command.arg(argument).current_dir(root);
        Step::plain(what, command)
    };
    let first = [build("Kubernetes for tests", "build"), build("images for tests", "images")];
    // The tests on a control plane wait for most of their time.
    let for_each = |program: &Program| if program.target == "cluster" { 2 } else { 1 };
    let tests = programs.into_iter().map(|program| {
        let threads = for_each(&program);
        let step = Step::tests(program.clone(), threads);
        if program.target == "cluster" { step.chosen(&["--skip", TIMED]) } else { step }
    });
    Ok(first.into_iter().chain(tests).collect())
}

/// The other programs, and the examples of the documentation.
fn without_cluster(root: &Path, programs: Vec<Program>) -> Vec<Step> {
    let mut examples = Command::new(list::cargo());
    examples.args(["test", "--workspace", "--doc"]).current_dir(root);
    let examples = Step::plain("examples of the documentation", examples);
    programs.into_iter().map(|program| Step::tests(program, 1)).chain([examples]).collect()
}

fn at_once(lanes: [Lane; 2], last: Instant) -> Result<Vec<Done>> {
    let done = lanes.map(|lane| std::thread::spawn(move || run_lane(lane, last)));
    // Both are awaited before either's error ends the run: the other's programs are not left behind.
    let done = done.map(|lane| lane.join().map_err(|_| anyhow::anyhow!("a lane panicked")));
    let mut all = Vec::new();
    for lane in done {
        all.extend(lane??);
    }
    Ok(all)
}

fn in_turn(lanes: impl Iterator<Item = Lane>, last: Instant) -> Result<Vec<Done>> {
    let mut all = Vec::new();
    for lane in lanes {
        all.extend(run_lane(lane, last)?);
    }
    Ok(all)
}

/// The tests that were skipped for lack of something, which count themselves in a file.
fn skipped() -> String {
    let path = std::env::var_os("PORTCULLIS_SKIPPED");
    let found = path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    match found.lines().count() {
        0 => String::new(),
        count => format!("==> {count} tests were SKIPPED:\n{found}"),
    }
}

/// Runs every step, whatever became of those before it, and prints all they said.
fn run_lane((name, steps, kept): Lane, last: Instant) -> Result<Vec<Done>> {
    let mut file = std::fs::File::create(&kept).with_context(|| kept.display().to_string())?;
    let mut done = Vec::new();
    for step in steps {
        let ended = step.run(&mut file, last);
        println!("{name}: {}", ended.line());
        done.push(ended);
    }
    let said = std::fs::read(&kept)?;
    println!("==> lane {name}, kept in {}\n{}", kept.display(), String::from_utf8_lossy(&said));
    Ok(done)
}
