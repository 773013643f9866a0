//! The sidecar in the pod.

use crate::support::*;
use policy_testkit::wait_until_blocking;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Child;

/// The binary in the pod, as the sidecar's user.
pub(crate) struct Sidecar {
    child: Child,
    log: PathBuf,
}

impl Sidecar {
    /// Starts without a reachable controller, so that the default policy decides, which permits
    /// everything.
    pub(crate) fn start(world: &World) -> Self {
        let ips = POD.map(|ip| ip.to_string()).join(",");
        Self::open(world, &["--inbound-ips", &ips, "--listen", "[::]:4143"])
    }

    /// The same without redirection: connections to port 4143 go to this application.
    pub(crate) fn forwarding(world: &World, application: SocketAddr) -> Self {
        let forward = format!("[::]:4143,{},{application}", application.port());
        Self::open(world, &["--forward", &forward])
    }

    fn open(world: &World, flags: &[&str]) -> Self {
        let nobody = SocketAddr::from(([127, 0, 0, 1], 1));
        let open = ["--pending-policy", "default", "--default-policy", "all-unauthenticated"];
        Self::run(world, nobody, &[flags, &open].concat())
    }

    /// Starts with this controller.
    pub(crate) fn following(world: &World, controller: SocketAddr, flags: &[&str]) -> Self {
        Self::run(world, controller, &[&["--listen", "[::]:4143"], flags].concat())
    }

    fn run(world: &World, controller: SocketAddr, flags: &[&str]) -> Self {
        // The sidecar's user cannot enter the build directory.
        let binary = world.files.path().join("policy-proxy");
        // Copied by another process: processes that other tests start here would inherit the copy
        // open for writing, and such a file cannot be executed.
        let mut copy = std::process::Command::new("cp");
        // `.ci/long` measures one that is optimised.
        let built = std::env::var_os("PORTCULLIS_LONG_PROXY");
        let built = built.unwrap_or_else(|| env!("CARGO_BIN_EXE_policy-proxy").into());
        let copied = copy.arg(built).arg(&binary).status().unwrap();
        assert!(copied.success(), "{copied}");
        let mut words = vec!["setpriv", "--reuid=2102", "--regid=2102", "--clear-groups"];
        words.push(binary.to_str().unwrap());
        let controller = controller.to_string();
        words.extend("run --identity none --workload ns:web-0 --policy-addr".split(' '));
        words.extend([&controller, "--admin", "[::]:4191"]);
        words.extend(flags);
        let log = world.files.path().join("log");
        let mut command = world.pod.command(&words);
        let child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        let sidecar = Self { child, log };
        let listens = || {
            let table = world.pod.run("cat /proc/self/net/tcp6");
            // 4143 and 4191, listening (proc_pid_net(5)).
            [":102F ", ":105F "]
                .iter()
                .all(|port| table.lines().any(|line| line.contains(port) && line.contains(" 0A ")))
        };
        wait_until_blocking("the sidecar listens", listens);
        sidecar
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The test runner shows it for a failed test.
        eprint!("{}", self.log());
    }
}
