//! A case: every proxy that it concerns, in turn, first as fast as it goes, then at one rate for all.

use crate::cases::Case;
use anyhow::Context;
use policy_bench::attack::{Attacking, Made};
use policy_bench::load::{Load, Outcome};
use policy_bench::process::Memory;
use policy_bench::proxies::{Application, Kind, Programs, Proxy, Setup};
use policy_bench::stats::{Spread, interleaved};
use policy_bench::{certificates, child};
use std::path::PathBuf;
use tempfile::TempDir;

/// The case whose tail is measured longest.
const BASE: &str = "base";

/// Extent of the measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) rounds: usize,
    pub(crate) seconds: f64,
    pub(crate) latency: bool,
    pub(crate) pinned: bool,
}

/// Shared state of all cases.
pub(crate) struct Bench<'a> {
    programs: &'a Programs,
    settings: Settings,
    folder: TempDir,
}

/// Results of a case.
#[derive(Clone, Debug)]
pub(crate) struct Result {
    pub(crate) case: Case,
    /// Operations per second at the fixed rate, and of whom it is half, if it is of one.
    pub(crate) rate: Option<(f64, Option<Kind>)>,
    pub(crate) measured: Vec<Measured>,
}

/// Results of a proxy, round by round.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) kind: Kind,
    pub(crate) fast: Vec<Outcome>,
    pub(crate) fixed: Vec<Outcome>,
    /// Counts of what attackers did at the fixed rate.
    pub(crate) attacks: Vec<Made>,
    pub(crate) memory: Memory,
}

impl Measured {
    fn of(kind: Kind) -> Self {
        let (fast, fixed, attacks) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, fast, fixed, attacks, memory: Memory::default() }
    }
}

/// The cores of proxies, and of load and application.
const CORES: (&str, &str) = ("0", "1");

impl<'a> Bench<'a> {
    pub(crate) fn start(programs: &'a Programs, settings: Settings) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("data-path-").tempdir()?;
        certificates::write(folder.path())?;
        Ok(Self { programs, settings, folder })
    }

    pub(crate) fn measure(&self, case: &Case, kinds: &[Kind]) -> anyhow::Result<Result> {
        let pinned = self.settings.pinned && case.may_be_pinned();
        let (cores, others) = if pinned { (Some(CORES.0), Some(CORES.1)) } else { (None, None) };
        let application =
            Application::start(&self.programs.application, self.folder.path(), others)?;
        let mut running = Vec::new();
        for kind in kinds.iter().copied().filter(|kind| case.concerns(*kind)) {
            let setup = Setup {
                programs: self.programs,
                folder: self.folder_of(case, kind),
                certificates: self.folder.path(),
                side: case.side(),
                application: &application,
                rules: case.rules,
                workers: case.workers,
                cores,
            };
            let proxy = Proxy::start(kind, &setup).with_context(|| kind.name())?;
            running.push((proxy, Measured::of(kind)));
        }
        for (_, at) in interleaved(self.settings.rounds, running.len()) {
            let Some((proxy, measured)) = running.get_mut(at) else { continue };
            measured.fast.push(self.run(case, proxy, others, None)?.0);
        }
        for (proxy, measured) in &mut running {
            measured.memory = proxy.memory()?;
        }
        let rate = self.fixed_rate(case, &running);
        if let Some((rate, _)) = rate {
            let proxies = running.iter().flat_map(|(proxy, _)| proxy.pids());
            put_first([application.process.pid()].into_iter().chain(proxies));
            for (_, at) in interleaved(self.settings.rounds, running.len()) {
                let Some((proxy, measured)) = running.get_mut(at) else { continue };
                let (outcome, attack) = self.run(case, proxy, others, Some(rate))?;
                measured.fixed.push(outcome);
                measured.attacks.extend(attack);
            }
        }
        let measured = running.into_iter().map(|(_, measured)| measured).collect();
        Ok(Result { case: case.clone(), rate, measured })
    }

    fn folder_of(&self, case: &Case, kind: Kind) -> PathBuf {
        self.folder.path().join(format!("{}-{kind:?}", case.name))
    }

    fn run(
        &self,
        case: &Case,
        proxy: &mut Proxy,
        cores: Option<&str>,
        rate: Option<f64>,
    ) -> anyhow::Result<(Outcome, Option<Made>)> {
        // Of these cases the tail is a figure of its own, and takes more answers.
        let is_longer = rate.is_some() && (case.name == BASE || case.attacked);
        let load = Load {
            seconds: self.settings.seconds * if is_longer { 3.0 } else { 1.0 },
            rate,
            pid: proxy.pids(),
            ..case.load(proxy.kind, &proxy.ports, self.folder.path())
        };
        let attack = case.attack(&proxy.ports);
        let attack = attack.map(|attack| attack.start(&self.programs.attackers, cores));
        let attack = attack.transpose().with_context(|| proxy.kind.name())?;
        let running = load.start(&self.programs.generator, cores)?;
        if rate.is_some() {
            put_first([running.pid()]);
            put(child::put_second, attack.iter().map(Attacking::pid));
        }
        let outcome = running.finish();
        proxy.check()?;
        let made = attack.map(Attacking::finish).transpose()?;
        Ok((outcome.with_context(|| proxy.kind.name())?, made))
    }

    /// The case's own rate, else half of what HAProxy can do, or where it is not measured, of what ours
    /// can.
    fn fixed_rate(
        &self,
        case: &Case,
        running: &[(Proxy, Measured)],
    ) -> Option<(f64, Option<Kind>)> {
        if !self.settings.latency || case.is_transfer() {
            return None;
        }
        if let Some(rate) = case.rate() {
            return Some((rate, None));
        }
        let of = |kind: Kind| {
            let (_, measured) = running.iter().find(|(_, measured)| measured.kind == kind)?;
            let rate = Spread::of(measured.fast.iter().map(Outcome::rate))?;
            Some((rate.median / 2.0, Some(kind)))
        };
        of(Kind::Haproxy).or_else(|| of(Kind::Portcullis))
    }
}

/// While latency is measured, whoever takes part runs before everybody else, and nobody loses a slice of
/// several milliseconds to another: load and application share a core, and that would be all that
/// p99.9 tells.
fn put_first(pids: impl IntoIterator<Item = u32>) {
    put(child::put_first, pids);
}

fn put(place: fn(u32) -> anyhow::Result<()>, pids: impl IntoIterator<Item = u32>) {
    for pid in pids {
        if let Err(error) = place(pid) {
            eprintln!(
                "MISSING: real-time scheduling, without which p99.9 is that of the core's sharing: {error:#}"
            );
            return;
        }
    }
}
