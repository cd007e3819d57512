//! Wakes publishers when there may be something to push, or when somebody wants to know how an Envoy is now.

use std::sync::Arc;

use tokio::sync::Notify;

/// Position of an Envoy in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EnvoyIndex(pub usize);

/// Alarms for each Envoy. One that rings while its publisher is busy is not lost. Clones share the alarms.
#[derive(Clone, Debug)]
pub struct Wakes(Arc<[Alarms]>);

#[derive(Debug, Default)]
struct Alarms {
    changed: Notify,
    asked: Notify,
}

impl Wakes {
    /// Alarms for `envoys` Envoys.
    pub fn new(envoys: usize) -> Self {
        Self((0..envoys).map(|_| Alarms::default()).collect())
    }

    /// Number of Envoys.
    pub fn envoys(&self) -> usize {
        self.0.len()
    }

    /// Wakes every publisher: there may be something to push.
    pub fn wake_all(&self) {
        self.0.iter().for_each(|alarms| alarms.changed.notify_one());
    }

    /// Has `envoy` asked for its load rows soon, without waiting for the next heartbeat.
    pub fn ask(&self, envoy: EnvoyIndex) {
        if let Some(alarms) = self.0.get(envoy.0) {
            alarms.asked.notify_one();
        }
    }

    /// Waits until there may be something to push to `envoy`; forever for an Envoy that is not configured.
    pub async fn woken(&self, envoy: EnvoyIndex) {
        match self.0.get(envoy.0) {
            Some(alarms) => alarms.changed.notified().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until somebody asks for the load rows of `envoy`; forever for an Envoy that is not configured.
    pub async fn asked(&self, envoy: EnvoyIndex) {
        match self.0.get(envoy.0) {
            Some(alarms) => alarms.asked.notified().await,
            None => std::future::pending().await,
        }
    }
}
