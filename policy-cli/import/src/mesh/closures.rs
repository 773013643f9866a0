//! Namespaces that are closed, and denials whose workloads the files may not show.

use super::policies::{MeshPolicies, PortChoice, SelectedWorkloads};
use super::workloads::{WorkloadUnit, WorkloadUnits};
use crate::report::{Fidelity, ReportRow};
use policy_crds::LabelSelector;
use policy_crds::annotation::DEFAULT_INBOUND_POLICY;

/// The row of a namespace whose pods refuse what no Server grants. `others`: some of its pods are closed by
/// nothing in the source.
pub(super) fn namespace_row(
    policies: &MeshPolicies,
    workloads: &WorkloadUnits,
    (namespace, others): (&str, bool),
) -> ReportRow {
    let closes =
        policies.denies_by_default || (policies.closed_namespaces.contains(namespace) && !others);
    let units = || workloads.units.iter().filter(|unit| unit.namespace == namespace);
    let (mut fidelity, mut note) = if closes && !units().any(|unit| loses_ports(policies, unit)) {
        (Fidelity::Exact, "its pods refuse what nothing grants".to_owned())
    } else {
        let note = "its pods refuse what nothing grants: ports that no container declares, and pods that \
                    no policy of the files selects, as well";
        (Fidelity::Narrower, note.to_owned())
    };
    if !workloads.namespaces.contains_key(namespace) {
        fidelity = Fidelity::Omitted;
        note = format!(
            "no Namespace of the files is it: run `kubectl annotate namespace {namespace} \
             {DEFAULT_INBOUND_POLICY}=deny`, so that {note}"
        );
    }
    ReportRow::without_line(format!("namespace {namespace}"), fidelity, note)
}

/// True if a grant is of a port that no container of a workload declares.
fn loses_ports(policies: &MeshPolicies, unit: &WorkloadUnit) -> bool {
    let undeclared = |choice: &PortChoice| match choice {
        PortChoice::Range(first, last) => {
            let declared = unit.ports.keys().filter(|port| (first..=last).contains(port)).count();
            declared < usize::from(last.saturating_sub(*first)).saturating_add(1)
        }
        PortChoice::Name(_) => false,
    };
    let own = policies.grants.iter().filter(|grant| grant.selection.selects(unit));
    own.map(|grant| &grant.ports)
        .any(|ports| ports.as_ref().is_none_or(|it| it.iter().any(undeclared)))
}

/// Makes denials about every workload of their namespace if they select none, by a label that none has: the
/// pods may be given that label where the files do not show it.
pub(super) fn widen_denials(policies: &mut MeshPolicies, workloads: &WorkloadUnits) {
    let mut widened = Vec::new();
    for denial in &mut policies.denials {
        let SelectedWorkloads::Labels { namespace, selector } = &mut denial.selection else {
            continue;
        };
        let of = |unit: &&WorkloadUnit| namespace.as_ref().is_none_or(|it| *it == unit.namespace);
        let units: Vec<&WorkloadUnit> = workloads.units.iter().filter(of).collect();
        let is_unknown =
            |key: &std::sync::Arc<str>| !units.iter().any(|unit| unit.labels.contains_key(key));
        let expressions = selector.match_expressions.iter().map(|it| &it.key);
        let unknown = selector.match_labels.keys().chain(expressions).any(is_unknown);
        if unknown && !units.is_empty() && !units.iter().any(|it| selector.matches(&it.labels)) {
            *selector = LabelSelector::default();
            widened.push(denial.row);
        }
    }
    for row in widened {
        let note = "no workload of the files has its label: every workload of its namespace may";
        policies.worsen(row, Fidelity::Narrower, note);
    }
}
