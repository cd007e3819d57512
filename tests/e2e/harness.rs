//! The harness itself: what the tests and measurements rely on without looking at it again.

use std::time::Duration;

use e2e::client::Client;
use e2e::decision::LogLine;
use e2e::envoy::{Envoy, Options};
use e2e::scratch::Scratch;
use e2e::wait;
use serde_json::json;

/// Every variant of the configuration starts, and a request that nothing serves is logged in the format we parse.
#[tokio::test]
async fn envoy_starts_with_every_variant_of_the_configuration() {
    for options in [Options::default(), Options::without_filter(), Options::round_robin()] {
        let scratch = Scratch::new();
        scratch.replace("eds.json", &json!({"resources": []}).to_string());
        let mut envoy = Envoy::start(&scratch, &options).await;
        let reply = Client::new().get(&envoy.url("/nobody-serves-this")).await.unwrap();
        assert_eq!(reply.status, 503);
        let (lines, _) = wait::until("an access-log line", Duration::from_secs(5), || async {
            Some(envoy.access_log()).filter(|lines| !lines.is_empty())
        })
        .await;
        let line = LogLine::parse(&lines[0]);
        assert_eq!(line.status, 503);
        assert!(line.decision.is_none());
        envoy.stop().await;
    }
}
