//! The scenarios as worlds: their objects, and requests about what these name.

use super::random::Random;
use crate::sources::root;
use k8s_openapi::jiff::Timestamp;
use policy_cli::expect::{Expectation, Expectations, Verdict, run_evaluator_on};
use policy_crds::resource::Recorded;
use policy_crds::{Body, Object, ObjectKey, document, parse_all};
use policy_engine::{Compiled, ControllerConfig, compile_objects};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Requests that are tried of a world.
const REQUESTS: usize = 40;

/// The objects of a scenario.
#[derive(Debug)]
pub struct World {
    /// Its folder.
    pub name: String,
    config: ControllerConfig,
    values: Vec<Value>,
    objects: Vec<Object>,
    /// The numbers of the objects that a change may break.
    valid: Vec<usize>,
    /// Requests that are refused.
    refused: Vec<Expectation>,
    /// True if its controller has no flags.
    plain: bool,
}

/// The worlds of the scenarios in which anything is refused.
pub fn worlds() -> Vec<World> {
    let folders = fs::read_dir(root().join("tests/scenarios")).unwrap();
    let mut folders: Vec<PathBuf> = folders.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders.iter().filter(|path| path.is_dir()).filter_map(|folder| World::read(folder)).collect()
}

/// Returns true if nothing of the object counts but its claims.
pub fn is_invalid(object: &Object) -> bool {
    matches!(object.body, Body::Invalid(_))
}

impl World {
    fn read(folder: &Path) -> Option<Self> {
        let expectations = Expectations::read(&folder.join("requests.yaml")).unwrap();
        // There an object that breaks opens what it does with Linkerd.
        if expectations.cluster.flags.iter().any(|flag| flag.contains("linkerd-compatible")) {
            return None;
        }
        let config = expectations.cluster.config().unwrap();
        let plain = expectations.cluster.flags.is_empty();
        let values = values(&folder.join("manifests"));
        let values = values.into_iter().map(with_status);
        let read = |value: &Value| parse_all(value).into_iter().next()?.ok();
        let (values, objects): (Vec<_>, Vec<_>) = values
            .into_iter()
            .filter_map(|value| Some((read(&value)?, value)))
            .map(|(o, v)| (v, o))
            .unzip();
        let may_break = |number: &usize| {
            let object: &Object = &objects[*number];
            // What Kubernetes itself defines is refused by every API server where it is wrong.
            let group = object.meta.key.kind.group();
            !is_invalid(object)
                && !["", "apps", "batch"].contains(&group)
                && values[*number].get("spec").is_some()
        };
        if objects.iter().any(is_invalid) {
            return None;
        }
        let valid: Vec<usize> = (0..objects.len()).filter(may_break).collect();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let mut world = Self { name, config, values, objects, valid, refused: Vec::new(), plain };
        world.refused = world.requests(expectations.requests);
        let world = world.settled();
        (!world.valid.is_empty() && !world.refused.is_empty()).then_some(world)
    }

    /// Records the claims, and keeps the requests that are refused.
    fn settled(mut self) -> Self {
        let compiled = compile_objects(self.objects.clone(), &self.config);
        self.record_claims(&compiled);
        let compiled = compile_objects(self.objects.clone(), &self.config);
        let mut refused = std::mem::take(&mut self.refused);
        refused.retain(|request| self.verdict(&compiled, request).is_some_and(is_refused));
        self.refused = refused;
        self
    }

    /// The same with its objects as `found` has them, which is what became of them elsewhere. None of them
    /// is missing there.
    #[must_use]
    pub fn with(&self, found: impl Fn(&ObjectKey) -> Option<Object>) -> Option<Self> {
        let objects = self.objects.iter().map(|object| found(&object.meta.key));
        let objects = objects.collect::<Option<Vec<_>>>()?;
        let (name, config, plain) = (self.name.clone(), self.config.clone(), self.plain);
        let (values, valid, refused) =
            (self.values.clone(), self.valid.clone(), self.refused.clone());
        Some(Self { name, config, values, objects, valid, refused, plain }.settled())
    }

    /// Its objects as they are written.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// The object with this number, written so, with the claims that its status records: a directory has no
    /// other record of them.
    pub fn with_claims(&self, number: usize, value: &Value) -> Value {
        let mut value = value.clone();
        let recorded = self.objects[number].meta.recorded.as_ref();
        if let Some(recorded) = recorded.filter(|_| value["status"].is_null()) {
            let claims = recorded.claims.iter().map(|((host, path), since)| {
                let claimed = Timestamp::from_second(*since).unwrap().to_string();
                json!({
                    "host": host.to_string(), "path": path.as_str(), "state": "Active",
                    "claimedAt": claimed,
                })
            });
            value["status"] = json!({"claims": claims.collect::<Vec<_>>()});
        }
        value
    }

    /// The name of the object with this number.
    pub fn key(&self, number: usize) -> &ObjectKey {
        &self.objects[number].meta.key
    }

    /// The requests that are refused.
    pub fn refused(&self) -> &[Expectation] {
        &self.refused
    }

    /// True if its controller has no flags.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// Any of the objects that may break, with its number.
    pub fn any_valid(&self, random: &mut Random) -> (usize, &Value) {
        let number = *random.one_of(&self.valid);
        (number, &self.values[number])
    }

    /// The object with this number as it is after a change; absent: it is none.
    pub fn reread(&self, number: usize, value: &Value) -> Option<Object> {
        Some(self.recorded(number, parse_all(value).into_iter().next()?.ok()?))
    }

