//! `portcullis health`.

use super::block_on;
use crate::cluster::api_flags::ApiFlags;
use crate::cluster::controller::ControlPlaneFlags;
use crate::cluster::{Cluster, ClusterFlags, NamespaceFlags};
use crate::diagnostics::exit::{print_report, report_unreachable};
use crate::diagnostics::report::DiagnosticsReport;
use crate::health::{read, run_checks};
use crate::output::Format;
use clap::Args;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Interval between attempts.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// Check whether an installation works, with hints for mending it
///
/// Checks the control plane's replicas, their leader and the state that each reports, the webhooks and
/// whether the API server gets their responses, certificates and roots, the permissions of the service
/// accounts, and the pods that should have sidecars. Nothing is changed: the object that probes a
/// webhook is not persisted. What you may not read is reported as not known, with the missing
/// permission. docs/health.md explains every line.
///
/// Exit codes: 0 healthy, 1 something fails (with --deny-warnings: or warns), 2 wrong use, 3 the
/// cluster cannot be reached.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  portcullis health                       # the context's cluster, every namespace
  portcullis health --wait 60s            # after helm install or upgrade
  portcullis health -n shop --deny-warnings
  portcullis health -o json | jq '.findings[] | select(.outcome != \"pass\")'"
)]
pub(crate) struct HealthArgs {
    /// Repeat until healthy, for at most this long: a whole number with s, m or h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    wait: Option<Duration>,

    /// Warnings are failures
    #[arg(long)]
    deny_warnings: bool,

    #[command(flatten)]
    api: ApiFlags,

    /// Check only the pods of this namespace [default: of every namespace]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = crate::cluster::namespace)]
    namespace: Option<Arc<str>>,

    #[command(flatten)]
    control_plane: ControlPlaneFlags,

    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Parses a duration such as `60s`.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || "expected a whole number with s, m or h, such as 60s".to_owned();
    let unit = text.chars().last().ok_or_else(expected)?;
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        _ => return Err(expected()),
    };
    let number: u64 = text.trim_end_matches(unit).parse().map_err(|_| expected())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(expected)
}

pub(crate) fn run(args: &HealthArgs) -> anyhow::Result<ExitCode> {
    match block_on(run_diagnostics(args)) {
        Ok(report) => print_report(&report, args.output),
        Err(error) => Ok(report_unreachable(&error)),
    }
}

/// Repeats the checks until they pass or the timeout expires, and returns the last report.
async fn run_diagnostics(args: &HealthArgs) -> anyhow::Result<DiagnosticsReport> {
    let HealthArgs { api, namespace, control_plane, wait, deny_warnings, .. } = args;
    let namespaces =
        NamespaceFlags { namespace: namespace.clone(), all_namespaces: namespace.is_none() };
    let cluster = Cluster::connect(&ClusterFlags { api: api.clone(), namespaces }).await?;
    let deadline = Instant::now().checked_add(wait.unwrap_or_default());
    loop {
        let report = read(&cluster, control_plane).await.map(|snapshot| {
            let source = cluster.source.clone();
            DiagnosticsReport::new(source, run_checks(&snapshot), *deny_warnings, "healthy")
        });
        let well = report.as_ref().is_ok_and(|report| report.healthy);
        let over = deadline.is_none_or(|deadline| Instant::now() >= deadline);
        if well || over {
            return report;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(parse_duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "60", "s", "1d", "-1s", "99999999999999999999h"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }
}
