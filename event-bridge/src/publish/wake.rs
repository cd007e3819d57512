//! Wakes publishers when there may be something to push.

use std::sync::Arc;

use tokio::sync::Notify;

/// Position of an Envoy in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EnvoyIndex(pub usize);

/// One alarm per Envoy. An alarm that rings while its publisher is busy is not lost. Clones share the alarms.
#[derive(Clone, Debug)]
pub struct Wakes(Arc<[Notify]>);

impl Wakes {
    /// Alarms for `envoys` Envoys.
    pub fn new(envoys: usize) -> Self {
        Self((0..envoys).map(|_| Notify::new()).collect())
    }

    /// Number of Envoys.
    pub fn envoys(&self) -> usize {
        self.0.len()
    }

    /// Wakes every publisher.
    pub fn wake_all(&self) {
        self.0.iter().for_each(Notify::notify_one);
    }

    /// Waits until `envoy` is woken; forever for an Envoy that is not configured.
    pub async fn woken(&self, envoy: EnvoyIndex) {
        match self.0.get(envoy.0) {
            Some(notify) => notify.notified().await,
            None => std::future::pending().await,
        }
    }
}
