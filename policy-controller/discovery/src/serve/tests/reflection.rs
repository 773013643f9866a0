//! Reflection, to clients that know nothing but the address.

use crate::serve::{AuthzConfig, ServeConfig};
use crate::testing::mesh::{Mesh, OWN, SUFFIX};
use crate::testing::{Harness, policy, soon};
use policy_proto::reflection::server_reflection_client::ServerReflectionClient;
use policy_proto::reflection::server_reflection_request::MessageRequest as Question;
use policy_proto::reflection::server_reflection_response::MessageResponse as Answer;
use policy_proto::reflection::{ErrorResponse, ExtensionRequest, ServerReflectionRequest};
use prost::Message as _;
use prost_types::FileDescriptorProto;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

/// A stream of questions.
struct Asking {
    questions: mpsc::Sender<ServerReflectionRequest>,
    answers: Streaming<policy_proto::reflection::ServerReflectionResponse>,
}

impl Asking {
    async fn over(channel: Channel) -> Result<Self, Status> {
        let (questions, receiver) = mpsc::channel(1);
        let mut client = ServerReflectionClient::new(channel);
        let opening = client.server_reflection_info(ReceiverStream::new(receiver));
        Ok(Self { questions, answers: soon(opening).await?.into_inner() })
    }

    async fn ask(&mut self, question: Question) -> Answer {
        let request =
            ServerReflectionRequest { host: "here".into(), message_request: Some(question) };
        self.questions.send(request.clone()).await.unwrap();
        let answer = soon(self.answers.message()).await.unwrap().unwrap();
        assert_eq!((answer.valid_host, answer.original_request), ("here".into(), Some(request)));
        answer.message_response.unwrap()
    }
}

fn error(code: Code, message: &str) -> Answer {
    let (error_code, error_message) = (code.into(), message.into());
    Answer::ErrorResponse(ErrorResponse { error_code, error_message })
}

/// The services of a server that nothing of Linkerd's outbound discovery is asked of.
const SERVICES: [&str; 7] = [
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
    "io.linkerd.proxy.inbound.InboundServerPolicies",
    "portcullis.policy.v1.DestinationDiscovery",
    "portcullis.policy.v1.PolicyDiscovery",
    "portcullis.policy.v1.PolicyReport",
];

/// A service that such a server does not have.
const UNSERVED: &str = "io.linkerd.proxy.destination.Destination";

#[tokio::test]
async fn a_client_of_tonic_learns_the_services_and_their_files() {
    let harness = Harness::with(ServeConfig::default()).await;
    let mut asking = Asking::over(harness.channel().await).await.unwrap();
    let Answer::ListServicesResponse(listed) = asking.ask(Question::ListServices("".into())).await
    else {
        panic!("no list");
    };
    let names: Vec<_> = listed.service.into_iter().map(|service| service.name).collect();
    assert_eq!(names, SERVICES);
    // Served where a cluster's domain is known.
    let unserved = asking.ask(Question::FileContainingSymbol(UNSERVED.into())).await;
    assert_eq!(unserved, error(Code::NotFound, &format!("no symbol `{UNSERVED}` here")));
    for name in SERVICES {
        let answer = asking.ask(Question::FileContainingSymbol(name.into())).await;
        let Answer::FileDescriptorResponse(answer) = answer else { panic!("{name}: {answer:?}") };
        let [file] = answer.file_descriptor_proto.as_slice() else { panic!("{name}") };
        let file = FileDescriptorProto::decode(file.as_slice()).unwrap();
        let of = file.service.iter().map(|s| format!("{}.{}", file.package(), s.name()));
        assert!(of.collect::<Vec<_>>().contains(&name.to_owned()), "{name}");
        let again = asking.ask(Question::FileByFilename(file.name().into())).await;
        assert_eq!(again, Answer::FileDescriptorResponse(answer), "{name}");
    }
    let of = "portcullis.policy.v1.Hello".to_owned();
    let Answer::AllExtensionNumbersResponse(none) =
        asking.ask(Question::AllExtensionNumbersOfType(of.clone())).await
    else {
        panic!("no numbers");
    };
    assert_eq!((none.base_type_name, none.extension_number), (of, Vec::new()));
    let extension = ExtensionRequest { containing_type: "a.B".into(), extension_number: 1 };
    for (question, refused) in [
        (Question::FileByFilename("/etc/passwd".into()), "no file `/etc/passwd` here"),
        (Question::FileContainingSymbol("a.B".into()), "no symbol `a.B` here"),
        (Question::AllExtensionNumbersOfType("a.B".into()), "no message `a.B` here"),
        (Question::FileContainingExtension(extension), "no extension of `a.B` here"),
    ] {
        assert_eq!(asking.ask(question).await, error(Code::NotFound, refused));
    }
}

