//! Manifests as people give them: several files and folders, standard input, pipes, charts and
//! kustomizations, addresses.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const SERVER: &str = "\
apiVersion: policy.linkerd.io/v1beta3
kind: Server
metadata: {name: web, namespace: shop}
spec: {podSelector: {matchLabels: {app: web}}, port: 8080, accessPolicy: deny}
";

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: a, image: a, ports: [{containerPort: 8080}]}]}
";

/// Exit code, standard output and standard error of a command.
type Told = (Option<i32>, String, String);

fn run(arguments: &[&str], folder: &Path, input: &str) -> Told {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The program may exit before it has read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// The commands that read manifests, without the names of these.
const READERS: [&[&str]; 7] = [
    &["check"],
    &["inject"],
    &["up"],
    &["authz", "-f"],
    &["status", "-f"],
    &["grants", "-f"],
    &["routes", "-f"],
];

#[test]
fn several_files_folders_and_standard_input_are_read_as_one() {
    let folder = folder(&[("policy/web.yaml", SERVER), ("web.yaml", POD)]);
    let sound = "2 objects read: 0 errors, 0 warnings\n".to_owned();
    for arguments in [
        &["check", "policy", "web.yaml"][..],
        &["check", "-f", "policy", "-f", "web.yaml"],
        &["check", "policy", "-f", "web.yaml"],
    ] {
        let told = run(arguments, folder.path(), "");
        assert_eq!(told, (Some(0), sound.clone(), String::new()), "{arguments:?}");
    }
    let told = run(&["check", "policy", "-"], folder.path(), POD);
    assert_eq!(told, (Some(0), sound, String::new()));
    let (code, text, _) = run(&["authz", "-f", "policy", "-f", "-"], folder.path(), POD);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("manifests of policy, -"), "{text}");
    let (code, _, told) = run(&["check", "-", "-"], folder.path(), POD);
    assert_eq!(code, Some(1));
    assert!(told.contains("standard input can be read only once"), "{told}");
}

#[test]
fn a_pipe_with_a_name_is_read_once_by_every_command() {
    let folder = folder(&[("policy.yaml", SERVER)]);
    let script = format!(
        "{} check policy.yaml <(cat <<'END'\n{POD}END\n)",
        env!("CARGO_BIN_EXE_portcullis")
    );
    let output =
        Command::new("bash").arg("-c").arg(script).current_dir(folder.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "2 objects read: 0 errors, 0 warnings\n");
}

#[test]
fn streams_of_json_lists_and_generated_names_are_read_as_kubectl_reads_them() {
    let folder = folder(&[]);
    let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-",
        "namespace": "shop", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "a",
        "image": "a", "ports": [{"containerPort": 8080}]}]}}"#;
    let server = r#"{"apiVersion": "policy.linkerd.io/v1beta3", "kind": "ServerList", "items": [
        {"metadata": {"name": "web", "namespace": "shop"}, "spec": {"port": 8080,
        "accessPolicy": "deny", "podSelector": {"matchLabels": {"app": "web"}}}}]}"#;
    let told = run(&["check", "-"], folder.path(), &format!("{pod}\n{server}"));
    let sound = "2 objects read: 0 errors, 0 warnings\n".to_owned();
    assert_eq!(told, (Some(0), sound, String::new()));
    let (code, text, told) = run(&["inject", "-"], folder.path(), &format!("{pod}{server}"));
    assert_eq!(code, Some(0));
    assert!(told.starts_with("Pod shop/web-") && told.ends_with(": injected\n"), "{told}");
    assert!(text.contains("kind: ServerList"), "{text}");
}

#[test]
fn an_object_with_a_generated_name_has_one_name_in_every_command() {
    let job = "\
apiVersion: batch/v1
kind: Job
metadata: {generateName: load-, namespace: shop, annotations: {linkerd.io/inject: disabled}}
spec:
  template:
    spec:
      annotations: {portcullis.dev/inject: enabled}
      restartPolicy: Never
      containers: [{name: a, image: a}]
";
    let folder = folder(&[("job.yaml", job)]);
    let (_, checked, _) = run(&["check", "job.yaml"], folder.path(), "");
    let (_, _, injected) = run(&["inject", "job.yaml"], folder.path(), "");
    let name = checked.split_whitespace().find(|word| word.starts_with("shop/load-")).unwrap();
    assert!(injected.contains(&format!("Job {name}: injected")), "{name}: {injected}");
    // An annotation in the spec of the pods is told where it belongs.
    let wanted = "spec.template.spec.annotations: unknown field, did you mean `spec.template.metadata.annotations`?";
    assert!(checked.contains(wanted) && injected.contains(wanted), "{checked}\n{injected}");
}

#[test]
fn where_nothing_is_read_no_command_ends_as_if_it_had_done_something() {
    let folder = folder(&[("empty/README.md", "nothing"), ("blank.yaml", "# nothing\n")]);
    for reader in READERS {
        for name in ["empty", "blank.yaml", "-"] {
            let arguments = [reader, &[name]].concat();
            let (code, out, told) = run(&arguments, folder.path(), "");
            assert_eq!(code, Some(1), "{arguments:?}: {out}{told}");
        }
    }
}

