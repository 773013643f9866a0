//! `portcullis denied`: the most frequent refusals of a cluster, added up over the controller's replicas.

use crate::cluster::QuerySource;
use crate::output::{Paint, WideFormat, table};
use crate::tap::line::visible;
use policy_proto::messages::{DeniedResponse, DeniedRow, RefusalGroup};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Result of `portcullis denied`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeniedReport {
    /// Source of the rows.
    #[serde(rename = "asked")]
    source: QuerySource,
    /// Number of sidecars that said what they refuse.
    sidecars: u64,
    /// The rows, the one of most refusals first.
    rows: Vec<DeniedItem>,
    /// Number of rows that are not shown.
    more: u64,
    /// Replicas that do not answer, and what was left out, in words.
    pub(crate) problems: Vec<String>,
}

/// Equal refusals of the pods of one owner.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct DeniedItem {
    namespace: String,
    /// The owner of the pods, such as `deployment/web`.
    workload: String,
    /// `inbound`, or `outbound` for the workload's own connections.
    side: &'static str,
    port: u32,
    /// The client; of own connections what was dialled.
    client: String,
    /// `request` or `connection`.
    on: &'static str,
    reason: String,
    route: Option<String>,
    count: u64,
    pods: u64,
    /// Time since the last one, in seconds.
    age_seconds: u64,
    /// The id of the latest.
    id: Option<String>,
}

/// The answer of one replica.
pub(crate) struct ReplicaRows {
    /// The replica, as messages name it.
    pub(crate) replica: String,
    /// Its rows.
    pub(crate) rows: anyhow::Result<DeniedResponse>,
}

impl DeniedReport {
    /// Adds up the rows of replicas; at most `limit` are shown.
    pub(crate) fn of(source: QuerySource, replicas: Vec<ReplicaRows>, limit: u32) -> Self {
        let (mut sidecars, mut left_out, mut more) = (0_u64, 0_u64, 0_u64);
        let mut problems = Vec::new();
        let mut sums: BTreeMap<[String; 8], DeniedItem> = BTreeMap::new();
        for ReplicaRows { replica, rows } in replicas {
            let answer = match rows {
                Ok(answer) => answer,
                Err(error) => {
                    problems.push(format!("{replica}: {error:#}"));
                    continue;
                }
            };
            sidecars = sidecars.saturating_add(answer.clients);
            left_out = left_out.saturating_add(answer.left_out);
            more = more.saturating_add(answer.more);
            for item in answer.rows.into_iter().filter_map(DeniedItem::of) {
                let key = item.key();
                match sums.get_mut(&key) {
                    Some(sum) => sum.add(item),
                    None => _ = sums.insert(key, item),
                }
            }
        }
        if left_out > 0 {
            problems.push(format!("the refusals of {left_out} sidecars found no room"));
        }
        let mut rows: Vec<DeniedItem> = sums.into_values().collect();
        rows.sort_by_key(|row| Reverse(row.count));
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let beyond = u64::try_from(rows.len().saturating_sub(limit)).unwrap_or(u64::MAX);
        rows.truncate(limit);
        Self { source, sidecars, rows, more: more.saturating_add(beyond), problems }
    }

    /// The table.
    pub(crate) fn text(&self, paint: Paint, format: WideFormat) -> String {
        let mut text = format!("{}\n\n", paint.dim(&self.source.to_string()));
        if self.rows.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "nothing was refused, as far as {} sidecars say", self.sidecars);
            return text;
        }
        let header = ["COUNT", "LAST", "WORKLOAD", "PORT", "CLIENT", "REASON", "ROUTE", "ID"];
        text.push_str(&table(header, self.rows.iter().map(|row| row.cells(format))));
        if self.more > 0 {
            let _ = writeln!(text, "and {} more", self.more);
        }
        text
    }
}

