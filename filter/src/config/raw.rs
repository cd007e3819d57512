//! The configuration as it is written, and its way to one that cannot be wrong.

use kv_routing::policy::CostWeights;
use kv_routing::policy::document::Policy;
use kv_routing::tokens::{CacheLimits, SLICE_BYTES};
use serde::Deserialize;

use super::{ConfigError, IngestConfig, RouteConfig};

/// With the slice that ends it, a turn stays under 5 ms of an Envoy thread.
const DEFAULT_TURN_US: u32 = 3_000;
/// As much as `envoy/envoy.yaml` lets Envoy hold.
const DEFAULT_MAX_BODY_BYTES: u32 = 32 << 20;
/// Eight of the longest.
const DEFAULT_MAX_WAITING_BYTES: u32 = 256 << 20;
const DEFAULT_BRIDGE_CLUSTER: &str = "kv-bridge";
/// A prompt of 32,000 tokens takes the bridge's library some 100 ms.
const DEFAULT_BRIDGE_TIMEOUT_MS: u32 = 250;
pub(super) const DEFAULT_MAX_PUSH_BYTES: u32 = 64 << 20;

/// Only the role, to know what the rest should be.
#[derive(Deserialize)]
pub(super) struct RawRole {
    pub(super) role: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRoute {
    #[serde(rename = "role")]
    _role: String,
    pools: Option<Vec<String>>,
    endpoints: Option<u32>,
    temperature: Option<f64>,
    weights: Option<RawWeights>,
    slice_bytes: Option<u32>,
    turn_us: Option<u32>,
    max_body_bytes: Option<u32>,
    max_waiting_bytes: Option<u32>,
    cache_bytes: Option<u32>,
    bridge_cluster: Option<String>,
    bridge_timeout_ms: Option<u32>,
    explain_header: Option<bool>,
    model_header: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWeights {
    device_credit: Option<f64>,
    credit_decay: Option<f64>,
    prefill_scale: Option<f64>,
    host_credit: Option<f64>,
    disk_credit: Option<f64>,
    shared_credit: Option<f64>,
    request_weight: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawIngest {
    #[serde(rename = "role")]
    _role: String,
    secret: Option<String>,
    max_push_bytes: Option<u32>,
}

impl RawRoute {
    pub(super) fn resolve(self) -> Result<RouteConfig, ConfigError> {
        if self.pools.as_ref().is_some_and(Vec::is_empty) {
            return Err(value("pools", "is empty: name pools, or leave it out for all"));
        }
        let default = Policy::named("default");
        let endpoints = ranged("endpoints", self.endpoints.unwrap_or(u32::from(default.fallbacks) + 1), 1, 16)?;
        let policy = Policy {
            weights: weights(self.weights.unwrap_or_default(), self.temperature)?,
            fallbacks: u8::try_from(endpoints - 1).unwrap_or(u8::MAX),
            ..default
        };
        Ok(RouteConfig {
            pools: self.pools,
            policy,
            slice_bytes: ranged("slice_bytes", self.slice_bytes.unwrap_or(SLICE_BYTES), 1 << 10, 64 << 20)?,
            turn_us: ranged("turn_us", self.turn_us.unwrap_or(DEFAULT_TURN_US), 0, 1_000_000)?,
            max_body_bytes: ranged(
                "max_body_bytes",
                self.max_body_bytes.unwrap_or(DEFAULT_MAX_BODY_BYTES),
                1,
                1 << 28,
            )?,
            max_waiting_bytes: self.max_waiting_bytes.unwrap_or(DEFAULT_MAX_WAITING_BYTES),
            cache_bytes: ranged("cache_bytes", self.cache_bytes.unwrap_or(CacheLimits::default().bytes), 0, 1 << 28)?,
            bridge_cluster: self.bridge_cluster.unwrap_or_else(|| DEFAULT_BRIDGE_CLUSTER.to_owned()),
            bridge_timeout_ms: ranged(
                "bridge_timeout_ms",
                self.bridge_timeout_ms.unwrap_or(DEFAULT_BRIDGE_TIMEOUT_MS),
                1,
                60_000,
            )?,
            explain_header: self.explain_header.unwrap_or(false),
            model_header: self.model_header.unwrap_or(false),
        })
    }
}

impl RawIngest {
    pub(super) fn resolve(self) -> Result<IngestConfig, ConfigError> {
        if self.secret.as_ref().is_some_and(String::is_empty) {
            return Err(value("secret", "is empty: set one, or leave it out on a socket only the bridge can reach"));
        }
        let max_push_bytes = self.max_push_bytes.unwrap_or(DEFAULT_MAX_PUSH_BYTES);
        Ok(IngestConfig {
            secret: self.secret,
            max_push_bytes: ranged("max_push_bytes", max_push_bytes, 1 << 16, 1 << 28)?,
        })
    }
}

fn weights(raw: RawWeights, temperature: Option<f64>) -> Result<CostWeights, ConfigError> {
    let RawWeights {
        device_credit,
        credit_decay,
        prefill_scale,
        host_credit,
        disk_credit,
        shared_credit,
        request_weight,
    } = raw;
    let default = CostWeights::default();
    let weights = CostWeights {
        device_credit: device_credit.unwrap_or(default.device_credit),
        credit_decay: credit_decay.unwrap_or(default.credit_decay),
        prefill_scale: prefill_scale.unwrap_or(default.prefill_scale),
        host_credit: host_credit.unwrap_or(default.host_credit),
        disk_credit: disk_credit.unwrap_or(default.disk_credit),
        shared_credit: shared_credit.unwrap_or(default.shared_credit),
        request_weight: request_weight.unwrap_or(default.request_weight),
        temperature: temperature.unwrap_or(default.temperature),
    };
    weights.validate().map_err(|error| {
        let field =
            if error.field == "temperature" { error.field.to_owned() } else { format!("weights.{}", error.field) };
        ConfigError::Value {
            field,
            problem: format!("is {}: it must be a number from 0 to {}", error.value, error.max),
        }
    })
}

fn ranged(field: &str, found: u32, min: u32, max: u32) -> Result<u32, ConfigError> {
    if (min..=max).contains(&found) {
        Ok(found)
    } else {
        Err(value(field, &format!("is {found}: it must be from {min} to {max}")))
    }
}

fn value(field: &str, problem: &str) -> ConfigError {
    ConfigError::Value { field: field.to_owned(), problem: problem.to_owned() }
}
