//! What all threads of an Envoy share.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;

use crate::host::{HostError, Severity, Shared};

/// One Envoy process.
#[derive(Debug, Default)]
pub struct FakeEnvoy {
    /// Shared data: value and version by key.
    pub data: RefCell<BTreeMap<String, (Vec<u8>, u32)>>,
    /// Everything logged.
    pub logs: RefCell<Vec<(Severity, String)>>,
    /// Clusters that can be called.
    pub clusters: RefCell<HashSet<String>>,
    nanos: Cell<u64>,
    versions: Cell<u32>,
    seeds: Cell<u64>,
    queues: RefCell<Vec<Queue>>,
    counters: RefCell<Vec<(String, u64)>>,
    ids: RefCell<HashMap<String, u32>>,
}

#[derive(Debug)]
struct Queue {
    name: String,
    messages: VecDeque<Vec<u8>>,
}

impl FakeEnvoy {
    /// An Envoy whose clock stands at `millis`.
    pub fn at(millis: u64) -> Rc<Self> {
        let envoy = Self::default();
        envoy.nanos.set(millis * 1_000_000);
        Rc::new(envoy)
    }

    /// Moves the clock on.
    pub fn pass(&self, millis: u64) {
        self.nanos.set(self.nanos.get() + millis * 1_000_000);
    }

    /// The clock, in milliseconds.
    pub fn millis(&self) -> u64 {
        self.nanos.get() / 1_000_000
    }

    /// A counter's value by its name after `kv_router.`.
    pub fn count(&self, name: &str) -> u64 {
        let full = format!("kv_router.{name}");
        let counters = self.counters.borrow();
        let found = counters.iter().find(|(known, _)| *known == full);
        found.unwrap_or_else(|| panic!("no counter {full}")).1
    }

    /// Messages waiting in a queue.
    pub fn queued(&self, name: &str) -> usize {
        self.queues.borrow().iter().find(|queue| queue.name == name).map_or(0, |queue| queue.messages.len())
    }

    /// The clock, which moves by one nanosecond a look.
    pub(super) fn tick_nanos(&self) -> u64 {
        self.nanos.set(self.nanos.get() + 1);
        self.nanos.get()
    }

    pub(super) fn next_seed(&self) -> u64 {
        self.seeds.set(self.seeds.get() + 1000);
        self.seeds.get()
    }

    pub(super) fn shared(&self, key: &str) -> Shared {
        match self.data.borrow().get(key) {
            Some((value, version)) => {
                Shared { value: (!value.is_empty()).then(|| value.clone()), version: Some(*version) }
            }
            None => Shared::default(),
        }
    }

    /// As in Envoy, an expected version is compared only when the key exists.
    pub(super) fn set_shared(&self, key: &str, value: &[u8], expected: Option<u32>) -> Result<(), HostError> {
        let mut data = self.data.borrow_mut();
        if let (Some((_, version)), Some(expected)) = (data.get(key), expected)
            && *version != expected
        {
            return Err(HostError::Changed);
        }
        self.versions.set(self.versions.get() + 1);
        data.insert(key.to_owned(), (value.to_vec(), self.versions.get()));
        Ok(())
    }

    pub(super) fn register_queue(&self, name: &str) -> u32 {
        let mut queues = self.queues.borrow_mut();
        match queues.iter().position(|queue| queue.name == name) {
            Some(at) => at as u32,
            None => {
                queues.push(Queue { name: name.to_owned(), messages: VecDeque::new() });
                (queues.len() - 1) as u32
            }
        }
    }

    pub(super) fn queue(&self, name: &str) -> Option<u32> {
        self.queues.borrow().iter().position(|queue| queue.name == name).map(|at| at as u32)
    }

    pub(super) fn enqueue(&self, queue: u32, value: &[u8]) -> Result<(), HostError> {
        let mut queues = self.queues.borrow_mut();
        let found = queues.get_mut(queue as usize).ok_or(HostError::NoQueue)?;
        found.messages.push_back(value.to_vec());
        Ok(())
    }

    pub(super) fn dequeue(&self, queue: u32) -> Result<Option<Vec<u8>>, HostError> {
        let mut queues = self.queues.borrow_mut();
        let found = queues.get_mut(queue as usize).ok_or(HostError::NoQueue)?;
        Ok(found.messages.pop_front())
    }

    pub(super) fn counter(&self, name: &str) -> u32 {
        let mut counters = self.counters.borrow_mut();
        *self.ids.borrow_mut().entry(name.to_owned()).or_insert_with(|| {
            counters.push((name.to_owned(), 0));
            (counters.len() - 1) as u32
        })
    }

    pub(super) fn add(&self, counter: u32, amount: u32) {
        self.counters.borrow_mut()[counter as usize].1 += u64::from(amount);
    }
}