/// As the tools do it: services, files, then a call by nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_grpc_go_calls_by_nothing_but_reflection_in_both_versions() {
    let harness = Harness::with(ServeConfig::default()).await;
    let pod = harness.index.pod("web-0", &[80]);
    harness.index.set(&pod, 80, &policy("web"), 1);
    for version in ["v1", "v1alpha"] {
        let mut client = Command::new("go");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/go");
        client.current_dir(folder).args(["run", "./reflection", &harness.address.to_string()]);
        client.args([version, "grpc.health.v1.Health.List", "{}"]).stderr(Stdio::inherit());
        let output = tokio::task::spawn_blocking(move || client.output()).await.unwrap().unwrap();
        assert!(output.status.success(), "{version}: {output:?}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let serving = json!({"status": "SERVING"});
        let statuses = json!({
            "": serving,
            "io.linkerd.proxy.inbound.InboundServerPolicies": serving,
            "portcullis.policy.v1.PolicyDiscovery": serving,
        });
        let expected = json!({"services": SERVICES, "response": {"statuses": statuses}});
        assert_eq!(found, expected, "{version}");
    }
}

#[tokio::test]
async fn reflection_is_for_callers_that_are_known_and_counts_as_a_watch() {
    let config = ServeConfig { max_streams_per_peer: 2, ..ServeConfig::default() };
    let mesh = Mesh::made(AuthzConfig::default(), config, |server, _| server).await;
    let stranger = mesh.connect(mesh.authority.stranger()).await.unwrap();
    let refused = Asking::over(stranger).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated, "{refused:?}");
    let greedy = mesh.channel(&format!("greedy.ns.{SUFFIX}")).await;
    let held =
        [Asking::over(greedy.clone()).await.unwrap(), Asking::over(greedy.clone()).await.unwrap()];
    let refused = Asking::over(greedy.clone()).await.map(|_| ()).unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    let mut other = Asking::over(mesh.channel(OWN).await).await.unwrap();
    let listed = other.ask(Question::ListServices("".into())).await;
    assert!(matches!(listed, Answer::ListServicesResponse(_)), "{listed:?}");
    drop(held);
    // The server notices a while later.
    let again = async {
        while Asking::over(greedy.clone()).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(again).await;
}

#[tokio::test]
async fn a_question_that_is_too_large_ends_its_stream_alone_and_shutdown_ends_all_with_ok() {
    let harness = Harness::with(ServeConfig::default()).await;
    let channel = harness.channel().await;
    let mut silent = Asking::over(channel.clone()).await.unwrap();
    let mut hosted = Asking::over(channel.clone()).await.unwrap();
    let mut asking = Asking::over(channel).await.unwrap();
    let long = Some(Question::FileByFilename("a".repeat(5000)));
    let request = ServerReflectionRequest { host: "".into(), message_request: long };
    asking.questions.send(request).await.unwrap();
    let ended = soon(asking.answers.message()).await.unwrap_err();
    assert_eq!(ended.code(), Code::OutOfRange, "{ended:?}");
    // An answer would repeat it.
    let message_request = Some(Question::ListServices("".into()));
    let request = ServerReflectionRequest { host: "a".repeat(256), message_request };
    hosted.questions.send(request).await.unwrap();
    let ended = soon(hosted.answers.message()).await.unwrap_err();
    assert_eq!((ended.code(), ended.message()), (Code::InvalidArgument, "host: 255 bytes at most"));
    harness.shutdown.cancel();
    assert_eq!(soon(silent.answers.message()).await.unwrap(), None);
    soon(harness.served).await.unwrap();
}
