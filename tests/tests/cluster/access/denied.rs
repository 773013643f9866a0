//! The refusals of real sidecars, for those who may view policies and for those who may not.

use super::mesh::{Mesh, identity};
use super::{AUDIENCE, PATIENCE, accounts, controller, grant, pod, token};
use crate::cli::portcullis;
use policy_proto::messages::policy_report_client::PolicyReportClient;
use policy_proto::messages::{DeniedRequest, DeniedResponse};
use policy_testkit::{free_port, http1_client};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// A sidecar that ends with the test.
struct SidecarProcess(Child);

impl Drop for SidecarProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

impl SidecarProcess {
    /// The sidecar of pod `web-0`: what comes to `listen` is for port 80.
    fn start(mesh: &Mesh, namespace: &str, policy: SocketAddr, listen: SocketAddr) -> Self {
        let [certificate, key] = mesh.certify(&identity("web", namespace));
        let mut command = Command::new(env!("CARGO_BIN_EXE_policy-proxy-under-test"));
        command.args(["run", "--identity", "files", "--log", "error", "--admin", "127.0.0.1:0"]);
        command.arg("--identity-cert").arg(certificate).arg("--identity-key").arg(key);
        command.arg("--identity-roots").arg(mesh.roots());
        command.args(["--identity-name", &identity("web", namespace)]);
        command.args(["--workload", &format!("{namespace}:web-0")]);
        // Linux connects to this machine; an address of loopback would be spoken to in plaintext.
        let policy = format!("0.0.0.0:{}", policy.port());
        command.args(["--policy-addr", &policy, "--policy-name", &mesh.controller()]);
        command.args(["--forward", &format!("{listen},80,127.0.0.1:9")]);
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }
}

/// The status of a request of a client without identity; 0: there is no answer.
async fn get(to: SocketAddr) -> u16 {
    let Ok(stream) = TcpStream::connect(to).await else { return 0 };
    let mut client = http1_client(stream).await;
    let request = http::Request::get("/orders").header("host", "web");
    let request = request.body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
    client.send_request(request).await.map_or(0, |answer| answer.status().as_u16())
}

