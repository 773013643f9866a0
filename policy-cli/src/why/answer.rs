//! Answers a question about every workload that it names, and groups the answers that agree.

use super::cause::{Cause, CauseFinder, key_of};
use super::judge::{Judged, Question, judge};
use super::outside::{
    CallerPods, NetworkPolicyList, Reachability, Sidecars, Wire, addresses, reachability,
};
use super::place::place;
use super::report::{
    Answer, CalledWorkload, ChangeItem, NewlyAllowed, PlaceItem, ProposalItem, QuestionItem,
    SidecarQuestion, WhyReport, WhyVerdict,
};
use super::target::{TargetPort, object_key};
use super::text::workload_name;
use crate::cluster::undetermined;
use crate::inventory::Inventory;
use policy_core::{Decision, Identity, Owner, Source, WorkloadKey};
use policy_crds::Kind;
use policy_engine::Compiled;
use policy_engine::findings::Finding;
use policy_engine::least_change::{LeastChange, Proposal, applied};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

/// The most workloads whose answers are computed one by one, because equal pods have equal answers.
const MAX_WORKLOADS: usize = 64;
/// The most workloads for which the least change is looked for.
const MAX_SEARCHES: usize = 8;

/// A question and what it is about.
pub(crate) struct WhyCase<'a> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) question: Question,
    pub(crate) target: TargetPort,
    /// The port, as it was named.
    pub(crate) to: String,
    /// The request in words.
    pub(crate) request: Option<String>,
    /// NetworkPolicies, as far as they may be listed.
    pub(crate) network_policies: &'a NetworkPolicyList,
}

/// The changes that were proposed for the workloads so far.
#[derive(Default)]
struct ChangeHistory {
    /// The objects with each of them.
    after: Vec<Compiled>,
    /// The workload of each.
    workloads: Vec<String>,
    /// The number of workloads for which one was looked for.
    searches: usize,
    /// The findings about every object, found once.
    findings: Option<Vec<Finding>>,
}

impl ChangeHistory {
    /// The findings about every object.
    fn findings(&mut self, compiled: &Compiled) -> &[Finding] {
        self.findings.get_or_insert_with(|| compiled.findings())
    }
}

