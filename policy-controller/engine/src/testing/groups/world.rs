//! Random worlds, made of any bytes.

use crate::testing::choices::Choices;

/// The groups; the last one is in another namespace.
pub(super) const GROUPS: usize = 5;
/// The group of the other namespace.
pub(super) const FOREIGN: usize = GROUPS - 1;
/// Static segments, as they are written in groups. `a%20b` is no other text in any form.
const LITERALS: [&str; 6] = ["a", "b", "42", "a:b", "~x", "a%20b"];
/// The names of parameters.
pub(super) const PARAMETERS: [&str; 3] = ["x", "y", "z"];
/// The texts with which parameters are compared.
pub(super) const TEXTS: [&str; 5] = ["42", "a", "a:b", "a%20b", "new"];
/// The methods of requests; groups name the first two.
pub(super) const METHODS: [&str; 3] = ["GET", "POST", "PUT"];
/// The values of the label `team`.
pub(super) const TEAMS: [&str; 2] = ["red", "blue"];

/// Objects around Server `web`.
#[derive(Clone, Debug)]
pub struct World {
    /// Groups by number; `None`: there is none of this number.
    pub(super) groups: Vec<Option<Group>>,
    /// True if a ReferenceGrant lets groups and bindings include the group of the other namespace.
    pub(super) granted: bool,
    pub(super) bindings: Vec<Binding>,
    pub(super) classes: Vec<Class>,
    pub(super) policies: Vec<Policy>,
    pub(super) timeouts: Vec<Timeout>,
    pub(super) rewrites: Vec<Rewrite>,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) valid: bool,
    /// True if every route asks for the header.
    pub(super) header: bool,
    pub(super) entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
pub(super) enum Entry {
    Route(Route),
    Include(usize, Option<&'static str>),
}

#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) path: String,
    /// Empty: any.
    pub(super) methods: Vec<&'static str>,
    pub(super) header: bool,
    pub(super) team: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) valid: bool,
    pub(super) created: usize,
    pub(super) groups: Vec<usize>,
}

#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) conditions: Vec<(Key, Operator)>,
}

#[derive(Clone, Debug)]
pub(super) enum Key {
    Team,
    Method,
    Path,
    Parameter(&'static str),
}

#[derive(Clone, Debug)]
pub(super) enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Server,
    Binding(usize),
    Class(usize),
}

/// An AuthorizationPolicy.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub(super) target: Target,
    /// The only client that it grants; `None`: all.
    pub(super) client: Option<&'static str>,
}

/// A TimeoutPolicy, in seconds.
#[derive(Clone, Debug)]
pub(super) struct Timeout {
    pub(super) target: Target,
    pub(super) created: usize,
    pub(super) request: Option<u64>,
    pub(super) response: Option<u64>,
    pub(super) idle: Option<u64>,
    pub(super) unbounded: bool,
}

/// A HeaderRewritePolicy. Each rule adds a line that names it.
#[derive(Clone, Debug)]
pub(super) struct Rewrite {
    pub(super) target: Target,
    pub(super) created: usize,
    /// For each rule whether the request has to have the header, must not have it, or either.
    pub(super) rules: Vec<Option<bool>>,
}

impl World {
    /// Reads a world from any bytes.
    pub fn read(data: &[u8]) -> Self {
        let mut from = Choices(data);
        let granted = !from.one_in(4);
        let groups = (0..GROUPS).map(|own| (!from.one_in(12)).then(|| group(&mut from, own)));
        let groups: Vec<_> = groups.collect();
        let bindings = (0..=from.below(3)).map(|_| binding(&mut from)).collect::<Vec<_>>();
        let classes = (0..from.below(4)).map(|_| class(&mut from, &groups)).collect::<Vec<_>>();
        let target = |from: &mut Choices<'_>| match from.below(7) {
            0 => Target::Server,
            1..=3 if !classes.is_empty() => Target::Class(from.below(classes.len())),
            _ => Target::Binding(from.below(bindings.len())),
        };
        let policies = (0..from.below(5)).map(|_| Policy {
            target: target(&mut from),
            client: from.of(&[None, Some("ada"), Some("bob")]),
        });
        let policies: Vec<Policy> = policies.collect();
        let timeouts = (0..from.below(4)).map(|_| {
            let target = target(&mut from);
            timeout(&mut from, target)
        });
        let timeouts = timeouts.collect();
        let rewrites = (0..from.below(4)).map(|_| Rewrite {
            target: target(&mut from),
            created: from.below(3),
            rules: (0..=from.below(2)).map(|_| from.of(&[None, Some(true), Some(false)])).collect(),
        });
        let rewrites = rewrites.collect();
        Self { groups, granted, bindings, classes, policies, timeouts, rewrites }
    }

    /// The same with every list in another order that means nothing: the entries of groups, the groups of
    /// bindings, and the methods of routes. Policies about timeouts have other ages.
    #[must_use]
    pub fn reordered(&self, data: &[u8]) -> Self {
        let mut from = Choices(data);
        let mut other = self.clone();
        for group in other.groups.iter_mut().flatten() {
            from.shuffle(&mut group.entries);
            for entry in &mut group.entries {
                if let Entry::Route(route) = entry {
                    from.shuffle(&mut route.methods);
                }
            }
        }
        for binding in &mut other.bindings {
            from.shuffle(&mut binding.groups);
        }
        for class in &mut other.classes {
            from.shuffle(&mut class.conditions);
        }
        for timeout in &mut other.timeouts {
            timeout.created = from.below(9);
        }
        other
    }

    /// Every world with one policy less, or without what a policy names.
    pub fn with_less_permission(&self) -> Vec<Self> {
        let policies = (0..self.policies.len()).map(|at| {
            let mut less = self.clone();
            less.policies.remove(at);
            less
        });
        // A class that is gone keeps its number, so that no policy has another target.
        let classes = (0..self.classes.len()).map(|at| {
            let mut less = self.clone();
            less.policies.retain(|policy| policy.target != Target::Class(at));
            less.timeouts.retain(|policy| policy.target != Target::Class(at));
            less.rewrites.retain(|policy| policy.target != Target::Class(at));
            less
        });
        policies.chain(classes).collect()
    }

    /// Every world with one TimeoutPolicy less.
    pub fn with_fewer_timeouts(&self) -> Vec<Self> {
        let fewer = (0..self.timeouts.len()).map(|at| {
            let mut less = self.clone();
            less.timeouts.remove(at);
            less
        });
        fewer.collect()
    }
}

