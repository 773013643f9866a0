//! Log settings of a running sidecar follow the annotations of its pod.

use crate::world::{BASE, PATIENCE, World};
use policy_core::UndeclaredPorts;
use policy_enforce::record::{AccessLog, Recorder};
use policy_enforce::{PolicyStore, StoreConfig, Telemetry};
use policy_proxy::discover::{self, DiscoverConfig};
use policy_proxy::live_logs::LiveLogs;
use policy_proxy::log::{self, LogConfig};
use policy_proxy::sidecar::{Listener, Sidecar, SidecarConfig, Target};
use policy_testkit::{http1_client, wait_within};
use policy_tls::control::ControllerAddress;
use policy_tls::identity::IdentityHandle;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

const PORT: NonZeroU16 = NonZeroU16::new(crate::world::HTTP).unwrap();

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// Takes the text written since the last call.
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

async fn ask(address: SocketAddr) -> u16 {
    let mut client = http1_client(TcpStream::connect(address).await.unwrap()).await;
    let request = http::Request::get("/logged").header("host", "web");
    let request = request.body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
    client.send_request(request).await.unwrap().status().as_u16()
}

fn annotated(annotations: &str) -> String {
    let pod = format!("{{name: web, namespace: shop, annotations: {{{annotations}}}, labels");
    BASE.replacen("{name: web, namespace: shop, labels", &pod, 1)
}

#[tokio::test]
async fn a_pods_annotations_change_what_its_sidecar_logs_while_it_runs() {
    let world = World::start().await;
    let filter = LogConfig { filter: "error".to_owned(), json: false };
    let filter = Arc::new(log::init(&filter).unwrap());
    let lines = Lines::default();
    let access_log = Arc::new(AccessLog::switched(None, Box::new(lines.clone())));
    let recorder: Arc<dyn Recorder> = access_log.clone();
    let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
    store.declare(&[PORT].into(), UndeclaredPorts::Default);
    let controller = ControllerAddress::loopback(world.listens()).unwrap();
    let mut config = DiscoverConfig::new(controller, "shop:web");
    config.logs = Some(Arc::new(LiveLogs::new(Arc::clone(&filter), access_log)));
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    tokio::spawn(discover::run(config, store.clone(), IdentityHandle::empty(), stop));
    let mut config = SidecarConfig::new("shop/web");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let target = Target::Fixed { port: PORT, upstream: world.application.address() };
    config.listeners.push(Listener { address, target });
    let sidecar =
        Sidecar::start(config, store.clone(), IdentityHandle::empty(), Some(recorder)).unwrap();
    let address = sidecar.addresses()[0];
    store.port(PORT).ready(PATIENCE).await.expect("the policy arrives");
    let generation = || store.port(PORT).live().in_force().unwrap().generation;
    let becomes = async |wanted: &str| {
        wait_within(wanted, PATIENCE, async || filter.get() == wanted).await;
    };
    assert_eq!(ask(address).await, 200);
    assert_eq!(lines.take(), "", "as it was started");
    let before = generation();

    let debug = "warn,policy_proxy=debug";
    let names =
        format!("portcullis.dev/access-log: json, config.linkerd.io/proxy-log-level: '{debug}'");
    world.write("base.yaml", &annotated(&names));
    becomes(debug).await;
    assert_eq!(ask(address).await, 200);
    let line = lines.take();
    assert!(line.starts_with('{') && line.contains("\"uri\":\"/logged\""), "{line}");

    let names = "config.linkerd.io/access-log: apache, portcullis.dev/proxy-log-level: info";
    world.write("base.yaml", &annotated(names));
    becomes("info").await;
    assert_eq!(ask(address).await, 200);
    let line = lines.take();
    assert!(line.contains("\"GET /logged HTTP/1.1\" 200"), "{line}");

    let wrong = "portcullis.dev/access-log: xml, portcullis.dev/proxy-log-level: 'a=loud'";
    world.write("base.yaml", &annotated(wrong));
    becomes("error").await;
    assert_eq!(ask(address).await, 200);
    assert_eq!(lines.take(), "", "what cannot be read is as if it were not there");

    world.write("base.yaml", &annotated(&names.replace("apache", "json")));
    becomes("info").await;
    world.write("base.yaml", BASE);
    becomes("error").await;
    assert_eq!(ask(address).await, 200);
    assert_eq!(lines.take(), "", "as it was started");
    assert_eq!(generation(), before, "nothing is decided on again for a log's sake");
}
