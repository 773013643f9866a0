//! `portcullis why`, `tap` and `denied` on the node: each form reaches sidecars and controllers through
//! the API server's port-forward, for a user who has the roles of docs/cli.md and for users who lack them.

use super::away::controller_stays;
use super::clients::{Got, How, ask, start_client, start_server};
use super::world::{CONTROL_PLANE, eventually, identity, meshed_namespace, node};
use policy_tests::cluster::node::{Ended, Node, Place};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const DENY: &str = "config.linkerd.io/default-inbound-policy: deny";
/// The page that documents the roles.
const PAGE: &str = include_str!("../../../docs/cli.md");

/// The YAML of the page's fence that has these words.
fn documented(words: &str) -> &'static str {
    let fences = PAGE.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut found = fences.filter(|fence| fence.contains(words));
    let (one, more) = (found.next().expect(words), found.next());
    assert_eq!(more, None, "several fences of the page have `{words}`");
    one
}

/// Roles of the page, as they are written there. Their names are those of the page, too, because a
/// user applies them so.
fn roles() -> String {
    let rules = documented("resources: [serviceaccounts/token]");
    format!(
        "{}---\n{}---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n\
         metadata: {{name: portcullis-denied, namespace: {CONTROL_PLANE}}}\n{rules}",
        documented("portcullis-list"),
        documented("portcullis-sidecars"),
    )
}

/// A binding of a role to a service account.
fn binding(namespace: &str, (kind, role): (&str, &str), of: (&str, &str)) -> String {
    let (home, account) = of;
    format!(
        "\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n\
         metadata: {{name: {role}-{home}-{account}, namespace: {namespace}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {kind}, name: {role}}}\n\
         subjects: [{{kind: ServiceAccount, name: {account}, namespace: {home}}}]\n"
    )
}

/// Somebody with a kubeconfig of their own.
struct User {
    folder: TempDir,
}

