//! Plugin configuration: JSON in the filter's `configuration`, one object per filter entry.
//!
//! ```json
//! {"role": "route", "endpoints": 3, "explain_header": true}
//! {"role": "ingest"}
//! ```
//!
//! Every field but `role` has a default; an unknown or wrong one refuses the whole configuration and is named.

mod raw;

use kv_routing::policy::document::Policy;
use serde::de::DeserializeOwned;
use thiserror::Error;

use raw::{RawIngest, RawRole, RawRoute};

/// What one filter entry does.
#[derive(Clone, Debug, PartialEq)]
pub enum Config {
    /// Routes requests.
    Route(Box<RouteConfig>),
    /// Takes pushes from the bridge.
    Ingest(IngestConfig),
}

/// The routing role.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteConfig {
    /// Names of the pools this entry routes to; `None`: all.
    pub pools: Option<Vec<String>>,
    /// Applies to every request while the bridge has no policy document.
    pub policy: Policy,
    /// Bytes of new text tokenized before looking at the clock.
    pub slice_bytes: u32,
    /// Microseconds after which other requests of the thread get a turn.
    pub turn_us: u32,
    /// Longest body held; a longer one is let go unrouted.
    pub max_body_bytes: u32,
    /// Most bytes of prompts that wait for another turn in one VM; one more is routed as if it could not be tokenized.
    pub max_waiting_bytes: u32,
    /// Bytes of tokenized text remembered per tokenizer and VM.
    pub cache_bytes: u32,
    /// Cluster of the bridge's admin listener, asked for what the core cannot tokenize.
    pub bridge_cluster: String,
    /// Milliseconds to wait for its answer.
    pub bridge_timeout_ms: u32,
    /// Whether responses carry the decision.
    pub explain_header: bool,
    /// Whether requests carry the pool's or adapter's name as `x-gateway-model-name`.
    pub model_header: bool,
}

/// The ingest role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IngestConfig {
    /// Bearer token a push must carry; needed where others than the bridge can reach the listener.
    pub secret: Option<String>,
    /// Longest push taken.
    pub max_push_bytes: u32,
}

/// Why a configuration is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Not JSON, a field of the wrong type, or an unknown field.
    #[error("configuration: {0}")]
    Shape(String),
    /// `role` is something else.
    #[error("configuration: `role` is {found:?}: it must be \"route\" or \"ingest\"")]
    Role {
        /// What it was set to.
        found: String,
    },
    /// A value out of its range.
    #[error("configuration: `{field}` {problem}")]
    Value {
        /// Path of the field.
        field: String,
        /// What is wrong and what would be right.
        problem: String,
    },
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// [`ConfigError`], which names the field.
    pub fn parse(json: &[u8]) -> Result<Self, ConfigError> {
        let RawRole { role } = shape(json)?;
        match role.as_str() {
            "route" => shape::<RawRoute>(json)?.resolve().map(|route| Self::Route(Box::new(route))),
            "ingest" => shape::<RawIngest>(json)?.resolve().map(Self::Ingest),
            _ => Err(ConfigError::Role { found: role }),
        }
    }
}

fn shape<T: DeserializeOwned>(json: &[u8]) -> Result<T, ConfigError> {
    serde_json::from_slice(json).map_err(|error| ConfigError::Shape(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> String {
        Config::parse(json.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn roles_alone_are_enough() {
        let Config::Route(route) = Config::parse(br#"{"role":"route"}"#).unwrap() else { panic!("not a route") };
        assert_eq!((route.pools, route.policy, route.explain_header), (None, Policy::named("default"), false));
        let ingest = IngestConfig { secret: None, max_push_bytes: raw::DEFAULT_MAX_PUSH_BYTES };
        assert_eq!(Config::parse(br#"{"role":"ingest"}"#), Ok(Config::Ingest(ingest)));
    }

    #[test]
    fn everything_can_be_set() {
        let json = r#"{"role":"route","pools":["a"],"endpoints":2,"slice_bytes":4096,"turn_us":500,"max_body_bytes":1000,"max_waiting_bytes":5000,
            "cache_bytes":0,"bridge_cluster":"b","bridge_timeout_ms":7,"explain_header":true,"model_header":true,"temperature":0.5,
            "weights":{"device_credit":0.9,"credit_decay":1,"prefill_scale":2,"host_credit":0.5,"disk_credit":0.1,"shared_credit":0,
            "request_weight":4}}"#;
        let Config::Route(route) = Config::parse(json.as_bytes()).unwrap() else { panic!("not a route") };
        assert_eq!(route.pools, Some(vec!["a".to_owned()]));
        assert_eq!((route.policy.fallbacks, &*route.policy.name), (1, "default"));
        assert_eq!((route.slice_bytes, route.turn_us), (4096, 500));
        assert_eq!((route.max_body_bytes, route.max_waiting_bytes, route.cache_bytes), (1000, 5000, 0));
        assert_eq!((&*route.bridge_cluster, route.bridge_timeout_ms), ("b", 7));
        assert!(route.explain_header && route.model_header);
        let weights = route.policy.weights;
        assert_eq!((weights.temperature, weights.device_credit, weights.request_weight), (0.5, 0.9, 4.0));
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(refused("").contains("EOF"));
        assert!(refused("{}").contains("missing field `role`"));
        assert_eq!(refused(r#"{"role":"x"}"#), "configuration: `role` is \"x\": it must be \"route\" or \"ingest\"");
        assert!(refused(r#"{"role":"route","endpoint":3}"#).contains("unknown field `endpoint`"));
        assert!(refused(r#"{"role":"ingest","endpoints":3}"#).contains("unknown field `endpoints`"));
        assert!(refused(r#"{"role":"route","weights":{"x":1}}"#).contains("unknown field `x`"));
        assert!(
            refused(r#"{"role":"route","weights":{"host_credit":2}}"#)
                .contains("`weights.host_credit` is 2: it must be")
        );
        assert!(refused(r#"{"role":"route","temperature":-1}"#).contains("`temperature` is -1: it must be"));
        assert!(refused(r#"{"role":"route","endpoints":0}"#).contains("`endpoints` is 0: it must be from 1 to 16"));
        assert!(refused(r#"{"role":"route","slice_bytes":1}"#).contains("`slice_bytes`"));
        assert!(refused(r#"{"role":"route","pools":[]}"#).contains("`pools` is empty"));
        assert!(refused(r#"{"role":"ingest","secret":""}"#).contains("`secret` is empty"));
    }
}