impl WhyCase<'_> {
    /// Answers the question.
    ///
    /// # Errors
    /// The request cannot be sent, or a workload has no policy.
    pub(crate) fn report(&self) -> anyhow::Result<WhyReport> {
        let mut answers: Vec<Answer> = Vec::new();
        let mut sidecars: BTreeMap<NonZeroU16, Sidecars> = BTreeMap::new();
        let mut history = ChangeHistory::default();
        let callers = CallerPods::of(self.inventory, &self.question);
        let called = || self.target.workloads.iter().take(MAX_WORKLOADS);
        let keys: BTreeSet<&WorkloadKey> = called().map(|(workload, _)| workload).collect();
        for (workload, port) in called() {
            let of_port = || Sidecars::of(self.inventory, &keys, &callers, *port);
            let sidecars = sidecars.entry(*port).or_insert_with(of_port);
            let answer = self.answer((workload, *port), &callers, sidecars, &mut history)?;
            match answers.iter_mut().find(|known| agrees(known, &answer)) {
                Some(known) => known.workloads.extend(answer.workloads),
                None => answers.push(answer),
            }
        }
        Ok(WhyReport {
            source: self.inventory.source.clone(),
            settings: self.inventory.settings.clone(),
            list_failures: self.inventory.list_failures(),
            question: QuestionItem {
                from: self.question.from.to_string(),
                to: self.to.clone(),
                request: self.request.clone(),
                remark: self.remark(),
                recorded: None,
                recorded_otherwise: None,
            },
            answers,
        })
    }

    /// The remark about the port, and about workloads that are left out.
    fn remark(&self) -> Option<String> {
        let left_out = self.target.workloads.len().saturating_sub(MAX_WORKLOADS);
        let left_out =
            (left_out > 0).then(|| format!("{left_out} more workloads were not looked at"));
        let all: Vec<String> = self.target.remark.clone().into_iter().chain(left_out).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// The answer for one workload. The least change is looked for unless one that was proposed before
    /// allows the access here too.
    fn answer(
        &self,
        (workload, port): (&WorkloadKey, NonZeroU16),
        callers: &CallerPods<'_>,
        sidecars: &Sidecars,
        history: &mut ChangeHistory,
    ) -> anyhow::Result<Answer> {
        let Self { inventory, question, .. } = self;
        let mut not_known = self.not_listed(workload);
        let stated = question.from.identity(&inventory.settings.config);
        let plaintext = stated.as_ref().and_then(|_| callers.plaintext(inventory, sidecars));
        let identity = stated.filter(|_| plaintext.is_none());
        let open = sidecars.unguarded(inventory, workload, port);
        // A change of policy mends nothing that policy does not decide.
        let helps = not_known.is_empty()
            && plaintext.is_none()
            && open.is_none()
            && !is_no_port_of(inventory, workload, port);
        let known = (helps && history.searches < MAX_SEARCHES).then_some(history.after.as_slice());
        let mut judged = judge(inventory, (workload, port), question, (identity, known))?;
        not_known.extend(self.not_read(workload, &judged, callers));
        not_known.sort();
        not_known.dedup();
        let Reachability { forbidden, remarks } =
            self.reachability((workload, port), &judged, callers);
        let verdict = verdict(&judged, not_known.is_empty());
        let plaintext = plaintext.filter(|_| verdict != WhyVerdict::Allow);
        let shown = match (&forbidden, &open) {
            (Some(_), _) => WhyVerdict::Blocked,
            (None, Some(_)) => WhyVerdict::Open,
            (None, None) => verdict,
        };
        let pod = object_key(workload);
        let open = open.map(|why| Cause {
            summary: format!("anybody reaches port {port}, whatever policy says: {why}"),
            object: Some(pod.to_string()),
            place: place(inventory, &pod, ""),
        });
        let least_change = match shown {
            WhyVerdict::Deny if helps => self.change(workload, &mut judged, history),
            WhyVerdict::Allow | WhyVerdict::Audit | WhyVerdict::Deny => judged.take_change().into(),
            WhyVerdict::Open | WhyVerdict::Blocked | WhyVerdict::NotKnown => ChangeItem::default(),
        };
        let outside = [forbidden, open, plaintext].into_iter().flatten();
        let findings = match judged.refused {
            Some(_) => history.findings(&inventory.compiled),
            None => &[],
        };
        let of_policy = self.causes((workload, port), &judged, findings);
        let is_settled = matches!(shown, WhyVerdict::Open | WhyVerdict::Blocked);
        Ok(Answer {
            workloads: vec![workload_name(workload)],
            port: port.get(),
            verdict: shown,
            reason: judged.refused.filter(|_| !is_settled).map(policy_core::Denied::as_str),
            causes: outside.chain(of_policy).chain(remarks).collect(),
            not_known,
            client: self.client(&judged),
            places: self.places(&judged),
            in_force: None,
            sidecar_question: Some(sidecar_question(workload, &judged)),
            called: self.called((workload, port), callers),
            explanation: judged.explanation,
            least_change,
        })
    }

    /// The kinds that decide about a workload and its clients, and may not be listed.
    fn not_listed(&self, workload: &WorkloadKey) -> Vec<String> {
        let Inventory { permissions, compiled, settings, .. } = self.inventory;
        let mut missing =
            undetermined::of_ports(&workload.namespace, permissions, &compiled.objects);
        if let Some((namespace, _)) = self.question.from.account(&settings.config) {
            let pods = undetermined::of_kinds(&[Kind::Pod], &namespace, permissions);
            missing
                .extend(pods.into_iter().filter(|one| !missing.contains(one)).collect::<Vec<_>>());
        }
        missing
    }

    /// The kinds that a decision depends on and that may not be listed.
    fn not_read(
        &self,
        workload: &WorkloadKey,
        judged: &Judged,
        callers: &CallerPods<'_>,
    ) -> BTreeSet<String> {
        let permissions = &self.inventory.permissions;
        let mut missing = BTreeSet::new();
        if let Some(explanation) = &judged.explanation {
            // What is permitted needs no further grant.
            let withheld = explanation.withheld.iter().filter(|_| judged.refused.is_some());
            let sources = withheld.filter_map(|one| key_of(&one.source));
            let objects = sources.filter_map(|key| self.inventory.object(&key));
            missing.extend(objects.flat_map(|object| undetermined::of_object(object, permissions)));
            if matches!(explanation.owner, Owner::Default(_)) {
                let namespaces = [Kind::Namespace];
                missing.extend(undetermined::of_kinds(
                    &namespaces,
                    &workload.namespace,
                    permissions,
                ));
            }
        }
        // They permit nothing that policy refuses.
        if judged.refused.is_none() {
            let of_client = self.question.from.account(&self.inventory.settings.config);
            let namespaces = callers
                .namespaces()
                .chain(of_client.iter().map(|(namespace, _)| namespace.as_str()))
                .chain([&*workload.namespace]);
            missing.extend(self.network_policies.not_listed(namespaces));
        }
        missing
    }

    /// The least change for a workload, and what is said of those that have none of their own.
    fn change(
        &self,
        workload: &WorkloadKey,
        judged: &mut Judged,
        history: &mut ChangeHistory,
    ) -> ChangeItem {
        if let Some(of) = judged.mended_by.and_then(|number| history.workloads.get(number)) {
            let notes = vec![format!("that which is proposed for {of} allows it here too")];
            return ChangeItem { proposals: Vec::new(), notes };
        }
        if history.searches >= MAX_SEARCHES {
            let notes = vec![format!(
                "not looked for here, after {MAX_SEARCHES} other workloads: ask about {workload} alone"
            )];
            return ChangeItem { proposals: Vec::new(), notes };
        }
        history.searches = history.searches.saturating_add(1);
        let change = judged.take_change();
        let first = change.proposals.first();
        let after = first.and_then(|first| applied(&self.inventory.compiled, &first.objects));
        if let Some(after) = after {
            history.after.push(after);
            history.workloads.push(workload_name(workload));
        }
        change.into()
    }

    fn causes(
        &self,
        (workload, port): (&WorkloadKey, NonZeroU16),
        judged: &Judged,
        findings: &[Finding],
    ) -> Vec<Cause> {
        let (inventory, question) = (self.inventory, &self.question);
        let finder = CauseFinder { inventory, workload, port, question, judged, findings };
        let mut causes = finder.causes();
        causes.dedup();
        if judged.as_bytes {
            let words = format!(
                "port {port} carries {}, so that the connection is decided and no request is looked at",
                policy_engine::view::protocol_name(judged.policy.protocol)
            );
            causes.push(Cause::of_nothing(words));
        }
        causes
    }

    /// The ends of the connection, as the client's sidecar names them.
    fn called(
        &self,
        (workload, port): (&WorkloadKey, NonZeroU16),
        callers: &CallerPods<'_>,
    ) -> CalledWorkload {
        let object = self.inventory.object(&object_key(workload));
        CalledWorkload {
            callers: callers.keys(),
            services: super::target::services_of(self.inventory, workload, port),
            addresses: object.map(|own| addresses(self.inventory, own)).unwrap_or_default(),
            port: port.get(),
        }
    }

    fn reachability(
        &self,
        (workload, port): (&WorkloadKey, NonZeroU16),
        judged: &Judged,
        callers: &CallerPods<'_>,
    ) -> Reachability {
        let Some(to) = self.inventory.object(&object_key(workload)) else {
            return Reachability::default();
        };
        let ports = super::target::container_ports(self.inventory, workload);
        let named = ports.into_iter().find(|own| own.number == port);
        let name = named.and_then(|port| port.name).unwrap_or_default();
        let wire = Wire {
            to,
            from: callers,
            address: Some(judged.client.address).filter(|_| judged.client.stated),
            port,
            port_name: &name,
            protocol: judged.policy.protocol,
            meshed: judged.client.identity.is_some(),
        };
        reachability(self.inventory, &self.network_policies.items, &wire)
    }

    fn client(&self, judged: &Judged) -> String {
        let who = match &judged.client.identity {
            Some(identity) => Identity::as_str(identity).to_owned(),
            None => format!("{}, without mesh TLS", self.question.from),
        };
        match judged.client.stated && judged.client.identity.is_some() {
            true => format!("{who} at {}", judged.client.address),
            false => who,
        }
    }

    /// The places of the objects that an explanation names.
    fn places(&self, judged: &Judged) -> Vec<PlaceItem> {
        let Some(explanation) = &judged.explanation else { return Vec::new() };
        let mut objects: BTreeSet<policy_core::ObjectRef> = BTreeSet::new();
        if let Owner::Server(server) = &explanation.owner {
            objects.insert(server.clone());
        }
        let others = explanation.others.iter().map(|other| &other.origin);
        let origins = explanation.route.iter().chain(others);
        objects.extend(origins.filter_map(|origin| origin.object().cloned()));
        let mut of_source = |source: &Source| {
            if let Source::Object(object) = source {
                objects.insert(object.clone());
            }
        };
        for grant in &explanation.considered {
            of_source(&grant.source);
            let condition = grant.failed.as_ref().and_then(|failed| failed.condition.as_ref());
            condition.into_iter().for_each(|condition| of_source(&condition.source));
        }
        explanation.rate_limit.iter().for_each(|limit| of_source(&limit.source));
        explanation.effects.applied.iter().for_each(|effect| of_source(&effect.source));
        objects.extend(explanation.withheld.iter().map(|withheld| withheld.source.clone()));
        let placed = objects.iter().filter_map(|object| {
            let key = key_of(object)?;
            let place = place(self.inventory, &key, "")?;
            Some(PlaceItem { object: object.to_string(), place })
        });
        placed.collect()
    }
}