    /// The object in place of the one with this number, whose claims are recorded.
    pub fn recorded(&self, number: usize, mut object: Object) -> Object {
        object.meta.recorded = self.objects[number].meta.recorded.clone();
        object
    }

    /// The first request that is permitted once the object with this number is replaced.
    pub fn newly_permitted(&self, number: usize, object: Object) -> Option<String> {
        let mut objects = self.objects.clone();
        objects[number] = object;
        let compiled = compile_objects(objects, &self.config);
        let permitted = |request: &&Expectation| {
            self.verdict(&compiled, request).is_some_and(|(verdict, _)| verdict == Verdict::Allow)
        };
        let found = self.refused.iter().find(permitted)?;
        let Expectation { from, to, http, grpc, host, headers, .. } = found;
        Some(format!("{http:?} {grpc:?} to {to} on {host:?} with {headers:?} from {from:?}"))
    }

    /// The decision about a request and the reason of a denial; absent: there is no such workload.
    fn verdict(
        &self,
        compiled: &Compiled,
        request: &Expectation,
    ) -> Option<(Verdict, Option<String>)> {
        compiled.workloads.get(&request.to.key())?;
        let asked = Expectations {
            cluster: Default::default(),
            requests: vec![request.clone()],
            conditions: Vec::new(),
        };
        let report = run_evaluator_on(compiled, &self.config, &asked).ok()?;
        let found = &report.cases.first()?.found;
        Some((found.decision, found.reason.clone()))
    }

    /// The statuses of roots record what they claim, as in a cluster.
    fn record_claims(&mut self, compiled: &Compiled) {
        for object in &mut self.objects {
            let state = compiled.delegation_state(&object.meta.key);
            let claims = state.claims.iter().filter(|claim| claim.admitted);
            let claims = claims.map(|claim| {
                let later = claim.after.map(|time| time + 1);
                let since = claim.claimed_at.or(later).or(object.meta.created).unwrap_or_default();
                ((claim.host.clone(), claim.path.clone()), since)
            });
            let recorded = Recorded { claims: claims.collect(), ..Recorded::default() };
            if !recorded.claims.is_empty() && object.meta.recorded.is_none() {
                object.meta.recorded = Some(Arc::new(recorded));
            }
        }
    }

    /// The requests of the scenario, and such with other paths, hosts and methods that the objects name.
    fn requests(&self, asked: Vec<Expectation>) -> Vec<Expectation> {
        let mut words = BTreeSet::new();
        self.values.iter().for_each(|value| strings(value, &mut words));
        let paths: Vec<String> =
            words.iter().filter(|word| word.starts_with('/')).cloned().collect();
        let hosts: Vec<String> = words
            .iter()
            .filter(|word| word.contains('.') && !word.contains('/'))
            .cloned()
            .collect();
        let mut random = Random::new(self.name.len());
        let mut all: Vec<Expectation> =
            asked.iter().cloned().map(|one| Expectation { burst: None, ..one }).collect();
        for _ in 0..REQUESTS {
            let mut request = random.one_of(&asked).clone();
            request.burst = None;
            if let Some(http) = &mut request.http {
                let (method, path) = http.split_once(' ').unwrap();
                let method = if random.below(4) == 0 {
                    *random.one_of(&["GET", "POST", "DELETE"])
                } else {
                    method
                };
                let mut path = path.to_owned();
                if !paths.is_empty() && random.below(3) > 0 {
                    path = random.one_of(&paths).replace(
                        ['{', '}', '(', ')', '*', '+', '[', ']', '\\', '^', '$', '|', '?'],
                        "x",
                    );
                }
                if random.below(3) == 0 {
                    path = format!("{}/x", path.trim_end_matches('/'));
                }
                *http = format!("{method} {path}");
            }
            if request.grpc.is_none() && !request.tcp && !hosts.is_empty() && random.below(3) == 0 {
                request.host = Some(random.one_of(&hosts).replace('*', "x"));
            }
            if random.below(4) == 0 {
                request.headers.clear();
            }
            all.push(request);
        }
        all
    }
}

/// A RouteAdmissionPolicy with the status that the controller gives it.
fn with_status(mut value: Value) -> Value {
    if value["kind"] == "RouteAdmissionPolicy" {
        let rule = |field: &str| value["spec"][field].clone();
        let [ownership, wildcards] = ["namespaceOwnership", "wildcardPolicy"].map(rule);
        let rules = json!({"namespaceOwnership": ownership, "wildcardPolicy": wildcards});
        value["status"] = json!({"routeAdmission": rules});
    }
    value
}

/// A rate limit decides by how much it has seen, so that what it refuses is not compared.
fn is_refused((verdict, reason): (Verdict, Option<String>)) -> bool {
    verdict == Verdict::Deny && !reason.is_some_and(|reason| reason.starts_with("rate_limit"))
}

fn strings(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => _ = words.insert(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| strings(item, words)),
        Value::Object(fields) => fields.values().for_each(|field| strings(field, words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The objects of a folder, each as it is written.
fn values(folder: &Path) -> Vec<Value> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let documents =
        files.iter().flat_map(|file| document::read(&fs::read_to_string(file).unwrap()));
    documents
        .filter_map(|document| document.value.ok())
        .filter(|value| value.get("kind").is_some())
        .collect()
}