impl User {
    /// A service account of the namespace, by a token of it.
    async fn new(node: &Node, namespace: &str, account: &str) -> Self {
        node.kubectl().run(&["create", "serviceaccount", "-n", namespace, account]).await.unwrap();
        let token = ["create", "token", "-n", namespace, account];
        let token = node.kubectl().run(&token).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let user = Self { folder };
        std::fs::copy(node.kubeconfig(), user.kubeconfig()).unwrap();
        let file = format!("--kubeconfig={}", user.kubeconfig().display());
        let token = format!("--token={}", token.trim());
        for change in [
            ["config", "set-credentials", account, &token],
            ["config", "set-context", "--current", &format!("--user={account}")],
        ] {
            let change: Vec<&str> = change.into_iter().chain([file.as_str()]).collect();
            node.kubectl().run(&change).await.unwrap();
        }
        user
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// The outcome of a command of `portcullis` for this user.
    async fn says(&self, node: &Node, arguments: &[&str]) -> Ended {
        node.run_at(
            Place::Machine,
            &words(&self.kubeconfig(), arguments).iter().map(String::as_str).collect::<Vec<_>>(),
        )
        .await
        .unwrap()
    }

    /// The JSON of a command that ends well.
    async fn json(&self, node: &Node, arguments: &[&str]) -> Value {
        let arguments: Vec<&str> = arguments.iter().copied().chain(["-o", "json"]).collect();
        let said = self.says(node, &arguments).await;
        assert_eq!(said.code, Some(0), "{said:?}");
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    }
}

fn words(kubeconfig: &Path, arguments: &[&str]) -> Vec<String> {
    let program = env!("CARGO_BIN_EXE_portcullis-under-test");
    let kubeconfig = kubeconfig.display().to_string();
    let all = [program].into_iter().chain(arguments.iter().copied());
    all.chain(["--kubeconfig", &kubeconfig]).map(str::to_owned).collect()
}

/// A command that goes on until it ends by itself, or the test does.
struct Following(Option<Child>);

impl Following {
    fn start(node: &Node, user: &User, arguments: &[&str]) -> Self {
        let words = words(&user.kubeconfig(), arguments);
        let (program, arguments) = words.split_first().unwrap();
        let mut command: Command = node.command(Place::Machine, program);
        command.args(arguments).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().unwrap()))
    }

    fn has_ended(&mut self) -> bool {
        self.0.as_mut().is_some_and(|child| child.try_wait().unwrap().is_some())
    }

    fn said(mut self) -> (Option<i32>, String, String) {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may have ended by itself.
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// A server that refuses its neighbour, which was refused once.
struct Refused {
    namespace: String,
    pod: String,
    neighbour: String,
    url: String,
}

impl Refused {
    async fn new(node: &Node, prefix: &str) -> Self {
        let namespace = meshed_namespace(node, prefix, DENY).await;
        let neighbour = start_client(node, &namespace, "neighbour").await;
        let (pod, address) = start_server(node, &namespace, "server").await;
        let refused =
            Self { url: format!("http://{address}:8080/page"), namespace, pod, neighbour };
        refused.again(node).await;
        refused
    }

    async fn again(&self, node: &Node) {
        let server = identity(&self.namespace, "server");
        let client = (self.namespace.as_str(), self.neighbour.as_str());
        assert_eq!(ask(node, client, How::Meshed(&server), &self.url).await, Got::Status(403));
    }

    fn from(&self) -> String {
        format!("sa/{}/neighbour", self.namespace)
    }
}

const CAUSE: &str = "nothing is granted by the default policy deny";

/// `why` of a question: the objects, and what the sidecar has in force, which does not differ.
async fn a_question(node: &Node, user: &User, at: &Refused) {
    let (ns, from) = (&*at.namespace, at.from());
    let why = ["why", "-n", ns, "--from", &from, "--to", "deploy/server:8080", "GET", "/page"];
    let answer = user.json(node, &why).await;
    let one = &answer["answers"][0];
    let facts = (one["verdict"].as_str(), one["reason"].as_str());
    assert_eq!(facts, (Some("deny"), Some("unauthorized")), "{answer:#}");
    let cause = one["causes"][0]["summary"].as_str().unwrap();
    assert!(cause.contains(CAUSE), "{answer:#}");
    let in_force = &one["inForce"];
    let sidecar = format!("{ns}/{}", at.pod);
    let facts = [&in_force["sidecar"], &in_force["problem"], &in_force["decision"]];
    assert_eq!(facts, [&sidecar.into(), &Value::Null, &Value::from("deny")], "{answer:#}");
    assert_eq!(in_force["differs"], false, "{answer:#}");
    assert_eq!(answer["gaps"], Value::Array(vec![]), "{answer:#}");
}

/// `why` of what was recorded: the latest, its id, and the sidecar's log.
async fn what_was_recorded(node: &Node, user: &User, at: &Refused) {
    let ns = &*at.namespace;
    let last = ["why", "-n", ns, "--last", "5", "--to", "deploy/server"];
    let latest = user.json(node, &last).await;
    let is_own = |one: &&Value| one["recorded"]["path"] == "/page";
    let decision = latest["decisions"].as_array().unwrap().iter().find(is_own);
    let decision = decision.unwrap_or_else(|| panic!("{latest:#}"));
    let recorded = &decision["recorded"];
    let facts = (recorded["reason"].as_str(), recorded["identity"].as_str());
    let neighbour = identity(ns, "neighbour");
    assert_eq!(facts, (Some("unauthorized"), Some(&*neighbour)), "{latest:#}");
    let id = recorded["id"].as_str().unwrap();
    let by_id = user.json(node, &["why", "-n", ns, id]).await;
    let one = &by_id["decisions"][0];
    assert_eq!(one["recorded"]["id"], id, "{by_id:#}");
    assert_eq!(one["why"]["answers"][0]["reason"], "unauthorized", "{by_id:#}");

    let log = node.kubectl().logs(ns, &at.pod, "portcullis-proxy").await.unwrap();
    let file = user.folder.path().join("sidecar.log");
    std::fs::write(&file, log).unwrap();
    let file = file.display().to_string();
    let of_log = user.json(node, &["why", "-n", ns, "--log", &file]).await;
    let decisions = of_log["decisions"].as_array().unwrap();
    assert!(decisions.iter().any(|one| one["recorded"]["path"] == "/page"), "{of_log:#}");
}

/// `tap` while requests are refused.
async fn the_live_decisions(node: &Node, user: &User, at: &Refused) {
    let ns = &*at.namespace;
    let filters = ["--decision", "deny", "--client", "*", "--limit", "1", "-o", "json"];
    let tap: Vec<&str> = ["tap", "-n", ns, "deploy/server"].into_iter().chain(filters).collect();
    let mut following = Following::start(node, user, &tap);
    for _ in 0..60 {
        at.again(node).await;
        if following.has_ended() {
            break;
        }
    }
    let (code, out, err) = following.said();
    assert_eq!(code, Some(0), "{out}{err}");
    let line: Value =
        serde_json::from_str(out.trim()).unwrap_or_else(|error| panic!("{error}: {out}"));
    let facts = (line["decision"].as_str(), line["reason"].as_str(), line["sidecar"].as_str());
    let sidecar = format!("{ns}/{}", at.pod);
    assert_eq!(facts, (Some("deny"), Some("unauthorized"), Some(&*sidecar)), "{line:#}");
}

/// `denied`, once the sidecar's report has come.
async fn what_is_refused_most(node: &Node, user: &User, at: &Refused) {
    let ns = &*at.namespace;
    let neighbour = identity(ns, "neighbour");
    let rows = async || {
        let answer = user.json(node, &["denied", "-n", ns]).await;
        let rows = answer["rows"].as_array().unwrap();
        let mut own = rows.iter().filter(|row| row["client"] == *neighbour);
        own.next().map(|row| format!("{} {} {}", row["workload"], row["port"], row["reason"]))
    };
    let expected = Some(r#""deployment/server" 8080 "unauthorized""#.to_owned());
    eventually("the report of the sidecar", expected, rows).await;
}

#[tokio::test]
async fn who_has_the_documented_roles_is_answered_by_sidecars_and_controllers() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let at = Refused::new(node, "why").await;
    let ns = &*at.namespace;
    let user = User::new(node, ns, "ada").await;
    node.apply(&roles()).await.unwrap();
    let everywhere = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\n\
         metadata: {{name: portcullis-list-{ns}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: portcullis-list}}\n\
         subjects: [{{kind: ServiceAccount, name: ada, namespace: {ns}}}]\n"
    );
    let bound = [
        everywhere,
        binding(ns, ("ClusterRole", "portcullis-sidecars"), (ns, "ada")),
        binding(CONTROL_PLANE, ("Role", "portcullis-denied"), (ns, "ada")),
    ];
    node.apply(&bound.concat()).await.unwrap();

    a_question(node, &user, &at).await;
    what_was_recorded(node, &user, &at).await;
    the_live_decisions(node, &user, &at).await;
    what_is_refused_most(node, &user, &at).await;

    let binding = format!("portcullis-list-{ns}");
    node.kubectl().run(&["delete", "clusterrolebinding", &binding]).await.unwrap();
    node.remove_namespace(ns).await.unwrap();
}