/// The question to the workload's sidecar.
fn sidecar_question(workload: &WorkloadKey, judged: &Judged) -> SidecarQuestion {
    let refused = judged.refused.map(policy_core::Denied::as_str);
    let decided = judged.explanation.as_ref().map(|explanation| match &explanation.decision {
        Decision::Permit(permit) if permit.is_audited() => ("audit", None),
        Decision::Permit(_) => ("allow", None),
        Decision::Deny(_) => ("deny", refused),
    });
    SidecarQuestion {
        workload: workload.clone(),
        parameters: judged.sidecar_query.clone(),
        decided,
    }
}

fn verdict(judged: &Judged, known: bool) -> WhyVerdict {
    if !known {
        return WhyVerdict::NotKnown;
    }
    if judged.refused.is_some() {
        return WhyVerdict::Deny;
    }
    match judged.explanation.as_ref().map(|explanation| &explanation.decision) {
        Some(Decision::Permit(permit)) if permit.is_audited() => WhyVerdict::Audit,
        Some(Decision::Permit(_)) => WhyVerdict::Allow,
        Some(Decision::Deny(_)) | None => WhyVerdict::Deny,
    }
}

/// True if the containers of a workload declare ports, and neither they nor anything else this one: a
/// grant on it would mend nothing.
fn is_no_port_of(inventory: &Inventory, workload: &WorkloadKey, port: NonZeroU16) -> bool {
    let known = inventory.compiled.workloads.get(workload);
    let is_declared = known.is_some_and(|known| known.state.declared.contains(&port));
    !is_declared && !super::target::container_ports(inventory, workload).is_empty()
}

/// True if two answers differ in their workloads alone.
fn agrees(a: &Answer, b: &Answer) -> bool {
    let grants = |answer: &Answer| {
        let explanation = answer.explanation.as_ref();
        explanation.map(|one| (one.considered.clone(), one.route.clone(), one.owner.clone()))
    };
    (a.verdict, a.reason, a.port) == (b.verdict, b.reason, b.port)
        && grants(a) == grants(b)
        && a.causes.first().map(|cause| &cause.summary)
            == b.causes.first().map(|cause| &cause.summary)
}

impl From<LeastChange> for ChangeItem {
    fn from(change: LeastChange) -> Self {
        let LeastChange { proposals, notes } = change;
        Self { proposals: proposals.into_iter().map(ProposalItem::from).collect(), notes }
    }
}

impl From<Proposal> for ProposalItem {
    fn from(Proposal { objects, change }: Proposal) -> Self {
        let newly_allows = change.allowed.into_iter().map(|access| NewlyAllowed {
            client: access.client,
            workload: workload_name(&access.workload),
            port: access.port.get(),
            route: access.route,
        });
        Self { objects, newly_allows: newly_allows.collect(), incomplete: change.incomplete }
    }
}
