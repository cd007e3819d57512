//! The host interface over proxy-wasm calls.
//!
//! Only getters that return bytes are used: those that return strings panic on what any client can send.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, UNIX_EPOCH};

use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, LogLevel, MapType, MetricType, Status};

use super::{Host, HostError, Severity, Shared};

/// Envoy.
#[derive(Clone, Copy, Debug, Default)]
pub struct EnvoyHost;

impl Host for EnvoyHost {
    fn now_nanos(&self) -> u64 {
        let since = hostcalls::get_current_time().ok().and_then(|now| now.duration_since(UNIX_EPOCH).ok());
        since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    fn seed(&self) -> u64 {
        RandomState::new().build_hasher().finish() ^ self.now_nanos()
    }

    fn configuration(&self) -> Vec<u8> {
        buffer(BufferType::PluginConfiguration, 0, usize::MAX)
    }

    fn set_tick_period(&self, millis: u32) {
        // The SDK has no other outcome than success.
        let _always_ok = hostcalls::set_tick_period(Duration::from_millis(u64::from(millis)));
    }

    fn log(&self, severity: Severity, line: &str) {
        let level = match severity {
            Severity::Info => LogLevel::Info,
            Severity::Warn => LogLevel::Warn,
            Severity::Error => LogLevel::Error,
        };
        let _always_ok = hostcalls::log(level, line);
    }

    fn enter(&self, context: u32) -> Result<(), HostError> {
        hostcalls::set_effective_context(context).map_err(|_| HostError::NoContext)
    }

    fn request_headers(&self) -> Vec<(String, Vec<u8>)> {
        hostcalls::get_map_bytes(MapType::HttpRequestHeaders).unwrap_or_default()
    }

    fn set_request_header(&self, name: &str, value: &[u8]) {
        let _always_ok = hostcalls::set_map_value_bytes(MapType::HttpRequestHeaders, name, Some(value));
    }

    fn remove_request_header(&self, name: &str) {
        let _always_ok = hostcalls::remove_map_value(MapType::HttpRequestHeaders, name);
    }

    fn request_body(&self, bytes: usize) -> Vec<u8> {
        buffer(BufferType::HttpRequestBody, 0, bytes)
    }

    fn set_request_body(&self, body: &[u8]) {
        let _always_ok = hostcalls::set_buffer(BufferType::HttpRequestBody, 0, usize::MAX, body);
    }

    fn resume_request(&self) {
        let _always_ok = hostcalls::resume_http_request();
    }

    fn reply(&self, status: u32, headers: &[(&str, &str)], body: &[u8]) {
        let _always_ok = hostcalls::send_http_response(status, headers.to_vec(), Some(body));
    }

    fn call(&self, cluster: &str, headers: &[(&str, &str)], body: &[u8], timeout_ms: u32) -> Result<u32, HostError> {
        let timeout = Duration::from_millis(u64::from(timeout_ms));
        hostcalls::dispatch_http_call(cluster, headers.to_vec(), Some(body), Vec::new(), timeout)
            .map_err(|_| HostError::NoCluster)
    }

    fn answer_header(&self, name: &str) -> Option<Vec<u8>> {
        hostcalls::get_map_value_bytes(MapType::HttpCallResponseHeaders, name).ok().flatten()
    }

    fn answer_body(&self, bytes: usize) -> Vec<u8> {
        buffer(BufferType::HttpCallResponseBody, 0, bytes)
    }

    fn response_header(&self, name: &str) -> Option<Vec<u8>> {
        hostcalls::get_map_value_bytes(MapType::HttpResponseHeaders, name).ok().flatten()
    }

    fn set_response_header(&self, name: &str, value: &[u8]) {
        let _always_ok = hostcalls::set_map_value_bytes(MapType::HttpResponseHeaders, name, Some(value));
    }

    fn response_body(&self, start: usize, bytes: usize) -> Vec<u8> {
        buffer(BufferType::HttpResponseBody, start, bytes)
    }

    fn attribute(&self, path: &[&str]) -> Option<Vec<u8>> {
        hostcalls::get_property(path.to_vec()).ok().flatten()
    }

    fn set_filter_state(&self, name: &str, value: &[u8]) {
        let _always_ok = hostcalls::set_property(vec![name], Some(value));
    }

    fn shared(&self, key: &str) -> Shared {
        hostcalls::get_shared_data(key).map(|(value, version)| Shared { value, version }).unwrap_or_default()
    }

    fn set_shared(&self, key: &str, value: &[u8], expected: Option<u32>) -> Result<(), HostError> {
        hostcalls::set_shared_data(key, Some(value), expected).map_err(|_| HostError::Changed)
    }

    fn register_queue(&self, name: &str) -> u32 {
        hostcalls::register_shared_queue(name).unwrap_or_default()
    }

    fn queue(&self, name: &str) -> Option<u32> {
        // An empty VM id means our own.
        hostcalls::resolve_shared_queue("", name).ok().flatten()
    }

    fn enqueue(&self, queue: u32, value: &[u8]) -> Result<(), HostError> {
        hostcalls::enqueue_shared_queue(queue, Some(value)).map_err(|_: Status| HostError::NoQueue)
    }

    fn dequeue(&self, queue: u32) -> Result<Option<Vec<u8>>, HostError> {
        hostcalls::dequeue_shared_queue(queue).map_err(|_: Status| HostError::NoQueue)
    }

    fn counter(&self, name: &str) -> u32 {
        hostcalls::define_metric(MetricType::Counter, name).unwrap_or_default()
    }

    fn add(&self, counter: u32, amount: u32) {
        // Refused only for an id that `counter` did not return.
        let _known_id = hostcalls::increment_metric(counter, i64::from(amount));
    }
}

fn buffer(kind: BufferType, start: usize, bytes: usize) -> Vec<u8> {
    hostcalls::get_buffer(kind, start, bytes).ok().flatten().unwrap_or_default()
}