fn group(from: &mut Choices<'_>, own: usize) -> Group {
    let mut entries: Vec<Entry> = Vec::new();
    for _ in 0..=from.below(4) {
        if from.one_in(4) {
            // Mostly a later one, so that few lead back.
            let other = if from.one_in(6) { from.below(GROUPS) } else { own + 1 + from.below(2) };
            let named = |entry: &Entry| matches!(entry, Entry::Include(it, _) if *it == other);
            if other < GROUPS && other != own && !entries.iter().any(named) {
                entries.push(Entry::Include(other, team(from)));
            }
        } else {
            let new = route(from);
            let twice = |entry: &Entry| matches!(entry, Entry::Route(old) if same(old, &new));
            if !entries.iter().any(twice) {
                entries.push(Entry::Route(new));
            }
        }
    }
    if entries.is_empty() {
        entries.push(Entry::Route(route(from)));
    }
    Group { valid: !from.one_in(25), header: from.one_in(6), entries }
}

/// Returns true if a group may not have both.
fn same(one: &Route, other: &Route) -> bool {
    let shape = |path: &str| -> Vec<String> {
        let segments = path.split('/').filter(|segment| !segment.is_empty());
        let mark = |segment: &str| match segment.chars().next() {
            Some(mark @ (':' | '*')) => mark.to_string(),
            _ => segment.to_owned(),
        };
        segments.map(mark).collect()
    };
    shape(&one.path) == shape(&other.path) && one.header == other.header
}

fn route(from: &mut Choices<'_>) -> Route {
    let mut path = String::new();
    let mut names = PARAMETERS.to_vec();
    from.shuffle(&mut names);
    for _ in 0..from.below(4) {
        path.push('/');
        match from.below(3) {
            0 => {
                path.push(':');
                path.push_str(names.pop().unwrap());
            }
            // The first texts are more frequent, so that paths meet.
            1 => path.push_str(from.of(&LITERALS)),
            _ => path.push_str(from.of(&LITERALS[..2])),
        }
    }
    if !names.is_empty() && from.one_in(5) {
        path.push_str("/*");
        path.push_str(names[0]);
    } else if path.is_empty() || from.one_in(4) {
        path.push('/');
    }
    let methods: &[&str] = from.of(&[&[], &["GET"], &["POST"], &["GET", "POST"]]);
    Route { path, methods: methods.to_vec(), header: from.one_in(6), team: team(from) }
}

fn team(from: &mut Choices<'_>) -> Option<&'static str> {
    from.of(&[None, Some(TEAMS[0]), Some(TEAMS[1])])
}

fn binding(from: &mut Choices<'_>) -> Binding {
    let mut groups = Vec::new();
    for _ in 0..=from.below(2) {
        let group = from.below(GROUPS);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    Binding { valid: !from.one_in(20), created: from.below(3), groups }
}

fn class(from: &mut Choices<'_>, groups: &[Option<Group>]) -> Class {
    let conditions = (0..from.below(3)).map(|_| {
        let (key, texts): (Key, Vec<String>) = match from.below(5) {
            0 => (Key::Team, vec![from.of(&TEAMS).to_owned()]),
            1 => (Key::Method, vec![from.of(&METHODS).to_owned()]),
            2 => (Key::Path, vec![some_path(from, groups)]),
            _ => {
                let texts = (0..=from.below(2)).map(|_| from.of(&TEXTS).to_owned());
                let mut texts: Vec<String> = texts.collect();
                texts.sort();
                texts.dedup();
                (Key::Parameter(from.of(&PARAMETERS)), texts)
            }
        };
        let operator = match from.below(6) {
            0..=2 => Operator::In(texts),
            3 | 4 => Operator::NotIn(texts),
            _ => from.of(&[&Operator::Exists, &Operator::DoesNotExist]).clone(),
        };
        (key, operator)
    });
    Class { conditions: conditions.collect() }
}

/// The path of a route that there is, without a slash at its end.
fn some_path(from: &mut Choices<'_>, groups: &[Option<Group>]) -> String {
    let entries = groups.iter().flatten().flat_map(|group| &group.entries);
    let paths = entries.filter_map(|entry| match entry {
        Entry::Route(route) => Some(route.path.as_str()),
        Entry::Include(..) => None,
    });
    let paths: Vec<&str> = paths.collect();
    let path = if paths.is_empty() { "/" } else { from.of(&paths) };
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() { "/".to_owned() } else { trimmed.to_owned() }
}

fn timeout(from: &mut Choices<'_>, target: Target) -> Timeout {
    let mut time = |often: usize| from.one_in(often).then(|| 1 + from.below(9) as u64);
    let (request, response, idle) = (time(1), time(2), time(3));
    Timeout { target, created: from.below(9), request, response, idle, unbounded: from.one_in(3) }
}