impl DeniedItem {
    fn of(row: DeniedRow) -> Option<Self> {
        let DeniedRow { namespace, workload, group, pods } = row;
        let RefusalGroup { id, subject, outbound, connection, port, reason, route, count, age_ms } =
            group?;
        let known = |text: String| Some(text).filter(|text| !text.is_empty());
        Some(Self {
            namespace,
            workload,
            side: if outbound { "outbound" } else { "inbound" },
            port,
            client: subject,
            on: if connection { "connection" } else { "request" },
            reason,
            route: known(route),
            count,
            pods,
            age_seconds: age_ms / 1000,
            id: known(id),
        })
    }

    fn key(&self) -> [String; 8] {
        [
            self.namespace.clone(),
            self.workload.clone(),
            self.side.to_owned(),
            self.port.to_string(),
            self.client.clone(),
            self.on.to_owned(),
            self.reason.clone(),
            self.route.clone().unwrap_or_default(),
        ]
    }

    fn add(&mut self, other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.pods = self.pods.saturating_add(other.pods);
        if other.age_seconds < self.age_seconds {
            (self.age_seconds, self.id) = (other.age_seconds, other.id);
        }
    }

    fn cells(&self, format: WideFormat) -> [String; 8] {
        let client = match self.side {
            "outbound" => format!("(to {})", self.client),
            _ => self.client.clone(),
        };
        // Identities of any mesh: the name and namespace are what people look for.
        let client = match format {
            WideFormat::Wide => client,
            WideFormat::Table | WideFormat::Json | WideFormat::Yaml => {
                client.split(".serviceaccount.identity.").next().unwrap_or_default().to_owned()
            }
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        [
            self.count.to_string(),
            ago(self.age_seconds),
            format!("{}/{}", self.namespace, self.workload),
            self.port.to_string(),
            client,
            self.reason.clone(),
            text(&self.route),
            text(&self.id),
        ]
        .map(|cell| visible(&cell))
    }
}

/// A duration as tables of `kubectl` have it.
fn ago(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds}s"),
        120..=7199 => format!("{}m", seconds / 60),
        7200..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Scope;

    fn row(client: &str, count: u64, age_ms: u64) -> DeniedRow {
        let group = RefusalGroup {
            id: format!("id-{age_ms}"),
            subject: client.to_owned(),
            port: 80,
            reason: "unauthorized".to_owned(),
            count,
            age_ms,
            ..RefusalGroup::default()
        };
        let (namespace, workload) = ("shop".to_owned(), "deployment/web".to_owned());
        DeniedRow { namespace, workload, group: Some(group), pods: 1 }
    }

    fn replica(rows: Vec<DeniedRow>) -> ReplicaRows {
        let answer = DeniedResponse { rows, more: 0, clients: 2, left_out: 0 };
        ReplicaRows { replica: "controller a/b".to_owned(), rows: Ok(answer) }
    }

    #[test]
    fn rows_of_replicas_add_up_and_those_that_do_not_answer_are_named() {
        let cart = "cart.shop.serviceaccount.identity.portcullis.cluster.local";
        let one = replica(vec![row(cart, 2, 60_000), row("10.0.0.0/24", 5, 9000)]);
        let two = replica(vec![row(cart, 4, 1000)]);
        let (to, error) = ("controller a/c".to_owned(), anyhow::anyhow!("late"));
        let gone = ReplicaRows { replica: to, rows: Err(error) };
        let source = QuerySource::controller("a", &Scope::All);
        let report = DeniedReport::of(source, vec![one, two, gone], 1);
        let [first] = report.rows.as_slice() else { panic!("{report:?}") };
        let facts = (first.count, first.pods, first.age_seconds, first.id.as_deref());
        assert_eq!(facts, (6, 2, 1, Some("id-1000")));
        assert_eq!((report.sidecars, report.more), (4, 1));
        assert_eq!(report.problems, ["controller a/c: late"]);
        let text = report.text(Paint::plain(), WideFormat::Table);
        let words: Vec<&str> = text.lines().nth(3).unwrap().split_whitespace().collect();
        let expected =
            ["6", "1s", "shop/deployment/web", "80", "cart.shop", "unauthorized", "-", "id-1000"];
        assert_eq!(words, expected);
    }
}
