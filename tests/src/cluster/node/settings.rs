//! The configuration of a node's programs.

use super::images::PAUSE;
use super::sandbox::Sandbox;
use serde_json::{Value, json};
use std::path::Path;

/// Socket of containerd, in the node's own `/run`.
pub(super) const CONTAINERD: &str = "/run/containerd/containerd.sock";

/// Address of CoreDNS's readiness, on the node.
pub(super) const DNS_READY: &str = "127.0.0.1:8181";

/// containerd's.
pub(super) fn containerd(home: &Path) -> String {
    let home = home.display();
    format!(
        r#"version = 2
root = "{home}/containerd"
state = "/run/containerd/state"
[grpc]
address = "{CONTAINERD}"
[plugins."io.containerd.internal.v1.opt"]
path = "{home}/opt"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
# Without CAP_SYS_RESOURCE no process may be made less likely to be killed than its parent is.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "overlayfs"
default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = false
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = "{home}/cni"
"#
    )
}

/// The pods' network: IPv4 and IPv6 on the bridge.
pub(super) fn cni() -> Value {
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni",
                    "ranges": [
                        [{
                            "subnet": Sandbox::POD_NETWORKS[0],
                            "rangeStart": "10.88.1.1",
                            "rangeEnd": "10.88.200.254",
                            "gateway": Sandbox::BRIDGE,
                        }],
                        [{
                            "subnet": Sandbox::POD_NETWORKS[1],
                            "rangeStart": "fd10:88::1:1",
                            "rangeEnd": "fd10:88::1:ffff",
                            "gateway": Sandbox::BRIDGE_V6,
                        }],
                    ],
                    "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
}

/// The kubelet's; `files` are the authority of its clients, its certificate and its key, `cgroup` is
/// where those of pods are.
pub(super) fn kubelet(files: [&Path; 3], cgroup: &str) -> Value {
    let [authority, certificate, key] = files;
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "::",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": authority},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": certificate,
        "tlsPrivateKeyFile": key,
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD}"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{cgroup}"),
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "10Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "",
        "clusterDNS": [Sandbox::NODE],
        "clusterDomain": "cluster.local",
        "maxPods": 200,
        "syncFrequency": "1s",
        "nodeStatusUpdateFrequency": "2s",
        "serializeImagePulls": false,
        "shutdownGracePeriod": "0s",
        // A container that waits for something comes back soon after that is there.
        "featureGates": {"KubeletCrashLoopBackOffMax": true},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
        // Nothing is to depend on the kubelet finding files in fixed places of this machine.
        "volumePluginDir": "/run/volume-plugins",
    })
}

/// kube-proxy's.
pub(super) fn kube_proxy(kubeconfig: &Path) -> Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig},
        "mode": "iptables",
        "clusterCIDR": Sandbox::POD_NETWORKS.join(","),
        "iptables": {"syncPeriod": "5s", "minSyncPeriod": "100ms"},
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "healthzBindAddress": "127.0.0.1:10256",
        "metricsBindAddress": "127.0.0.1:10249",
    })
}

/// CoreDNS'.
pub(super) fn corefile(kubeconfig: &Path) -> String {
    format!(
        "cluster.local in-addr.arpa ip6.arpa {{
    bind {node}
    errors
    ready {DNS_READY}
    cache 2
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 2
    }}
}}
",
        node = Sandbox::NODE,
        kubeconfig = kubeconfig.display(),
    )
}