#[test]
fn sources_of_helm_and_kustomize_are_named_with_the_command_that_renders_them() {
    let folder = folder(&[
        ("chart/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n"),
        ("chart/values.yaml", "kind: [\n"),
        ("chart/templates/web.yaml", "kind: {{ .Values.kind }}\n"),
        ("overlay/kustomization.yaml", "resources: [../web.yaml]\n"),
        ("web.yaml", POD),
    ]);
    for reader in READERS {
        for (name, rendered) in
            [("chart", "`helm template chart`"), ("overlay", "`kustomize build overlay`")]
        {
            let arguments = [reader, &[name]].concat();
            let (code, out, told) = run(&arguments, folder.path(), "");
            assert_eq!(code, Some(1), "{arguments:?}: {out}{told}");
            let all = format!("{out}{told}");
            assert_eq!(all.matches(rendered).count(), 1, "{arguments:?}: {all}");
        }
    }
    let (code, text, _) = run(&["check", "."], folder.path(), "");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.ends_with("1 object read: 0 errors, 0 warnings, 2 notes\n"), "{text}");
}

#[test]
fn what_cannot_be_read_outside_a_chart_is_an_error_of_every_command() {
    let folder = folder(&[("m/web.yaml", POD), ("m/values.yaml", "a: [\n")]);
    for reader in READERS.iter().filter(|reader| **reader != ["up"]) {
        let arguments = [reader, &["m"][..]].concat();
        let (code, out, told) = run(&arguments, folder.path(), "");
        assert_eq!(code, Some(1), "{arguments:?}: {out}{told}");
        assert!(format!("{out}{told}").contains("values.yaml"), "{arguments:?}: {out}{told}");
    }
}

#[test]
fn an_address_is_answered_with_the_command_that_reads_it() {
    let folder = folder(&[]);
    let address = "https://example.com/web.yaml";
    for (reader, pipe) in [
        (READERS[0], "check -"),
        (READERS[1], "inject - | kubectl apply -f -"),
        (READERS[2], "up -"),
        (READERS[3], "authz -f -"),
        (READERS[4], "status -f -"),
    ] {
        let (code, _, told) = run(&[reader, &[address]].concat(), folder.path(), "");
        assert_eq!(code, Some(1), "{told}");
        let command = format!("curl -fsSL {address} | portcullis {pipe}\n");
        assert!(told.ends_with(&command), "{told}");
    }
}

#[test]
fn policy_alone_is_sound_where_its_author_says_so() {
    let folder = folder(&[("web.yaml", SERVER)]);
    let (_, text, _) = run(&["check", "web.yaml"], folder.path(), "");
    assert!(text.contains("selects no pod of namespace `shop`"), "{text}");
    let told = run(&["check", "--policy-only", "web.yaml"], folder.path(), "");
    let sound = "1 object read: 0 errors, 0 warnings\n".to_owned();
    assert_eq!(told, (Some(0), sound, String::new()));
}

#[test]
fn workloads_of_other_kinds_are_checked_and_listed_by_their_own_kind_and_name() {
    let rollout = "\
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: web}, annotations: {portcullis.dev/inejct: enabled}}
    spec: {containers: [{name: a, image: a, ports: [{containerPort: 8080}]}]}
";
    let folder = folder(&[("policy.yaml", SERVER), ("web.yaml", rollout)]);
    let (code, text, _) = run(&["check", "."], folder.path(), "");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("Rollout shop/web: there is no such annotation"), "{text}");
    assert!(!text.contains("selects no pod"), "{text}");
    for name in ["rollout/web", "rollouts.argoproj.io/web"] {
        let (code, text, told) = run(&["authz", "-f", ".", name], folder.path(), "");
        assert_eq!(code, Some(0), "{told}");
        assert!(text.contains("web-0") && text.contains("web-1"), "{text}");
    }
    let (code, _, told) = run(&["authz", "-f", ".", "rollout/wbe"], folder.path(), "");
    assert_eq!(code, Some(1));
    assert!(
        told.contains("no pod of rollout wbe was found") && told.contains("is it web?"),
        "{told}"
    );
}

#[test]
fn the_pods_of_a_service_are_named_by_it_and_kinds_by_their_group() {
    let service = "\
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
";
    let folder = folder(&[("policy.yaml", SERVER), ("web.yaml", POD), ("service.yaml", service)]);
    for name in ["svc/web", "service/web", "services/web", "pods.v1/web"] {
        let (code, text, told) = run(&["authz", "-f", ".", name], folder.path(), "");
        assert_eq!(code, Some(0), "{name}: {told}");
        assert!(text.contains("shop/web"), "{text}");
    }
    let (code, _, told) = run(&["authz", "-f", ".", "svc/wbe"], folder.path(), "");
    assert_eq!(code, Some(1));
    assert!(told.contains("there is no Service wbe in ") && told.contains("is it web?"), "{told}");
    let (code, _, told) = run(&["authz", "-f", ".", "deplyo/web"], folder.path(), "");
    assert_eq!(code, Some(2));
    assert!(told.contains("`deplyo` is not a kind; did you mean `deploy`?"), "{told}");
}

