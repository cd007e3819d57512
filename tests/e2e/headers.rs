//! Headers, trailers and paths: what reaches the engine is what the client sent, except routing headers of ours.

use bytes::Bytes;
use e2e::bridge::Worker;
use e2e::client::{self, Body};
use e2e::envoy;
use e2e::prompt;
use e2e::recorder::{Recorder, Seen};
use e2e::stack::{Options, Stack};
use http_body_util::{BodyExt, StreamBody};
use hyper::Request;
use hyper::body::Frame;
use hyper::header::{HeaderMap, HeaderValue};

const DESTINATION: &str = "x-gateway-destination-endpoint";
const RANK: &str = "x-data-parallel-rank";
const MODEL: &str = "x-gateway-model-name";

async fn recorded(options: Options) -> (Stack, Recorder) {
    let recorder = Recorder::start().await;
    let worker = Worker { address: recorder.address.to_string(), events: None, ..Worker::default() };
    (Stack::start(&[worker], options).await, recorder)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().expect("ASCII"))
}

/// A client must not be able to choose its worker, nor to tell the engine a rank.
fn with_forged_headers(mut request: Request<Body>) -> Request<Body> {
    for (name, value) in [(DESTINATION, "203.0.113.1:1"), (RANK, "7"), (MODEL, "forged")] {
        request.headers_mut().append(name, HeaderValue::from_static(value));
        request.headers_mut().append(name, HeaderValue::from_static(value));
    }
    request
}

fn assert_not_forged(seen: &Seen) {
    for name in [DESTINATION, RANK, MODEL] {
        for value in seen.headers.get_all(name) {
            assert!(!["203.0.113.1:1", "7", "forged"].contains(&value.to_str().unwrap()), "{name} {value:?}");
        }
    }
}

#[tokio::test]
async fn forged_routing_headers_are_replaced() {
    let (mut stack, recorder) = recorded(Options::default()).await;
    let request = client::json(&stack.envoy.url("/v1/chat/completions"), &prompt::question("mock", 1, 50));
    stack.client.send(with_forged_headers(request)).await.unwrap().expect_ok();
    let seen = recorder.only();
    assert_not_forged(&seen);
    assert_eq!(text(&seen.headers, DESTINATION), Some(recorder.address.to_string().as_str()));
    assert_eq!(text(&seen.headers, RANK), None, "the worker has no ranks");
    assert_eq!(stack.next_decision().await.target, recorder.address.to_string());
}

#[tokio::test]
async fn other_paths_pass_untouched_but_cannot_choose_a_worker() {
    let (mut stack, recorder) = recorded(Options::default()).await;
    for path in ["/v1/files?purpose=x", "/v1/audio/transcriptions", "/tokenize"] {
        let mut request = client::json(&stack.envoy.url(path), &prompt::question("mock", 1, 50));
        request.headers_mut().insert("x-of-the-client", HeaderValue::from_static("kept"));
        stack.client.send(with_forged_headers(request)).await.unwrap().expect_ok();
        let seen = recorder.seen().pop().unwrap();
        assert_eq!(seen.path, path);
        assert_eq!(text(&seen.headers, "x-of-the-client"), Some("kept"));
        assert_eq!(seen.body, prompt::question("mock", 1, 50).to_string());
        assert_not_forged(&seen);
        assert!(stack.next_line().await.decision.is_none(), "{path} is not an inference path");
    }
}

#[tokio::test]
async fn headers_that_are_not_utf8_arrive_unchanged() {
    let (mut stack, recorder) = recorded(Options::default()).await;
    let odd = HeaderValue::from_bytes(b"caf\xe9 \xff\xfe").unwrap();
    let mut request = client::json(&stack.envoy.url("/v1/chat/completions"), &prompt::question("mock", 1, 50));
    for name in ["x-odd", "user-agent", DESTINATION] {
        request.headers_mut().insert(name, odd.clone());
    }
    stack.client.send(request).await.unwrap().expect_ok();
    let seen = recorder.only();
    assert_eq!(seen.headers["x-odd"], odd);
    assert_eq!(seen.headers["user-agent"], odd);
    assert_eq!(text(&seen.headers, DESTINATION), Some(recorder.address.to_string().as_str()));
    stack.next_decision().await;
}

/// With trailers the last body chunk does not end the stream.
#[tokio::test]
async fn a_request_with_trailers_is_routed() {
    let options = envoy::Options::default().edit(
        "stat_prefix: ingress\n",
        "stat_prefix: ingress\n          http_protocol_options: { enable_trailers: true }\n",
    );
    let (mut stack, recorder) = recorded(Options { envoy: options, ..Options::default() }).await;
    let document = prompt::question("mock", 1, 200).to_string();
    let (first, second) = document.split_at(document.len() / 2);
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", HeaderValue::from_static("1234"));
    let frames = [
        Frame::data(Bytes::from(first.to_owned())),
        Frame::data(Bytes::from(second.to_owned())),
        Frame::trailers(trailers),
    ];
    let body = StreamBody::new(futures_util::stream::iter(frames.map(Ok::<_, std::convert::Infallible>))).boxed();
    let request = Request::post(stack.envoy.url("/v1/chat/completions"))
        .header("content-type", "application/json")
        .header("trailer", "x-checksum")
        .body(body)
        .unwrap();
    stack.client.send(request).await.unwrap().expect_ok();
    assert_eq!(recorder.only().body, document);
    stack.next_decision().await;
}

/// What is no JSON, no object, or has no prompt is the engine's business: it passes, unchanged, and the log says why.
#[tokio::test]
async fn bodies_that_cannot_be_read_pass_unchanged() {
    let (mut stack, recorder) = recorded(Options::default()).await;
    let bodies: [(&[u8], &str); 6] = [
        (b"", "no_body"),
        (b"{", "bad_body"),
        (b"[1,2,3]", "bad_body"),
        (b"{\"model\":7,\"prompt\":\"x\"}", "bad_body"),
        (b"\xff\xfe\x00not json", "bad_body"),
        (b"{\"model\":\"unknown\",\"prompt\":\"x\"}", "unknown_model"),
    ];
    for (body, reason) in bodies {
        let request = Request::post(stack.envoy.url("/v1/completions")).body(client::full(body)).unwrap();
        stack.client.send(request).await.unwrap().expect_ok();
        assert_eq!(recorder.seen().pop().unwrap().body, body);
        let line = stack.next_line().await;
        assert_eq!(line.unrouted.as_deref(), Some(reason), "{}", String::from_utf8_lossy(body));
    }
    assert_eq!(recorder.seen().len(), bodies.len());
}