#[tokio::test]
async fn who_lacks_a_role_is_told_the_right_that_is_missing() {
    let Some(node) = node().await else { return };
    let _stays = controller_stays().await;
    let at = Refused::new(node, "why-not").await;
    let (ns, from) = (&*at.namespace, at.from());
    let question = ["why", "-n", ns, "--from", &from, "--to", "deploy/server:8080", "GET", "/page"];
    let last = ["why", "-n", ns, "--last", "5", "--to", "deploy/server"];
    let tap = ["tap", "-n", ns, "deploy/server", "--limit", "1"];
    let denied = ["denied", "-n", ns];

    // Without any right.
    let nobody = User::new(node, ns, "nobody").await;
    let forbidden = "pods is forbidden";
    for (command, words) in [
        (
            &question[..],
            "lets you list nothing that policy depends on. A ClusterRole that would allow it",
        ),
        (&last[..], forbidden),
        (&tap[..], forbidden),
        (&denied[..], forbidden),
    ] {
        let said = nobody.says(node, command).await;
        assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""), "{command:?}: {said:?}");
        assert!(said.stderr.contains(words), "{command:?}: {said:?}");
    }

    // With the right to list, and none to reach pods.
    let reader = User::new(node, ns, "reader").await;
    node.apply(&roles()).await.unwrap();
    let listing = binding(ns, ("ClusterRole", "portcullis-list"), (ns, "reader"));
    node.apply(&listing).await.unwrap();
    let answer = reader.json(node, &question).await;
    let in_force = &answer["answers"][0]["inForce"];
    let problem = in_force["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("pods/portforward"), "{answer:#}");
    assert_eq!(in_force["decision"], Value::Null, "{answer:#}");
    for command in [&last[..], &tap[..]] {
        let said = reader.says(node, command).await;
        assert_eq!((said.code, said.stdout.as_str()), (Some(1), ""), "{command:?}: {said:?}");
        assert!(said.stderr.contains("pods/portforward"), "{command:?}: {said:?}");
    }
    node.remove_namespace(ns).await.unwrap();
}