#[test]
fn every_command_says_of_what_no_sidecar_guards_that_nothing_does() {
    let host = POD.replace("spec: {", "spec: {hostNetwork: true, ");
    let skipping = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: lift, namespace: shop, annotations: {portcullis.dev/access-log: json}}
spec:
  template:
    metadata: {labels: {app: lift}, annotations: {config.linkerd.io/skip-inbound-ports: \"9104\"}}
    spec: {containers: [{name: a, image: a, ports: [{containerPort: 9104}]}]}
";
    let folder = folder(&[("web.yaml", &host), ("lift.yaml", skipping)]);
    let host = "the pod has hostNetwork: true";
    let around = "connections to it go around the sidecar, because skip-inbound-ports names it";
    let misplaced = "metadata.annotations[\"portcullis.dev/access-log\"]: has no effect here";
    for (arguments, says) in [
        (&["check", "."][..], &[host, around, misplaced][..]),
        (&["authz", "-f", "."], &[host, around, misplaced]),
        (&["status", "-f", "."], &[host, around, misplaced]),
        (&["inject", "."], &[host, misplaced]),
    ] {
        let (code, out, told) = run(arguments, folder.path(), "");
        assert_eq!(code, Some(0), "{arguments:?}: {told}");
        let all = format!("{out}{told}");
        for said in says {
            assert!(all.contains(said), "{arguments:?} does not say `{said}`: {all}");
        }
    }
}

#[test]
fn flags_of_kubectl_are_read_as_kubectl_reads_them_or_answered() {
    let folder = folder(&[("a.yaml", SERVER), ("b.yaml", POD)]);
    let separate = run(&["check", "-f", "a.yaml", "-f", "b.yaml"], folder.path(), "");
    assert_eq!(separate.1, "2 objects read: 0 errors, 0 warnings\n", "{separate:?}");
    assert_eq!(run(&["check", "-R", "-f", "a.yaml,b.yaml"], folder.path(), ""), separate);
    let commands = [
        "check -",
        "inject - | kubectl apply -f -",
        "up -",
        "authz -f -",
        "status -f -",
        "grants -f -",
        "routes -f -",
    ];
    for (reader, command) in READERS.into_iter().zip(commands) {
        let arguments = [reader, &["-k", "overlay"]].concat();
        let arguments: Vec<&str> = arguments.into_iter().filter(|word| *word != "-f").collect();
        let answer = format!(
            "error: a kustomization is rendered first: kubectl kustomize overlay | portcullis {command}\n"
        );
        let expected = (Some(2), String::new(), answer);
        assert_eq!(run(&arguments, folder.path(), ""), expected, "{reader:?}");
    }
    for list in ["a.yaml,", ",a.yaml", "a.yaml,,b.yaml"] {
        let answer = format!("error: `{list}` has a comma without a name beside it\n");
        assert_eq!(run(&["check", list], folder.path(), ""), (Some(1), String::new(), answer));
    }
}

#[test]
fn an_object_is_named_in_one_word_or_in_two() {
    let folder = folder(&[("a.yaml", SERVER), ("b.yaml", POD)]);
    let output = |words: &[&str]| run(words, folder.path(), "");
    let authz = |words: &[&str]| output(&[&["authz", "-f", "."], words].concat());
    let named = authz(&["pod/web"]);
    assert_eq!(named.0, Some(0), "{named:?}");
    for words in [&["pod", "web"][..], &["po/web"], &["pods"], &["po"]] {
        assert_eq!(authz(words), named, "{words:?}");
    }
    assert_eq!(output(&["authz", "pod", "-f", ".", "web"]), named);
    let none = (Some(1), String::new(), {
        "error: no pod of a Deployment was found in manifests of ., all namespaces\n".to_owned()
    });
    assert_eq!(authz(&["deploy"]), none);
    for (words, message) in [
        (&["svc"][..], "error: `svc` is a kind: svc/NAME names an object of it\n"),
        (&["web"], "error: `web` is not KIND/NAME, for example deploy/web\n"),
        (&["pod/web", "po/web"], "error: one workload can be named: KIND/NAME, or KIND NAME\n"),
    ] {
        assert_eq!(authz(words), (Some(2), String::new(), message.to_owned()), "{words:?}");
    }
    let status = |words: &[&str]| output(&[&["status", "-f", "."], words].concat());
    let server = status(&["server/web"]);
    assert_eq!(server.0, Some(0), "{server:?}");
    for words in [&["server", "web"][..], &["servers"], &["servers,httproutes"]] {
        assert_eq!(status(words), server, "{words:?}");
    }
    // The name is that of each kind, and no route has it.
    let missing = "error: not found in manifests of ., all namespaces: httproutes/web\n";
    let both = (Some(1), server.1.clone(), missing.to_owned());
    assert_eq!(status(&["servers,httproutes", "web"]), both);
}
