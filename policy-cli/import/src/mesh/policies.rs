//! The terms that every format is read into.

use super::clients::{ClientCondition, IdentityCondition};
use super::requests::RequestCondition;
use super::workloads::WorkloadUnit;
use crate::report::{Fidelity, ReportRow, SourceLine};
use policy_crds::{LabelSelector, quote};
use std::collections::BTreeSet;
use std::fmt;

/// The policies of a source, and the rows of its report.
#[derive(Debug, Default)]
pub(crate) struct MeshPolicies {
    /// The rows; grants and denials name theirs.
    pub(crate) rows: Vec<ReportRow>,
    /// Workloads on which nothing is allowed but what is granted, with the row of each closure.
    pub(crate) closures: Vec<(usize, SelectedWorkloads)>,
    /// The grants.
    pub(crate) grants: Vec<MeshGrant>,
    /// The denials, which come before every grant.
    pub(crate) denials: Vec<MeshDenial>,
    /// Namespaces of which the source closes every pod.
    pub(crate) closed_namespaces: BTreeSet<String>,
    /// True if the source denies by default wherever it is used.
    pub(crate) denies_by_default: bool,
}

/// The workloads that a policy is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SelectedWorkloads {
    /// Those with these labels, of one namespace or of all.
    Labels {
        /// The namespace; absent: each.
        namespace: Option<String>,
        /// The labels.
        selector: LabelSelector,
    },
    /// Those of a ServiceAccount.
    Account {
        /// Its namespace; absent: each.
        namespace: Option<String>,
        /// Its name.
        name: String,
    },
}

impl SelectedWorkloads {
    /// True if it selects a workload.
    pub(crate) fn selects(&self, unit: &WorkloadUnit) -> bool {
        let (namespace, is_it) = match self {
            Self::Labels { namespace, selector } => (namespace, selector.matches(&unit.labels)),
            Self::Account { namespace, name } => (namespace, unit.account == *name),
        };
        is_it && namespace.as_ref().is_none_or(|it| *it == unit.namespace)
    }
}

/// Some ports of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PortChoice {
    /// From the first to the last.
    Range(u16, u16),
    /// That of this name.
    Name(String),
}

impl PortChoice {
    /// True if it is a port, by number or name.
    pub(crate) fn is(&self, number: u16, name: Option<&str>) -> bool {
        match self {
            Self::Range(first, last) => (*first..=*last).contains(&number),
            Self::Name(own) => name == Some(own),
        }
    }
}

impl fmt::Display for PortChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Range(first, last) if first == last => write!(f, "{first}"),
            Self::Range(first, last) => write!(f, "{first}-{last}"),
            Self::Name(name) => f.write_str(&quote(name)),
        }
    }
}

/// True if a list of choices has a port; without a list, every port is meant.
pub(crate) fn has_port(ports: Option<&[PortChoice]>, number: u16, name: Option<&str>) -> bool {
    ports.is_none_or(|ports| ports.iter().any(|port| port.is(number, name)))
}

/// A grant: these clients may send these requests.
#[derive(Clone, Debug)]
pub(crate) struct MeshGrant {
    /// Its row.
    pub(crate) row: usize,
    /// The name of the object that it comes from.
    pub(crate) name: String,
    /// The workloads.
    pub(crate) selection: SelectedWorkloads,
    /// The ports; absent: every one.
    pub(crate) ports: Option<Vec<PortChoice>>,
    /// The clients.
    pub(crate) clients: ClientCondition,
    /// The requests; absent: every connection.
    pub(crate) requests: Option<Vec<RequestCondition>>,
}

/// The clients of a denial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeniedClients {
    /// Every client.
    All,
    /// These.
    These(ClientCondition),
    /// Every client without one of these identities.
    AllBut(IdentityCondition),
}

/// A denial.
#[derive(Clone, Debug)]
pub(crate) struct MeshDenial {
    /// Its row.
    pub(crate) row: usize,
    /// The workloads.
    pub(crate) selection: SelectedWorkloads,
    /// The ports; absent: every one.
    pub(crate) ports: Option<Vec<PortChoice>>,
    /// The clients.
    pub(crate) clients: DeniedClients,
    /// The requests; absent: every connection.
    pub(crate) requests: Option<Vec<RequestCondition>>,
}

impl MeshPolicies {
    /// Adds the row of a part that is translated exactly, as far as is known, and returns its number.
    pub(crate) fn row(&mut self, place: SourceLine, subject: &str) -> usize {
        self.rows.push(ReportRow::at(place, subject, Fidelity::Exact, ""));
        self.rows.len().saturating_sub(1)
    }

    /// Adds the row of a part that is not translated.
    pub(crate) fn omit(&mut self, place: SourceLine, subject: &str, note: impl Into<String>) {
        self.rows.push(ReportRow::at(place, subject, Fidelity::Omitted, note));
    }

    /// Notes that the translation of a row is less faithful.
    pub(crate) fn worsen(&mut self, row: usize, fidelity: Fidelity, note: &str) {
        let Some(row) = self.rows.get_mut(row) else { return };
        row.fidelity = row.fidelity.max(fidelity);
        if row.note.split("; ").any(|known| known == note) {
            return;
        }
        if !row.note.is_empty() {
            row.note.push_str("; ");
        }
        row.note.push_str(note);
    }
}