async fn denied(
    channel: &Channel,
    namespace: &str,
    token: Option<&str>,
) -> Result<DeniedResponse, Status> {
    let mut request = Request::new(DeniedRequest { namespace: namespace.into(), limit: 10 });
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    Ok(PolicyReportClient::new(channel.clone()).denied(request).await?.into_inner())
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_shown_to_viewers_of_the_namespace_alone() {
    let Some(cluster) = crate::shared().await else { return };
    let (namespace, mesh) = ("access-denied", Mesh::new());
    cluster.apply(&accounts(namespace)).await.unwrap();
    cluster.apply(&pod(namespace, "web", "app: web")).await.unwrap();
    let server = format!(
        "apiVersion: policy.linkerd.io/v1beta3\nkind: Server\n\
         metadata: {{name: web, namespace: {namespace}}}\n\
         spec: {{podSelector: {{matchLabels: {{app: web}}}}, port: 80, accessPolicy: deny, \
         proxyProtocol: HTTP/1}}\n"
    );
    cluster.apply(&server).await.unwrap();
    let controller = controller(cluster, &mesh.flags()).await;
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let sidecar = SidecarProcess::start(&mesh, namespace, controller.grpc(), listen);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match get(listen).await {
            403 => break,
            other => assert!(Instant::now() < deadline, "the last answer is {other}"),
        }
        sleep(Duration::from_millis(50)).await;
    }

    // Without a token, and with one whose account may not view policies.
    let channel = mesh.connect(controller.grpc(), None).await;
    let status = denied(&channel, namespace, None).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    let good = token(cluster, namespace, "viewer", Some(AUDIENCE)).await;
    let status = denied(&channel, namespace, Some(&good)).await.unwrap_err();
    let refusal = format!(
        "viewer `system:serviceaccount:{namespace}:viewer` is refused: the right to get `policies` \
         of group `portcullis.dev` in namespace `{namespace}`"
    );
    assert_eq!((status.code(), status.message()), (Code::PermissionDenied, &*refusal));
    // The sidecar itself is no viewer.
    let own = mesh.connect(controller.grpc(), Some(&identity("web", namespace))).await;
    let status = denied(&own, namespace, None).await.unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied, "{status:?}");

    cluster.apply(&grant(namespace, "viewer")).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    let row = loop {
        let rows = denied(&channel, namespace, Some(&good)).await.map(|answer| answer.rows);
        let is_own = |row: &policy_proto::messages::DeniedRow| {
            row.group.as_ref().is_some_and(|group| group.reason == "unauthorized")
        };
        if let Some(row) = rows.iter().flatten().find(|row| is_own(row)) {
            break row.clone();
        }
        assert!(Instant::now() < deadline, "{rows:?}");
        sleep(Duration::from_millis(200)).await;
    };
    let group = row.group.unwrap();
    let facts = (&*row.namespace, &*row.workload, row.pods, group.port, &*group.subject);
    assert_eq!(facts, (namespace, "pod/web-0", 1, 80, "127.0.0.0/24"));
    // The right is of one namespace.
    for other in ["kube-system", ""] {
        let status = denied(&channel, other, Some(&good)).await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{other}: {status:?}");
    }
    drop(sidecar);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_names_the_right_that_is_missing() {
    let Some(cluster) = crate::shared().await else { return };
    let ns = cluster.namespace("denied").await.unwrap();
    let controller = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: policy-controller-0, namespace: {ns}, \
         labels: {{app.kubernetes.io/component: policy-controller}}}}\n\
         spec: {{containers: [{{name: c, image: c, args: [run]}}]}}\n---\n\
         apiVersion: v1\nkind: ServiceAccount\n\
         metadata: {{name: portcullis-viewer, namespace: {ns}}}\n"
    );
    cluster.apply(&controller).await.unwrap();
    let ready = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "policy-controller-0", "namespace": ns},
        "status": {
            "phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    });
    cluster.apply_status(&ready.to_string()).await.unwrap();
    let roots = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"ca-bundle.crt": policy_testkit::Authority::new().pem()},
        "metadata": {"name": "portcullis-identity-trust-roots", "namespace": ns},
    });
    cluster.apply(&roots.to_string()).await.unwrap();
    let arguments = ["denied", "-n", &ns, "--controller-namespace", &ns];
    let groups = ["system:authenticated"];
    let user = format!("sam-{ns}");
    let sam = cluster.kubeconfig_for(&user, &groups).unwrap();
    let said = portcullis(&sam, &arguments).await;
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{}", said.err);
    assert!(said.err.contains("pods"), "{}", said.err);
    // Who may find the controller, and create no token of the viewer.
    let role = format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n\
         metadata: {{name: some, namespace: {ns}}}\nrules:\n\
         - {{apiGroups: [\"\"], resources: [pods, configmaps], verbs: [get, list]}}\n---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\n\
         metadata: {{name: some, namespace: {ns}}}\n\
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: some}}\n\
         subjects: [{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {user}}}]\n"
    );
    cluster.apply(&role).await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    let wanted = format!(
        "It needs in namespace {ns}: {{apiGroups: [\"\"], resources: [serviceaccounts/token], \
         resourceNames: [portcullis-viewer], verbs: [create]}}"
    );
    loop {
        let said = portcullis(&sam, &arguments).await;
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{}", said.err);
        if said.err.contains(&wanted) {
            let told = "no replica of the controller says what is refused";
            assert!(said.err.contains(told), "{}", said.err);
            return;
        }
        // The authorizer hears of the role a moment later.
        assert!(Instant::now() < deadline, "{}", said.err);
        sleep(Duration::from_millis(200)).await;
    }
}
