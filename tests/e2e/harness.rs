//! The harness itself works.

use e2e::client::Client;
use e2e::envoy::{Envoy, Options};
use e2e::scratch::Scratch;
use serde_json::json;

#[tokio::test]
async fn envoy_starts() {
    let scratch = Scratch::new();
    scratch.replace("eds.json", &json!({"resources": []}).to_string());
    let envoy = Envoy::start(&scratch, &Options::default()).await;
    let reply = Client::new().get(&envoy.url("/x")).await.unwrap();
    assert_eq!(reply.status, 503);
    e2e::wait::until("log", std::time::Duration::from_secs(2), || async {
        (!envoy.access_log().is_empty()).then_some(())
    })
    .await;
    println!("{:?}", envoy.access_log());
    envoy.stop().await;
}
